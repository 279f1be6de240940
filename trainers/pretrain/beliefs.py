"""What a seat knows exactly in the course of its chat, for a model that learns to deduce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from arena.core.analysis import PlacedKnowledge, Placement
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import Observation
from arena.llm.backend import Message

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Belief:
    """Exact knowledge of hidden places at one point of a chat."""

    message: int
    """Index of the message in the chat."""
    chars: int
    """Characters of the message after which the seat knows this; 0: before it is written."""
    things: tuple[str, ...]
    kinds: tuple[str, ...]
    places: tuple[str, ...]
    single: str
    rows: bytes
    """Probabilities as float32, [things, places]; see `Placement`."""

    def probabilities(self) -> NDArray[np.float32]:
        """Return P(thing is in place), [things, places]; a row of zeros has no hidden place."""
        return np.frombuffer(self.rows, np.float32).reshape(-1, len(self.places))


class BeliefRecorder:
    """Follows one seat's events, and records its knowledge after each of them."""

    def __init__(self, game: Game, player: int) -> None:
        self.found: list[Belief] = []
        self._game = game
        self._knowledge = placed_knowledge(game, player)
        self._rows: list[bytes] = []
        """After each event."""
        self._read = 0
        """Number of events in the messages so far."""

    def forget_messages(self) -> None:
        """Begin again: the chat is rebuilt as one message."""
        self.found.clear()
        self._read = 0

    def read(self, observation: Observation, messages: Sequence[Message]) -> None:
        """Record the knowledge in the last message, which asks, and before the answer to it."""
        for event in observation.events_since(len(self._rows)):
            self._knowledge.update(event)
            now = self._knowledge.placement()
            rows = np.zeros((len(now.things), len(now.places)), np.float32)
            rows[: len(now.probabilities)] = now.probabilities
            self._rows.append(rows.tobytes())
        now, last = self._knowledge.placement(), len(messages) - 1
        # News come first in the message, so that the text without the later ones is its beginning.
        earlier = replace(observation, legal_actions=self._game.no_actions)
        points = []
        for count in range(self._read + 1, observation.num_events):
            said = replace(earlier, num_events=count).text("events", self._read)
            if said and messages[last].content.startswith(said):
                points.append((last, len(said), count))
        points.append((last + 1, 0, observation.num_events))
        for message, chars, count in points:
            self.found.append(
                Belief(message, chars, now.things, now.kinds, now.places, now.single,
                       self._rows[count - 1])
            )  # fmt: skip
        self._read = observation.num_events


def placed_knowledge(game: Game, player: int) -> PlacedKnowledge:
    """Return exact knowledge of a seat before the first event. Raises UsageError without one."""
    knowledge = game.analysis.knowledge(player)
    if not isinstance(knowledge, PlacedKnowledge):
        raise UsageError(
            f"{game.name} does not compute exactly where hidden things are, so there is nothing to "
            "learn from; choose another game, e.g. cluedo"
        )
    return knowledge


def places_of(games: Sequence[Game]) -> tuple[str, ...]:
    """Return the names of all places in these games, each once."""
    found: dict[str, None] = {}
    for game in games:
        placement: Placement = placed_knowledge(game, 0).placement()
        found.update(dict.fromkeys(placement.places))
    return tuple(found)
