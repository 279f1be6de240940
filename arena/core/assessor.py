"""Base of assessors: which seats and kinds are assessed, and the knowledge of a seat at the end."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from arena.core.analysis import Assessment, Assessor
from arena.core.event import Ply
from arena.core.observation import ObservedGame
from arena.core.outcome import Outcome


class SeatAssessor:
    """Base of an assessor of one game, which reads it ply by ply from the first one on.

    It assesses the seats in `players`, and makes assessments of these kinds; None means all.
    """

    def __init__(
        self,
        game: ObservedGame,
        players: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
    ) -> None:
        self._assessed = range(game.num_players) if players is None else sorted(players)
        self._kinds = kinds
        self._latest_ply = 0

    def _wants(self, kind: str, player: int | None = None) -> bool:
        """Return whether assessments of this kind are wanted, for this player if given."""
        wanted = self._kinds is None or kind in self._kinds
        return wanted and (player is None or player in self._assessed)

    def _knowledge_of(self, player: int, dealt: float, end: float) -> Assessment:
        """Return the assessment `knowledge`: entropies after the deal and at the end, in bits."""
        facts = {"entropy_dealt": dealt, "entropy_end": end}
        return Assessment(self._latest_ply, player, "knowledge", facts)


class JointAssessor:
    """Several assessors that read one game together."""

    def __init__(self, parts: Sequence[Assessor]) -> None:
        self._parts = parts

    def ply(self, ply: Ply) -> list[Assessment]:
        """Add the next ply; return the assessments of all parts."""
        return [assessment for part in self._parts for assessment in part.ply(ply)]

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the assessments of all parts at the end."""
        return [assessment for part in self._parts for assessment in part.end(outcome)]
