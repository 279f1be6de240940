"""Who sat where: in a branch, others played its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from arena import Header


@dataclass(frozen=True, slots=True)
class Former:
    """Who sat there, and before which ply others took over."""

    spec: str
    until: int


def players_at(header: Header, ply: int) -> tuple[str, ...]:
    """The SPEC of each seat when this ply was played."""
    players = header.players
    for branch in reversed(header.branches):
        if ply >= branch.ply:
            break
        players = branch.players
    return players


def formerly(header: Header, seat: int) -> Iterator[Former]:
    """Who sat there before, the last one first."""
    spec = header.players[seat]
    begins = sorted({branch.ply for branch in header.branches}, reverse=True)
    for ply in begins:
        before = players_at(header, ply - 1)[seat]
        if ply > 0 and before != spec:
            yield Former(before, ply)
        spec = before
