"""The right entries of a notebook, by exact knowledge: what a model learns to write."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from arena.agents.notebook import HAS, LACKS, NOTES, NOTES_END, OR, UNKNOWN, ModelNotebook
from arena.core.analysis import Placement
from arena.core.game import Game
from arena.core.observation import Observation
from trainers.pretrain.beliefs import placed_knowledge


class ExactNotebook(ModelNotebook):
    """Notebook of one seat beside what the seat could know.

    The right entry depends on what the notebook says already: nothing is written twice, and a false
    line is corrected or taken back.
    """

    def __init__(self, game: Game, player: int) -> None:
        """Raise UsageError if the game does not compute exactly where hidden things are."""
        self._own = game.seat_names[player]
        self._knowledge = placed_knowledge(game, player)
        self._known = 0
        """Number of events that the knowledge has read."""
        super().__init__(self._knowledge.placement().single)

    def entry(self, observation: Observation) -> str:
        """Return the right entry now, with its marks; empty if there is nothing to write."""
        for event in observation.events_since(self._known):
            self._knowledge.update(event)
        self._known = observation.num_events
        now = self._knowledge.placement()
        places = certain_places(now)
        lines = [*self._lacking(now, places), *self._alternatives(now)]
        # The own hand is in the chat.
        lines += [
            f"{thing}: {place}"
            for thing, place in places.items()
            if place not in (self._own, self.single) and self.certain.get(thing) != place
        ]
        lines += [
            f"{thing}: {UNKNOWN}"
            for thing in now.things
            if thing in self.certain and thing not in places
        ]
        if (left := possible_contents(now)) != self.left:
            lines.append(left)
        return _marked(lines)

    def _lacking(self, now: Placement, places: Mapping[str, str]) -> Iterator[str]:
        """Yield what each other place cannot hold, of the things whose place is not certain."""
        for column, place in enumerate(now.places):
            if place in (self._own, self.single):
                continue
            new = [
                thing
                for thing, row in zip(now.things, now.probabilities, strict=False)
                if not row[column] and thing not in places and (place, thing) not in self.lacks
                # All zeros: everybody sees the thing.
                and any(row)
            ]  # fmt: skip
            if new:
                yield f"{place}{LACKS}{', '.join(new)}"

    def _alternatives(self, now: Placement) -> Iterator[str]:
        """Yield of which things a place holds at least one."""
        for place, things in now.one_of:
            if (place, things) not in self.one_of:
                yield f"{place}{HAS}{OR.join(things)}"

    def with_fault(self, entry: str, rng: random.Random) -> str:
        """Return an entry with one fault, as a model might write it, or without its only line.

        A line is missing, a thing is placed at random, or something that is not certain is claimed.
        """
        now = self._knowledge.placement()
        lines = entry.splitlines()[1:-1]
        fault, number = rng.randrange(3), rng.randrange(len(lines))
        name, colon, _ = lines[number].partition(": ")
        if fault == 0 or (fault == 1 and (not colon or name == self.single)):
            del lines[number]
        elif fault == 1:
            lines[number] = f"{name}: {rng.choice(now.places)}"
        else:
            lines.insert(0, f"{rng.choice(now.things)}: {rng.choice(now.places)}")
        return _marked(lines)


def _marked(lines: Sequence[str]) -> str:
    """Return an entry of these lines; empty without any."""
    return "".join([NOTES, *(f"{line}\n" for line in lines), NOTES_END]) if lines else ""


def certain_places(now: Placement) -> dict[str, str]:
    """Return the place of each thing that can be in no other."""
    found = {}
    for thing, row in zip(now.things, now.probabilities, strict=False):
        possible = [place for place, p in zip(now.places, row, strict=True) if p > 0]
        if len(possible) == 1:
            found[thing] = possible[0]
    return found


def possible_contents(now: Placement) -> str:
    """Return the line of the things that the single place may hold; empty without such a place."""
    if not now.single:
        return ""
    column = now.places.index(now.single)
    rows = list(zip(now.things, now.kinds, now.probabilities, strict=False))
    parts = [
        ", ".join(thing for thing, kind, row in rows if kind == each and row[column] > 0)
        for each in dict.fromkeys(now.kinds)
    ]
    return f"{now.single}: {'; '.join(parts)}"
