"""Assessment of a game of Battleship by exact knowledge: measures, and other possible fleets."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from arena import (
    Action,
    Assessment,
    Comment,
    GameAnalysis,
    Measure,
    Outcome,
    Ply,
    Step,
    WeightedSum,
)
from arena.core.analysis import DecisionKind, Fact, SeatAssessor
from arena.core.text import per_cent
from games.battleship.board import Fleet, has_room, union
from games.battleship.knowledge import BattleshipKnowledge, is_countable
from games.battleship.notes import ShotRecord
from games.battleship.rules import (
    Battleship,
    BattleshipState,
    FleetRevealed,
    PlaceFleet,
    PlaceShip,
    Shoot,
    ShotFired,
)

if TYPE_CHECKING:
    from pydantic import JsonValue


MEASURES = (
    Measure(
        "efficiency",
        "information of shots",
        "share",
        "higher",
        "Expected information about the other fleet of the shots fired, over that of the best "
        "shots; both exact, given what the player could know, and in a salvo each shot by itself. "
        "Shots at a fleet whose place is certain do not count.",
    ),
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
    "expected": Fact("bits", "expected information of the shot", ranks="shots by information"),
    "best": Fact("bits", "expected information of the best shot"),
    "gained": Fact("bits", "information that the result gave"),
    "probability": Fact(
        "%", "exact probability that the shot hits", ranks="shots by chance of a hit"
    ),
    "best_probability": Fact("%", "greatest probability of a hit"),
}
"""Descriptions of the facts of assessments, by name."""

SWEEPS = 3
"""Times that `resample` draws each ship again."""
NEGLIGIBLE = 1e-9
"""Fewer bits count as none."""
POOR = 0.5
"""A shot is a mistake if both its information and its chance of a hit are below this share of the
best."""


@dataclass(frozen=True, slots=True)
class ShotFacts:
    """Facts of a shot before its result is known; information in bits."""

    expected: float
    best: float
    best_square: str
    """The shot with the most expected information."""
    probability: float
    best_probability: float
    likeliest: str
    """A square that most probably holds a ship."""


class BattleshipAssessor(SeatAssessor):
    """Assessor of one game, whose fleets must be countable.

    Its kinds are `shot` and `knowledge`.
    """

    game: Battleship

    def _begin(self) -> None:
        self._knowledge = {seat: BattleshipKnowledge(self.game, seat) for seat in self._assessed}

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply; return the assessment of a shot."""
        self._latest_ply = ply.number
        knowledge = self._knowledge.get(ply.player)
        action = ply.decision.action
        if knowledge is None or not isinstance(action, Shoot):
            return []
        # Facts first: they are those of the position before the shot.
        facts = facts_of(knowledge, action.square) if self._wants("shot") else None
        before = knowledge.entropy() if facts else 0.0
        for event in ply.events:
            # Revealed fleets are not a result of the player's reasoning.
            if not isinstance(event, FleetRevealed):
                knowledge.update(event)
        if facts is None:
            return []
        # Negative gains are impossible: a result only excludes fleets. The last shot of a salvo has
        # the gain of all its shots, the others have none: the sum is the same.
        values = {**asdict(facts), "gained": before - knowledge.entropy()}
        # A ship is afloat before each shot, so the best probability is above 0.
        chance = WeightedSum(facts.probability, facts.best_probability)
        measured = {"hit_efficiency": chance}
        # With a certain fleet there is no information left, and nothing to compare with.
        if facts.best > NEGLIGIBLE:
            measured["efficiency"] = WeightedSum(facts.expected, facts.best)
        return [Assessment(ply.number, ply.player, "shot", values, measured)]

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the knowledge of each seat after its last shot."""
        if not self._wants("knowledge"):
            return []
        # The own fleet says nothing about the other one, so it is the same for both players.
        dealt = BattleshipKnowledge(self.game, 0).entropy()
        return [
            self._knowledge_of(player, dealt, knowledge.entropy())
            for player, knowledge in self._knowledge.items()
        ]

    def appraise(self, player: int, action: Action) -> Mapping[str, JsonValue]:
        """Return the facts of a shot that `player` may fire now; {} if there are none."""
        if player not in self._knowledge or not isinstance(action, Shoot):
            return {}
        return asdict(facts_of(self._knowledge[player], action.square))


def facts_of(knowledge: BattleshipKnowledge, square: str) -> ShotFacts:
    """Return the facts of a shot at this square, which was not shot at yet."""
    board, odds = knowledge.game.board, knowledge.odds()
    # A square that was shot at gives no information, so it is never the best; as a certain hit it
    # would be the likeliest. The results of a salvo under way are not known: each shot of it
    # counts by itself.
    information, probabilities = odds.information(), odds.probabilities
    for values in (information, probabilities):
        values[board.squares(knowledge.shots.used)] = -1.0
    # The first of several equal squares; which one does not matter for the facts.
    best, likeliest = int(information.argmax()), int(probabilities.argmax())
    number = board.index[square]
    return ShotFacts(
        float(information[number]),
        float(information[best]),
        board.names[best],
        float(probabilities[number]),
        float(probabilities[likeliest]),
        board.names[likeliest],
    )


DECISION_KINDS = {
    "shot": DecisionKind.of_measure(
        "hit_efficiency", "share", "probability of a hit, of that of the best shot", "shots"
    ),
}


class BattleshipAnalysis(GameAnalysis):
    """Exact knowledge and judgements of Battleship."""

    game: Battleship

    facts = FACTS
    measures = MEASURES
    decision_kinds = DECISION_KINDS

    def knowledge(self, player: int) -> BattleshipKnowledge | None:
        """Return the exact knowledge of `player`; None if there are too many fleets.

        The limit is `knowledge.MOST_FLEETS`.
        """
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
        values = {name: value for name, value in assessment.facts.items() if name != "gained"}
        facts = ShotFacts(**values)  # type: ignore[arg-type]
        text = (
            f"Hits with {per_cent(facts.probability)}; the likeliest square is {facts.likeliest} "
            f"with {per_cent(facts.best_probability)}. Expected {facts.expected:.2f} bits; the "
            f"best shot, {facts.best_square}: {facts.best:.2f}."
        )
        # A shot may be made for information or for a hit; it is a mistake if it is poor at both.
        poor = (
            facts.probability < POOR * facts.best_probability and facts.expected < POOR * facts.best
        ) or (facts.best < NEGLIGIBLE and math.isclose(facts.probability, 0.0))
        return Comment(text, poor)

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
        # A ship that is sealed in this round is in the history and must be drawn again too.
        sealed = tuple(ship for seat, ship in state.sealed if seat == other)
        record = ShotRecord(game.board, game.options.ships)
        for event in state.log.witnessed[player]:
            if isinstance(event, ShotFired) and event.player == player:
                record.add(event)
        fleet = state.fleets[other] + sealed
        # The true fleet is a valid start; each step keeps the results of all shots.
        for _ in range(SWEEPS):
            for number in rng.sample(range(len(fleet)), len(fleet)):
                fleet = _redraw(fleet, number, record, rng)
        return list(_with_fleet(history, other, [ship.name for ship in fleet]))


def _redraw(fleet: Fleet, number: int, record: ShotRecord, rng: random.Random) -> Fleet:
    """Return the fleet with one ship drawn again. The current place always fits."""
    before, after = fleet[:number], fleet[number + 1 :]
    occupied, later = union((*before, *after)), record.lengths[len(fleet) :]
    places = [
        ship
        for ship in record.board.ships[fleet[number].length]
        # During placement the ships that are still to come need room.
        if not ship.mask & occupied
        and record.allows((*before, ship, *after))
        and has_room(record.board, later, occupied | ship.mask)
    ]
    return (*before, rng.choice(places), *after)


def _with_fleet(history: Sequence[Step], owner: int, names: Sequence[str]) -> Iterator[Step]:
    """Yield a history in which `owner` has the ships of these names."""
    # Sealed placements come in the order of the ships, whatever the other player did between.
    placed = 0
    for step in history:
        match step.action:
            case PlaceFleet(player) if player == owner:
                yield Step(step.player, PlaceFleet(owner, tuple(names)))
            case PlaceShip() if step.player == owner:
                yield Step(owner, PlaceShip(names[placed]))
                placed += 1
            case _:
                yield step
