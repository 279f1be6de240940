"""Exact knowledge of the other player's fleet, and judgements of shots by it.

All fleets that keep the rules are equally likely. So the posterior is even over the fleets that fit
the results of the shots, and its entropy is log2 of their number.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from arena import (
    CHANCE,
    Action,
    Assessment,
    Comment,
    GameAnalysis,
    Measure,
    Placement,
    Ply,
    Step,
    WeightedSum,
)
from arena.core.analysis import DecisionKind, Fact, SeatAssessor
from arena.core.text import per_cent
from games.battleship.notes import BattleshipNotes, Shot, ShotRecord
from games.battleship.rules import (
    Battleship,
    BattleshipState,
    Fleet,
    FleetRevealed,
    PlaceFleet,
    Shoot,
    board_of,
    union,
)

MOST_FLEETS = 1_000_000
"""Largest number of fleets for which they are listed: 7 by 7 with 4,3,2, or 8 by 8 with 3,2,2, but
not the usual board of 10 by 10."""
MOST_SQUARES = 64
"""Squares of a board whose sets of squares fit an element of an array."""

Fleets = NDArray[np.uint64]
"""Shape (fleets, ships), longest ships first: the squares of each ship as a set of bits."""


def is_countable(game: Battleship) -> bool:
    """Return whether exact knowledge of this board is available.

    All choices of places, conflicts included, are an upper bound of the number of fleets. Ships of
    equal length can be exchanged, so that a set of places counts once.
    """
    ships, choices = game.board.ships, 1
    for length, number in Counter(game.options.ships).items():
        # A multiset of places: comb(places + m - 1, m).
        choices *= math.comb(len(ships[length]) + number - 1, number)
    return game.board.size <= MOST_SQUARES and choices <= MOST_FLEETS


@lru_cache(maxsize=2)
def all_fleets(width: int, height: int, lengths: tuple[int, ...]) -> Fleets:
    """Return all fleets of ships of these lengths, which are sorted.

    Ships of equal length are in the order of `Board.ships`, so that a fleet occurs only once.
    """
    board, last = board_of(width, height), np.zeros(1, np.int64)
    fleets = np.zeros((1, 0), np.uint64)  # One empty fleet to start from.
    for number, length in enumerate(lengths):
        places = np.array([ship.mask for ship in board.ships[length]], np.uint64)
        # Breadth first, shape (partial fleets, places): whether the place is free in the fleet.
        is_free = occupied(fleets)[:, np.newaxis] & places == 0
        # Increasing places: each set of equal ships is counted in one order only.
        if number and lengths[number - 1] == length:
            is_free &= last[:, np.newaxis] < np.arange(len(places))
        chosen, last = is_free.nonzero()
        fleets = np.column_stack((fleets[chosen], places[last]))
    fleets.flags.writeable = False  # Several players share the array through the cache.
    return fleets


def occupied(fleets: Fleets) -> NDArray[np.uint64]:
    """Return the squares of all ships of each fleet, shape (fleets,)."""
    # The ships of a fleet do not overlap, so their sum is their union.
    return np.asarray(fleets.sum(axis=1, dtype=np.uint64))


def count_squares(masks: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return, for each of 64 squares, the number of sets that contain it."""
    octets = masks.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
    # Shape (256, 8): the bits of each value of a byte, lowest first.
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    # A set has one of 256 values in each byte, so the values are counted, not the single bits.
    values = [np.bincount(octet, minlength=256) for octet in octets.T]
    return np.concatenate([counts @ bits for counts in values])


class BattleshipKnowledge(BattleshipNotes):
    """Notes of one player with exact knowledge about the other player's fleet.

    The fleets are filtered when they are asked for, once for all shots since the last time.
    """

    def __init__(self, game: Battleship, player: int) -> None:
        super().__init__(game, player)
        self._lengths = tuple(sorted(game.options.ships, reverse=True))
        self._fleets: Fleets | None = None
        self._filtered = 0
        """Number of shots by which the fleets are filtered."""
        self._hits: NDArray[np.int64] | None = None

    def world_count(self) -> int:
        """Return the number of fleets that the other player may have."""
        is_revealed = bool(self.fleets[1 - self.player])
        return 1 if is_revealed else len(self.possible())

    def entropy(self) -> float:
        """Return log2 of the number of possible fleets."""
        return math.log2(self.world_count())

    def placement(self) -> Placement:
        """Return the probability that each square of the other board holds a ship."""
        board, revealed = self.game.board, union(self.fleets[1 - self.player])
        if revealed:
            ships = [float(revealed >> square & 1) for square in range(board.size)]
        else:
            ships = self.hit_probabilities().tolist()
        return Placement(
            board.names,
            tuple(f"row {name[0]}" for name in board.names),
            ("ship", "water"),
            tuple((p, 1.0 - p) for p in ships),
        )

    def possible(self) -> Fleets:
        """Return the possible fleets of the other player."""
        if self._fleets is None:
            options = self.game.options
            self._fleets = all_fleets(options.width, options.height, self._lengths)
        for shot in self.shots.fired[self._filtered :]:
            # More shots only exclude more fleets, so those left before are enough.
            self._fleets = self._fleets[self._fits(shot, self._fleets)]
            self._hits = None
        self._filtered = len(self.shots.fired)
        return self._fleets

    def _fits(self, shot: Shot, fleets: Fleets) -> NDArray[np.bool_]:
        """Return the fleets for which a shot has its result: `shot_result` of all at once."""
        # Shape (fleets, ships): whether the shot hits the ship, and whether squares are left.
        is_hit = fleets & np.uint64(1 << shot.square) != 0
        is_afloat = fleets & ~np.uint64(shot.hits) != 0
        if shot.result == "miss":
            return np.asarray(~is_hit.any(axis=1))
        if shot.result == "hit":
            return np.asarray((is_hit & is_afloat).any(axis=1))
        # The sunk ship may be any of the same length.
        of_length = np.array(self._lengths) == shot.length
        return np.asarray((is_hit & ~is_afloat & of_length).any(axis=1))

    def hits(self) -> NDArray[np.int64]:
        """Return the number of possible fleets with a ship in each square, shape (squares,)."""
        fleets = self.possible()
        if self._hits is None:
            self._hits = count_squares(occupied(fleets))[: self.game.board.size]
        return self._hits

    def hit_probabilities(self) -> NDArray[np.float64]:
        """Return the probability that a shot at each square hits, shape (squares,)."""
        return self.hits() / len(self.possible())


