"""Players of each seat over time: before a branch, other agents may have played."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from arena import Header


@dataclass(frozen=True, slots=True)
class FormerPlayer:
    """SPEC of an earlier player of a seat, and the ply from which it was replaced."""

    spec: str
    until: int


def players_at(header: Header, ply: int) -> tuple[str, ...]:
    """Return the SPEC of each seat at the time this ply was played."""
    players = header.players
    # Branches are in order of time. Each one names the players that sat before its ply.
    for branch in reversed(header.branches):
        if ply >= branch.ply:
            break
        players = branch.players
    return players


def former_players(header: Header, seat: int) -> Iterator[FormerPlayer]:
    """Yield the earlier players of a seat, the latest first."""
    spec = header.players[seat]
    branch_plies = sorted({branch.ply for branch in header.branches}, reverse=True)
    for ply in branch_plies:
        previous = players_at(header, ply - 1)[seat]
        if ply > 0 and previous != spec:
            yield FormerPlayer(previous, ply)
        # The next older player is compared with this one.
        spec = previous
