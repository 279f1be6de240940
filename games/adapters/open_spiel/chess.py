"""Texts of chess moves that are the same at every position, from OpenSpiel's numbers."""

from __future__ import annotations

FILES = "abcdefgh"
PLANES = 73
"""Numbers of each square: 9 promotions to a lesser piece, 56 along lines, 8 of a knight."""
LESSER = "RBN"
LINES = ((0, 1), (1, 0), (1, 1), (1, -1))
KNIGHT = ((-2, -1), (-2, 1), (-1, -2), (-1, 2), (2, -1), (2, 1), (1, -2), (1, 2))
CASTLING = {64 * PLANES: "c", 64 * PLANES + 1: "g"}
"""The file on which the king ends. Numbers after those of the squares."""
COLOURS = ("black", "white")
"""By OpenSpiel's player. The board is seen from the side of the player who moves."""


def move_text(player: int, number: int) -> str | None:
    """Return the text of a move, `white e2-e4`; None if it leads off the board.

    A pawn that arrives on the last rank without a named piece becomes a queen.
    """
    colour = COLOURS[player]
    if number in CASTLING:
        rank = 8 if player == 0 else 1
        return f"{colour} e{rank}-{CASTLING[number]}{rank} castles"
    square, plane = divmod(number, PLANES)
    column, row = divmod(square, 8)
    right, ahead, piece = _offset(plane)
    if not (0 <= column + right < 8 and 0 <= row + ahead < 8):
        return None
    names = (_name(player, column, row), _name(player, column + right, row + ahead))
    return f"{colour} {'-'.join(names)}{piece}"


def _offset(plane: int) -> tuple[int, int, str]:
    """Return how far a move leads to the right and ahead, and the piece of a promotion."""
    if plane < 9:
        return (0, 1, -1)[plane % 3], 1, f"={LESSER[plane // 3]}"
    if plane >= 65:
        return (*KNIGHT[plane - 65], "")
    line, at = divmod(plane - 9, 14)
    step = at - 7 if at < 7 else at - 6
    return LINES[line][0] * step, LINES[line][1] * step, ""


def _name(player: int, column: int, row: int) -> str:
    return f"{FILES[column]}{row + 1 if player == 1 else 8 - row}"
