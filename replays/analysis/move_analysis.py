"""Exact values of the moves of one position: the best ones, and the rank of the one played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock

from arena import CHANCE, Decision, Game
from arena.core.assessment import Appraiser, Fact
from replays.analysis.documents import MoveAnalysisJson, RankedMoveJson, RankingJson
from replays.analysis.timeline import Timeline, TimelinePly

MOST_MOVES = 5
"""Distinct values that a ranking lists."""
MOST_LEGAL = 1500
"""Legal moves of a position that is analysed. Exact values of more moves, e.g. of the questions in
a deck of 36 cards, would take minutes."""
SAME_VALUE = 1e-9
"""Values that differ by less are equal: sums of floats in another order."""


@dataclass(slots=True)
class _Reader:
    """An appraiser that has taken in the plies before a position."""

    appraiser: Appraiser
    position: int = 0


def ranks_moves(game: Game) -> bool:
    """Return whether the game declares rankings of moves, and can compute them."""
    declared = any(fact.ranks for fact in game.facts.values())
    return declared and isinstance(game.assessor((0,), frozenset()), Appraiser)


class MoveAnalyst:
    """Ranks the legal moves of a position by the facts that its game declares for this.

    The game's assessor must be an `Appraiser`. It appraises a move from what the moving seat knows.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._ranked = {name: fact for name, fact in timeline.game.facts.items() if fact.ranks}
        self._readers: dict[int, _Reader] = {}
        self._lock = Lock()  # Requests to a server run in several threads.

    def at(self, position: int) -> MoveAnalysisJson | None:
        """Return the analysis for the player who moved at a position; None if there is none.

        Args:
            position: From 0 to the last but one: the position before the ply of this number.
        """
        entry = self._timeline.plies[position]
        player = entry.ply.player
        if player == CHANCE or not self._ranked or len(entry.legal) > MOST_LEGAL:
            return None
        with self._lock:
            appraiser = self._appraiser(player, position)
            rankings = _rank(entry, appraiser, self._ranked) if appraiser else []
        return {"position": position, "player": player, "rankings": rankings} if rankings else None

    def _appraiser(self, player: int, position: int) -> Appraiser | None:
        """Return the appraiser of a seat, which has taken in everything before the position."""
        reader = self._readers.get(player)
        # Most users step forward: the reader of an earlier position goes on from there.
        if reader is None or reader.position > position:
            # No kinds of assessments: only the facts of moves are needed, which is much cheaper.
            assessor = self._timeline.game.assessor((player,), frozenset())
            if not isinstance(assessor, Appraiser):
                return None
            reader = self._readers[player] = _Reader(assessor)
        for entry in self._timeline.plies[reader.position : position]:
            # Without the details: a forged replay may hold anything there.
            decision = Decision(entry.ply.decision.action)
            reader.appraiser.ply(replace(entry.ply, decision=decision))
        reader.position = position
        return reader.appraiser


def _rank(
    entry: TimelinePly, appraiser: Appraiser, ranked: Mapping[str, Fact]
) -> list[RankingJson]:
    """Return one ranking per declared fact that a legal move of this position has."""
    values: dict[str, dict[str, float]] = {name: {} for name in ranked}
    for action in entry.legal:
        facts = appraiser.appraise(entry.ply.player, action)
        for name, value in facts.items():
            if name in values and isinstance(value, float | int):
                values[name][str(action)] = float(value)
    played = str(entry.ply.decision.action)
    return [_ranking(ranked[name], moves, played) for name, moves in values.items() if moves]


def _ranking(fact: Fact, values: Mapping[str, float], played: str) -> RankingJson:
    order = sorted(values, key=lambda action: -values[action])
    best: list[RankedMoveJson] = []
    for action in order:
        value = values[action]
        if best and best[-1]["value"] - value < SAME_VALUE:
            best[-1]["alike"] += 1
            # Of equal moves the one that was played represents the others.
            best[-1]["action"] = action if action == played else best[-1]["action"]
        elif len(best) < MOST_MOVES:
            best.append({"action": action, "value": value, "alike": 0})
        else:
            break
    ranking: RankingJson = {
        "moves": fact.ranks,
        "unit": fact.unit,
        "about": fact.about,
        "best": best,
        "count": len(values),
        "played": None,
    }
    if played in values:
        value = values[played]
        better = sum(other - value >= SAME_VALUE for other in values.values())
        ranking["played"] = {"action": played, "value": value, "rank": 1 + better}
    return ranking
