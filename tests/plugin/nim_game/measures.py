"""A measure of play: moves that keep a won position won."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import xor

from arena import Assessment, CustomMeasure, Measure, SeatEpisode, WeightedSum
from nim_game.rules import Nim, heaps_after


def winning_moves(seat_episode: SeatEpisode, _: Sequence[Assessment]) -> WeightedSum | None:
    """Return the moves to a binary sum of zero, over those from another sum: it was possible."""
    game, kept, chances = seat_episode.game, 0, 0
    assert isinstance(game, Nim)
    events = [event for ply in seat_episode.episode.plies for event in ply.events]
    for number, ply in enumerate(seat_episode.episode.plies):
        if ply.player == seat_episode.seat and reduce(xor, heaps_after(game, events[:number])):
            chances += 1
            kept += not reduce(xor, heaps_after(game, events[: number + 1]))
    return WeightedSum(kept, chances) if chances else None


WINNING_MOVES = CustomMeasure(
    Measure(
        "winning_moves",
        "winning moves",
        "share",
        "higher",
        "Moves that leave a binary sum of zero, over moves from positions in which one exists.",
    ),
    winning_moves,
)
