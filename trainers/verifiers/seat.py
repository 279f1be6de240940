"""Seat of a model that verifiers serves.

verifiers records the calls of a *rollout*: a harness sends them to an address on this machine with
a password of its own, and verifiers passes them on to the model. Here the harness is arena's
`ChatAgent`: one segment of the rollout is one decision, with all its corrections. So the trace
holds what the model has read, and the game's prompts and parser are the same as everywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import SecretStr

from arena.agents.agent import Seat
from arena.agents.chat import Attempt
from arena.agents.chat_agent import ChatAgent
from arena.core.errors import ArenaError, StopPlaying
from arena.core.observation import Observation
from arena.core.ply import Decision
from arena.core.text import shorten
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from backends.openai_http import HTTPBackend

if TYPE_CHECKING:
    from verifiers.v1 import Interaction, Trace

PATIENCE = 24 * 3600.0
"""Seconds. verifiers limits the time of a rollout (`--env.seat_0.timeout.rollout`), not this."""


@dataclass(slots=True)
class Segment:
    """One segment of a rollout: one decision."""

    observation: Observation
    decision: Decision | None = None


class ModelSeat:
    """Agent that lets the model of an open rollout decide.

    Args:
        interaction: The rollout, open until the game has ended.
        settings: Retries of calls that fail.
    """

    def __init__(self, interaction: Interaction, settings: Settings) -> None:
        self._interaction = interaction
        self._settings = settings
        self._llm = LLMService(settings)
        self._agent: ChatAgent | None = None
        self._seat: Seat | None = None
        self._segment: Segment | None = None
        interaction.trace.state.decide = self._decide

    @property
    def trace(self) -> Trace:
        """The record of the rollout."""
        return self._interaction.trace

    @property
    def spec(self) -> str:
        """Name of the player in replays."""
        return f"verifiers:{self.trace.agent.config.model}"

    def sit(self, seat: Seat) -> None:
        """Take the seat of a game, before its first move."""
        self._seat = seat

    async def act(self, observation: Observation) -> Decision:
        """Run one segment of the rollout.

        Raises:
            ArenaError: verifiers has ended the rollout at one of its limits. The runner plays
                fallback moves for the rest of the game.
            StopPlaying: The model gave no answer.
        """
        self._check_rollout()
        self._segment = segment = Segment(observation)
        # The text is not sent: the chat agent writes the request.
        await self._interaction.turn("Your move.")
        if segment.decision is None:
            self._check_rollout()
            raise StopPlaying(
                f"{self.spec}: the rollout made no decision; --env.seat_N.harness must be unset"
            )
        return segment.decision

    async def close(self) -> None:
        """Close the connections."""
        await self._llm.close()

    def _check_rollout(self) -> None:
        """Raise the error of a rollout that has failed or ended."""
        if self.trace.errors:
            raise StopPlaying(f"{self.spec}: {shorten(self.trace.errors[-1].message)}")
        if self.trace.stop_condition is not None:
            raise ArenaError(f"verifiers has ended the rollout: {self.trace.stop_condition}")

    async def _decide(self, endpoint: str, secret: str) -> None:
        """Decide, within a segment; calls go to `endpoint` with the bearer token `secret`."""
        segment = self._segment
        assert self._seat is not None and segment is not None, "called by `act`"
        if self._agent is None:
            self._agent = self._make_agent(self._seat, endpoint, secret)
        decision = await self._agent.act(segment.observation)
        if self.trace.stop_condition is None and (reason := _unanswered(decision)):
            # verifiers replaces this error by that of the model's provider, which it has kept.
            raise ArenaError(reason)
        segment.decision = decision

    def _make_agent(self, seat: Seat, endpoint: str, secret: str) -> ChatAgent:
        limits = self._settings.service.limits("verifiers")
        one_call = {"concurrency": 1, "read_timeout": PATIENCE, "call_timeout": PATIENCE}
        # The name of the model is overwritten by verifiers, which knows the right one.
        backend = HTTPBackend(
            endpoint, "model", limits.model_copy(update=one_call), SecretStr(secret)
        )
        self._llm.add(self.spec, backend)
        return ChatAgent(self.spec, replace(seat, llm=self._llm))


def _unanswered(decision: Decision) -> str:
    """Return why the provider gave no answer; empty if it did, or if the chat was too long."""
    attempts = decision.details.get("attempts")
    if not isinstance(attempts, list) or not attempts:
        return ""
    last = Attempt.model_validate(attempts[-1])
    # A chat that is too long even after shortening is the model's own fault.
    failed = last.failure == "provider_error" and last.cause != "context_length"
    return last.excerpt if failed else ""
