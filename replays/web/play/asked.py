"""Ask a player for its move at a position of a replay."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import Field

from arena.agents.chat import ChatOptions
from arena.core.errors import UsageError
from arena.episodes.policy_agreement import PolicyAgreement, RecordedDecision
from arena.episodes.replay import Replay
from arena.llm.service import LLMService
from replays.web.exchange import ReplayForm


class AskedPlayer(ReplayForm):
    """A wish to see the move of a player at a decision."""

    ply: Annotated[int, Field(ge=0, le=10**6)]
    spec: Annotated[str, Field(max_length=200)]


class ProposedJson(TypedDict):
    """The move of a player beside the one that was played."""

    action: str | None
    """None: it gave no legal action."""
    failure: str | None
    is_same: bool
    reply: str | None
    """The last reply of a model."""


class PlayerAtDecision:
    """One decision of a replay, at which a player is asked.

    Args:
        replay: The replay.
        wanted: The decision and the player.
        chat: How a model is asked.
        llm: Answers for a model.

    Raises:
        UsageError: At this ply no player has decided, or the SPEC names no agent.
        ReplayError: The replay does not fit the rules.
    """

    def __init__(
        self, replay: Replay, wanted: AskedPlayer, chat: ChatOptions, llm: LLMService | None
    ) -> None:
        seats = range(len(replay.header.players))
        self._agreement = PolicyAgreement(replay, wanted.spec, seats, replay.header.seed, llm, chat)
        self._agreement.check()
        self._decision = self._find(wanted.ply)

    def _find(self, ply: int) -> RecordedDecision:
        for decision in self._agreement.recorded_decisions():
            if decision.ply == ply:
                return decision
        raise UsageError(f"ply {ply}: no player chose between several moves there")

    async def ask(self) -> ProposedJson:
        """Return the move of the player. Raises StopPlaying, for example without budget."""
        await self._agreement.ask([self._decision], 1, lambda: None)
        decision = self._agreement.answers[self._decision.ply]
        played, failure = self._decision.played, decision.failure
        attempts = decision.details.get("attempts")
        last = attempts[-1] if isinstance(attempts, list) and attempts else None
        reply = last.get("reply") if isinstance(last, dict) else None
        return {
            "action": None if failure else str(decision.action),
            "failure": failure,
            "is_same": failure is None and decision.action == played.action,
            "reply": reply if isinstance(reply, str) else None,
        }