# Judgements


MEASURES = (
    Measure(
        "hit_efficiency",
        "chance of a hit",
        "share",
        "higher",
        "Exact probability that the shots fired hit, over that of the squares that were most "
        "likely to hold a ship.",
    ),
)

FACTS = {
    "probability": Fact(
        "%", "exact probability that the shot hits", ranks="shots by chance of a hit"
    ),
    "best_probability": Fact("%", "greatest probability of a hit"),
}
"""Descriptions of the facts of assessments, by name."""

SWEEPS = 3
"""Times that `resample` draws each ship again."""


class BattleshipAssessor(SeatAssessor):
    """Assessor of one game, whose fleets must be countable.

    Its kinds are `shot` and `knowledge`.
    """

    game: Battleship
    shows_hidden = (FleetRevealed,)

    def _judge_decision(self, ply: Ply, knowledge: BattleshipKnowledge) -> list[Assessment]:
        action = ply.decision.action
        if not isinstance(action, Shoot) or not self._wants("shot"):
            return []
        facts = shot_facts(knowledge, action.square)
        # A ship is afloat before each shot, so the best probability is above 0.
        chance = WeightedSum(float(facts["probability"]), float(facts["best_probability"]))
        measured = {"hit_efficiency": chance}
        return [Assessment(ply.number, ply.player, "shot", facts, measured)]

    def appraise(self, player: int, action: Action) -> Mapping[str, JsonValue]:
        """Return the facts of a shot that `player` may fire now; {} if there are none."""
        if player not in self._knowledge or not isinstance(action, Shoot):
            return {}
        return shot_facts(self._knowledge[player], action.square)


def shot_facts(knowledge: BattleshipKnowledge, square: str) -> dict[str, float | str]:
    """Return the facts of a shot: its chance of a hit, and the square with the best chance."""
    board, chances = knowledge.game.board, knowledge.hit_probabilities()
    # A square that was shot at is a certain hit or a certain miss, but no legal shot.
    chances[board.squares(knowledge.shots.shots)] = -1.0
    likeliest = int(chances.argmax())
    return {
        "probability": float(chances[board.index[square]]),
        "best_probability": float(chances[likeliest]),
        "likeliest": board.names[likeliest],
    }


class BattleshipAnalysis(GameAnalysis):
    """Exact knowledge and judgements of Battleship."""

    game: Battleship

    facts = FACTS
    measures = MEASURES
    decision_kinds: ClassVar = {
        "shot": DecisionKind.of_measure(
            "hit_efficiency", "probability of a hit, of that of the best shot", "shots"
        ),
    }

    def knowledge(self, player: int) -> BattleshipKnowledge | None:
        """Return the exact knowledge of `player`; None if there are too many fleets."""
        return BattleshipKnowledge(self.game, player) if is_countable(self.game) else None

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> BattleshipAssessor | None:
        """Return an assessor by exact knowledge; None if there are too many fleets."""
        return BattleshipAssessor(self.game, players, kinds) if is_countable(self.game) else None

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return the assessment of a shot as text; None for other kinds."""
        if assessment.kind != "shot":
            return None
        facts = assessment.facts
        chances = {name: value for name, value in facts.items() if isinstance(value, float)}
        text = (
            f"Hits with {per_cent(chances['probability'])}; the likeliest square is "
            f"{facts['likeliest']} with {per_cent(chances['best_probability'])}."
        )
        # A shot at a less likely square may give more information, but not one at certain water.
        return Comment(text, mistake=chances["probability"] == 0)

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Return a history with another fleet of the other player that fits all `player` saw.

        A Gibbs sampler: one ship at a time is drawn again, evenly among the places that fit the
        other ships and the results of all shots. The even distribution over all fleets that fit
        is its stationary distribution.
        """
        game = self.game
        state = BattleshipState(game).apply_all(history)
        if state.is_terminal:  # Both fleets are revealed.
            return list(history)
        other = 1 - player
        notes: BattleshipNotes = state.observe(player).notes
        fleet = state.fleets[other]
        # The true fleet is a valid start; each step keeps the results of all shots.
        for _ in range(SWEEPS):
            for number in rng.sample(range(len(fleet)), len(fleet)):
                fleet = _redraw(fleet, number, notes.shots, rng)
        steps, placed = list(history), PlaceFleet(other, tuple(ship.name for ship in fleet))
        # Chance places the fleets first, each by one step.
        steps[other : other + 1] = [Step(CHANCE, placed)] if other < len(steps) else []
        return steps


def _redraw(fleet: Fleet, number: int, record: ShotRecord, rng: random.Random) -> Fleet:
    """Return the fleet with one ship drawn again. The current place always fits."""
    before, after = fleet[:number], fleet[number + 1 :]
    taken = union((*before, *after))
    places = [
        ship
        for ship in record.board.ships[fleet[number].length]
        if not ship.mask & taken and record.allows((*before, ship, *after))
    ]
    return (*before, rng.choice(places), *after)
