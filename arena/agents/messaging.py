"""Base of agents that answer JSON messages: what they are sent, and what their faults cost.

docs/guides/agents.md specifies the messages. They hold what the seat may know and nothing else. An
illegal action costs a fallback move. An agent that breaks the protocol or exceeds a limit of time
is stopped, and fallback moves play its seat to the end of the game.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import ClassVar

from pydantic import JsonValue

from arena.agents.agent import Seat
from arena.agents.chat import full_rules
from arena.core.action import Action
from arena.core.errors import ActionError, ArenaError, InvalidAction
from arena.core.event import Decision
from arena.core.observation import Observation
from arena.core.text import shorten
from arena.llm.settings import Settings

PROTOCOL = 1
MAX_LISTED = 1_000
"""Legal actions in a message; negotiation may have tens of thousands."""
MAX_FAILURE = 500
"""Characters of the reason for a fallback move."""
MAX_COMMENT = 2_000
"""Characters of the comment and the name that a replay keeps."""

Answer = Mapping[str, JsonValue]


class MessagingAgent(ABC):
    """Plays one seat by exchanging messages with something outside of arena."""

    decision_seconds = None
    """The match sets no timer: an agent that is late is stopped, too."""
    subject: ClassVar[str]
    """The agent in the reasons of fallback moves: `the program`."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._limits = Settings.load().agent
        own = self._limits.decision_seconds
        self._seconds = own if seat.decision_seconds is None else min(own, seat.decision_seconds)
        self._is_started = False
        self._stopped = ""
        """Why the agent was stopped before the end of the game."""
        self._read = 0
        self._asked = 0

    async def act(self, observation: Observation) -> Decision:
        details: dict[str, JsonValue] = {}
        try:
            return Decision(await self._ask(observation, details), details=details)
        except ArenaError as error:
            failure, is_broken = str(error), not isinstance(error, ActionError)
        if is_broken:
            await self.close()
        failure = shorten(failure + self._add_output(details), MAX_FAILURE)
        if is_broken:
            self._stopped = failure
        choices = observation.game.fallback_actions(observation)
        return Decision(self._seat.rng.choice(choices), failure, details)

    @abstractmethod
    async def close(self) -> None:
        """Release everything that is held open."""

    @abstractmethod
    async def _start(self) -> JsonValue:
        """Connect and return the agent's name. Raises ArenaError."""

    @abstractmethod
    async def _exchange(self, question: dict[str, JsonValue]) -> Answer:
        """Send a question and return the answer. Raises ArenaError."""

    def _add_output(self, _details: dict[str, JsonValue]) -> str:
        """Add what the agent has printed to the details; return the end of a failure's text."""
        return ""

    async def _ask(self, observation: Observation, details: dict[str, JsonValue]) -> Action:
        """Return the action of the agent's answer, and add to the details of the decision."""
        if self._stopped:
            raise ArenaError(self._stopped)
        if not self._is_started:
            limit = self._limits.start_seconds
            async with self._time_limit(limit, "did not answer the first message"):
                name = await self._start()
            self._is_started = True
            if isinstance(name, str):
                details["program"] = name[:MAX_COMMENT]
        async with self._time_limit(self._seconds, "gave no answer"):
            answer = await self._exchange(self._question(observation))
        if isinstance(comment := answer.get("comment"), str):
            details["comment"] = comment[:MAX_COMMENT]
        chosen = self._choose(answer, observation)
        self._add_output(details)
        return chosen

    def _choose(self, answer: Answer, observation: Observation) -> Action:
        """Return the action that an answer names. Raises ActionError."""
        action = answer.get("action")
        if not isinstance(action, str):
            raise InvalidAction('the answer has no text "action"')
        return observation.parse(action)

    def _start_message(self) -> dict[str, JsonValue]:
        game = self._seat.game
        return {
            "type": "start",
            "protocol": PROTOCOL,
            "game": game.name,
            "options": game.options.model_dump(mode="json"),
            "seat": self._seat.player,
            "names": list(game.seat_names),
            "rules": full_rules(game, self._seat.turn_limit),
        }

    def _question(self, observation: Observation) -> dict[str, JsonValue]:
        """Return the message of a decision: what is new for the seat, and what it may do."""
        legal, read = observation.legal_actions, self._read
        self._read, self._asked = observation.num_events, self._asked + 1
        return {
            "type": "act",
            "turn": self._asked - 1,
            "text": observation.text(self._seat.text_level, read),
            "events": [event.to_json() for event in observation.events_since(read)],
            "legal_actions": [str(action) for action in legal[:MAX_LISTED]],
            "left_out": max(0, len(legal) - MAX_LISTED),
            "speech": [offer.kind.notation() for offer in legal.speech],
        }

    @asynccontextmanager
    async def _time_limit(self, seconds: float, failure: str) -> AsyncIterator[None]:
        """Raise ArenaError with this text if the block takes longer."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise ArenaError(f"{self.subject} {failure} within {seconds:g} seconds") from None
