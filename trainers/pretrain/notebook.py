"""The right entries of a notebook, by exact knowledge: what a model learns to write."""

from __future__ import annotations

from collections.abc import Iterator

from arena.agents.notebook import (
    HAS,
    LACKS,
    NOTES,
    NOTES_END,
    OR,
    UNKNOWN,
    ModelNotebook,
    split_entry,
)
from arena.core.analysis import PlacedKnowledge, Placement
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import GameText, Observation


class ExactNotebook(ModelNotebook):
    """Notebook of one seat beside what the seat could know.

    An entry has the whole table, in the order of the deck, whatever was written before: the next
    entry corrects a false row.
    """

    def __init__(self, game: Game, player: int) -> None:
        """Raise UsageError if the game does not compute exactly where hidden things are."""
        self._own = game.seat_names[player]
        self._knowledge = placed_knowledge(game, player)
        self._known = 0
        """Number of events that the knowledge has read."""
        super().__init__(self._knowledge.placement())
        self._listed = 0
        """Number of lines about what is lacking that earlier entries should have had."""
        self._lines: dict[int, str] = {}
        """Alternatives that the latest entry should have named, by number."""
        self._settled: set[int] = set()
        """Numbers of those that an entry has named as one thing."""

    def entry(self, observation: Observation) -> str:
        """Return the right entry now, with its marks.

        It is empty at a decision before which the game asks for no beliefs.
        """
        for event in observation.events_since(self._known):
            self._knowledge.update(event)
        self._known = observation.num_events
        text = observation.game.text
        asks = type(text).belief_question is not GameText.belief_question
        if asks and text.belief_question(observation) is None:
            return ""
        now = self._knowledge.placement()
        lines = [*self._lacking(now), *self._alternatives(now), *self._rows(now)]
        if now.single:
            lines.append(f"{now.single}: {'; '.join(_contents(now))}")
        return "".join([NOTES, *(f"{line}\n" for line in lines), NOTES_END])

    def _lacking(self, now: Placement) -> Iterator[str]:
        """Yield what other places newly turned out to lack."""
        for places, things in now.none_of[self._listed :]:
            if others := [place for place in places if place != self._own]:
                yield f"{', '.join(others)}{LACKS}{', '.join(things)}"
        self._listed = len(now.none_of)

    def _alternatives(self, now: Placement) -> Iterator[str]:
        """Yield of which things a place holds one: what is new, and what was open before."""
        self._lines = {
            number: f"{place}{HAS}{OR.join(things)}"
            for number, (place, things) in enumerate(now.one_of)
            if number not in self._settled
        }
        return iter(dict.fromkeys(self._lines.values()))

    def read(self, reply: str) -> None:
        super().read(reply)
        written = split_entry(reply)[0].splitlines()
        self._settled |= {
            n for n, line in self._lines.items() if OR not in line and line in written
        }

    def _rows(self, now: Placement) -> Iterator[str]:
        """Yield where each thing may be that is not in the own hand, which is in the chat."""
        own = now.places.index(self._own) if self._own in now.places else None
        labels = tuple(self.places)
        for thing, row in zip(now.things, now.probabilities, strict=False):
            where = [number for number, probability in enumerate(row) if probability > 0]
            # All zeros: everybody sees the thing.
            if where and where != [own]:
                yield f"{thing} {''.join(labels[number] for number in where)}"


def _contents(now: Placement) -> Iterator[str]:
    """Yield for each kind the thing that is certainly in the single place, or a question mark."""
    column = now.places.index(now.single)
    rows = list(zip(now.things, now.kinds, now.probabilities, strict=False))
    for kind in dict.fromkeys(now.kinds):
        left = [thing for thing, each, row in rows if each == kind and row[column] > 0]
        yield left[0] if len(left) == 1 else UNKNOWN


def placed_knowledge(game: Game, player: int) -> PlacedKnowledge:
    """Return exact knowledge of a seat before the first event. Raises UsageError without one."""
    knowledge = game.analysis.knowledge(player)
    if not isinstance(knowledge, PlacedKnowledge):
        raise UsageError(
            f"{game.name} does not compute exactly where hidden things are, so there is nothing to "
            "learn from; choose another game, e.g. cluedo"
        )
    return knowledge
