"""Assessment of a game of Battleship by exact knowledge; `measures` lists what is measured."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from arena import CHANCE, Action, Assessment, Comment, GameAnalysis, Outcome, Ply, Step, WeightedSum
from arena.core.text import per_cent
from games.battleship.base import BattleshipBase
from games.battleship.events import FleetRevealed, Shoot, ShotFired
from games.battleship.measures import FACTS, MEASURES
from games.battleship.posterior import FleetKnowledge, is_countable
from games.battleship.resampling import resample

if TYPE_CHECKING:
    from pydantic import JsonValue


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


class BattleshipAssessor:
    """Assessor of one game, ply by ply.

    Args:
        game: The game that is played; its fleets must be countable.
        players: The seats to assess; None means all.
        kinds: The kinds to make, of `shot` and `knowledge`; None means both.
    """

    def __init__(
        self,
        game: BattleshipBase,
        players: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
    ) -> None:
        self.game = game
        self._kinds = kinds
        assessed = range(game.num_players) if players is None else sorted(players)
        self._knowledge = {player: FleetKnowledge(game, player) for player in assessed}
        self._latest_ply = 0

    def _wants(self, kind: str) -> bool:
        return self._kinds is None or kind in self._kinds

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply; return the assessment of a shot."""
        self._latest_ply = ply.number
        knowledge = self._knowledge.get(ply.player)
        action = ply.decision.action
        if ply.player == CHANCE or knowledge is None or not isinstance(action, Shoot):
            return []
        # Facts first: they are those of the position before the shot.
        facts = self.facts_of(ply.player, action.square) if self._wants("shot") else None
        before = knowledge.entropy() if facts else 0.0
        hit = False
        for event in ply.events:
            # Revealed fleets are not a result of the player's reasoning.
            if not isinstance(event, FleetRevealed):
                knowledge.update(event)
            hit |= isinstance(event, ShotFired) and event.result != "miss"
        if facts is None:
            return []
        # Negative gains are impossible: a result only excludes fleets.
        gained = before - knowledge.entropy()
        values: dict[str, JsonValue] = {**asdict(facts), "gained": gained}
        return [Assessment(ply.number, ply.player, "shot", values, measured(facts, gained, hit))]

    def facts_of(self, player: int, square: str) -> ShotFacts:
        """Return the facts of a shot of `player` at this square, which was not shot at yet."""
        knowledge, board = self._knowledge[player], self.game.board
        odds = knowledge.odds()
        # A square that was shot at gives no information, so it is never the best; as a certain hit
        # it would be the likeliest.
        information, probabilities = odds.information(), odds.probabilities.copy()
        probabilities[board.squares(knowledge.record.shots)] = -1.0
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

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the knowledge of each seat after its last shot."""
        if not self._wants("knowledge"):
            return []
        # The own fleet says nothing about the other one, so it is the same for both players.
        dealt = FleetKnowledge(self.game, 0).entropy()
        return [
            Assessment(
                self._latest_ply,
                player,
                "knowledge",
                {"entropy_dealt": dealt, "entropy_end": knowledge.entropy()},
            )
            for player, knowledge in self._knowledge.items()
        ]

    def appraise(self, player: int, action: Action) -> Mapping[str, JsonValue]:
        """Return the facts of a shot that `player` may fire now; {} if there are none."""
        if player not in self._knowledge or not isinstance(action, Shoot):
            return {}
        return asdict(self.facts_of(player, action.square))


def measured(facts: ShotFacts, gained: float, hit: bool) -> dict[str, WeightedSum]:
    """Return the contributions of one shot to the measures."""
    sums = {"hits": WeightedSum(float(hit)), "bits": WeightedSum(gained)}
    # With a certain fleet there is no information left, and nothing to compare with.
    if facts.best > NEGLIGIBLE:
        sums["efficiency"] = WeightedSum(facts.expected, facts.best)
    # A ship is afloat before each shot, so the best probability is above 0.
    sums["hit_efficiency"] = WeightedSum(facts.probability, facts.best_probability)
    return sums


def comment(assessment: Assessment) -> Comment | None:
    """Return the assessment of a shot as text; None for other kinds."""
    if assessment.kind != "shot":
        return None
    values = {name: value for name, value in assessment.facts.items() if name != "gained"}
    facts = ShotFacts(**values)  # type: ignore[arg-type]
    text = (
        f"Hits with {per_cent(facts.probability)}; the likeliest square is {facts.likeliest} with "
        f"{per_cent(facts.best_probability)}. Expected {facts.expected:.2f} bits; the best shot, "
        f"{facts.best_square}: {facts.best:.2f}."
    )
    # A shot may be made for information or for a hit; it is a mistake if it is poor at both.
    poor = (
        facts.probability < POOR * facts.best_probability and facts.expected < POOR * facts.best
    ) or (facts.best < NEGLIGIBLE and math.isclose(facts.probability, 0.0))
    return Comment(text, poor)


class BattleshipAnalysis(GameAnalysis):
    """Exact knowledge and judgements of Battleship."""

    game: BattleshipBase

    facts = FACTS
    measures = MEASURES

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        return resample(self.game, history, player, rng)

    def knowledge(self, player: int) -> FleetKnowledge | None:
        """Return the exact knowledge of `player`; None if there are too many fleets.

        The limit is `posterior.MOST_FLEETS`.
        """
        return FleetKnowledge(self.game, player) if is_countable(self.game) else None

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> BattleshipAssessor | None:
        """Return an assessor by exact knowledge; None if there are too many fleets."""
        return BattleshipAssessor(self.game, players, kinds) if is_countable(self.game) else None

    def comment(self, assessment: Assessment) -> Comment | None:
        return comment(assessment)
