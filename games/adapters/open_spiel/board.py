"""Boards of squares, read from the texts of OpenSpiel's games.

Many games write a board as lines with one character for each square, with or without spaces and
names at the sides; chess writes a FEN. One parser reads them all. What is no such board, such as
the triangle of Y, stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from arena import Panel, Squares, Tabletop, Tile, TileRow
from arena.core.view import Tone
from games.adapters.library_game import LibraryGame, LibraryView

MOST_MOVES = 20_000
"""Moves whose texts are searched for the names of squares."""
LEAST = 3
"""Rows and columns of a board, at least."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
_FEN = re.compile(r"(?:[a-zA-Z1-9?]+/){3,}[a-zA-Z1-9?]+")
_POSITION = re.compile(r"(?:[a-zA-Z1-8]+/){7}[a-zA-Z1-8]+ [wb] \S+ \S+ \d+ \d+")
_SIDE = re.compile(r"\s*(?:(\d{1,2})(?=\D))?\s*(.*?)\s*(?:(?<=[^\d])\1)?\s*")
_CELL = re.compile(r"[A-Za-z0-9.+*#@?-]")
_SQUARE = re.compile(r"(?<![a-z0-9])([a-z])(\d{1,2})(?![a-z0-9])")
_PAIR = re.compile(r"\((\d+), ?(\d+)\)")
_DROP = re.compile(r"([a-z])(\d+)")
EMPTY = ".-+ "
"""Characters of empty squares; the first one that a board has is it: in checkers, + is a piece."""
CHESS = dict(zip("kqrbnpKQRBNP", "♚♛♜♝♞♟♔♕♖♗♘♙", strict=True))
SECOND = frozenset("oOwW○+")
"""Pieces that are drawn in the second colour; all others are drawn in the first one."""


@dataclass(frozen=True, slots=True)
class GridBoard:
    """A board in a text: its squares, the names at its sides, and the other lines."""

    rows: tuple[tuple[str, ...], ...]
    row_names: tuple[str, ...]
    """Empty if the text has none."""
    columns: tuple[str, ...]
    others: tuple[str, ...]


@lru_cache(256)
def read_board(text: str) -> GridBoard | None:
    """Return the first board in a text of the library; None if there is none."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if fen := _FEN.match(line):
            return _from_fen(fen[0], (*lines[:at], line[fen.end() :].strip(), *lines[at + 1 :]))
    for first in range(len(lines)):
        found = [_cells(line) for line in lines[first:]]
        size = next((at for at, row in enumerate(found) if len(row) != len(found[0])), len(found))
        if size >= LEAST and len(found[0]) >= LEAST:
            return _from_lines(lines, first, first + size)
    return None


def _cells(line: str) -> tuple[str, ...]:
    """Return the squares of a line without the name at its side; empty if it is none."""
    side = _SIDE.fullmatch(line)
    words = side[2].split() if side else []
    if len(words) == 1 and len(words[0]) < len(LETTERS):
        words = list(words[0])
    # A line of letters that follow each other has the names of columns.
    if _names_columns(words) or not all(map(_CELL.fullmatch, words)):
        return ()
    return tuple(words)


def _names_columns(words: Sequence[str]) -> bool:
    codes = [ord(word.lower()) for word in words if len(word) == 1 and word.isalpha()]
    return len(codes) == len(words) >= LEAST and all(1 <= b - a <= 2 for a, b in pairwise(codes))


def _from_lines(lines: Sequence[str], first: int, end: int) -> GridBoard:
    block = lines[first:end]
    sides = [side[1] for line in block if (side := _SIDE.fullmatch(line))]
    rows = tuple(map(_cells, block))
    around = [line for line in (*lines[first - 1 : first], *lines[end : end + 1]) if line.strip()]
    named = [list("".join(line.split())) for line in around]
    columns = next((names for names in named if _names_columns(names)), [])
    others = [line for line in (*lines[:first], *lines[end:]) if line.strip()]
    return GridBoard(
        rows,
        tuple(name for name in sides if name) if all(sides) else (),
        tuple(name.lower() for name in columns) if len(columns) == len(rows[0]) else (),
        tuple(line for line in others if not _names_columns(list("".join(line.split())))),
    )


def _from_fen(fen: str, others: Sequence[str]) -> GridBoard:
    spread = [re.sub(r"\d", lambda number: "." * int(number[0]), row) for row in fen.split("/")]
    rows = tuple(tuple(CHESS.get(piece, piece) for piece in row) for row in spread)
    names = tuple(str(number) for number in range(len(rows), 0, -1))
    columns = tuple(LETTERS[: len(rows[0])])
    # Other fields of a FEN are for programs.
    turn = {"w": "white to move", "b": "black to move"}
    notes = (turn.get(line[:1], line) for line in others if line)
    return GridBoard(rows, names, columns, tuple(notes))


@dataclass(frozen=True, slots=True)
class Notation:
    """Names of squares in the moves of a game: `c4`, `(2, 7)`, or `x3` for a column."""

    squares: bool
    pairs: bool
    drops: dict[int, tuple[str, ...]]
    """The moves by column, of a game in which pieces fall."""

    @classmethod
    def of(cls, moves: Sequence[str], board: GridBoard) -> Notation:
        """Return the notation of these moves on this board."""
        names = set(board.columns or LETTERS[: len(board.rows[0])])
        written = [_SQUARE.search(move.lower()) for move in moves]
        squares = any(found and found[1] in names for found in written)
        drops: dict[int, tuple[str, ...]] = {}
        for move in moves:
            drop = _DROP.fullmatch(move)
            if drop and not squares:
                drops[int(drop[2])] = (*drops.get(int(drop[2]), ()), move)
        if set(drops) != set(range(len(board.rows[0]))):
            drops = {}
        return cls(squares, any(map(_PAIR.search, moves)), drops)


def draw_board(title: str, board: GridBoard, notation: Notation) -> Squares:
    """Return the board as a piece whose squares are targets of the moves that name them."""
    height, width = len(board.rows), len(board.rows[0])
    numbers = range(0 if notation.pairs or notation.drops else 1, max(height, width) + 1)
    digits = tuple(map(str, numbers))
    row_names = board.row_names or digits[:height]
    columns = board.columns or (tuple(LETTERS[:width]) if notation.squares else digits[:width])
    rows = (
        TileRow(tuple(_tiles(board, row, columns, row_names, notation)), row_names[row])
        for row in range(height)
    )
    pieces = {cell for cells in board.rows for cell in cells}
    if pieces & set(CHESS.values()):
        return Squares(title, tuple(rows), columns, shape="chequered")
    return Squares(title, tuple(rows), columns, shape="discs" if notation.drops else "square")


def _tiles(
    board: GridBoard, row: int, columns: Sequence[str], names: Sequence[str], notation: Notation
) -> Iterator[Tile]:
    seen = {cell for cells in board.rows for cell in cells}
    empty = next((sign for sign in EMPTY if sign in seen), "")
    for column, cell in enumerate(board.rows[row]):
        name = f"{columns[column]}{names[row]}"
        picks: tuple[str, ...] = notation.drops.get(column, ())
        if notation.squares:
            picks = (name,)
        elif notation.pairs:
            name = f"({row}, {column})"
            picks = (name,)
        if cell == empty:
            yield Tile(".", "plain", name, picks)
            continue
        tone: Tone = "seat1" if cell in SECOND or cell in "♔♕♖♗♘♙" else "seat0"
        yield Tile(cell, "hidden" if cell == "?" else tone, f"{name}: {cell}", picks)


class OpenSpielView(LibraryView):
    """The library's text; a board is drawn from the start."""

    def __init__(self, game: LibraryGame, seat: int | None) -> None:
        super().__init__(game, seat)
        self.seat = seat
        self._notation: Notation | None = None
        if opening := game.openings[seat or 0]:
            self.update(opening)

    def tabletop(self) -> Tabletop:
        """Return the board with the library's other lines below it, or its text."""
        board = read_board("\n".join(self._shown))
        if board is None or len(self._game.actions) > MOST_MOVES:
            return super().tabletop()
        if self._notation is None:  # Once: chess has thousands of moves.
            self._notation = Notation.of(list(map(str, self._game.actions)), board)
        lines = (*board.others, *self._moves)[-4:]
        squares = draw_board("", board, self._notation)
        wording: dict[str, str] = {}
        if squares.shape == "chequered":
            squares, wording = self._with_numbered_moves(squares, board)
        panels = (squares, Panel("", lines=lines)) if lines else (squares,)
        return Tabletop(
            panels, wording=wording, prompts={"move": "Click a piece, then its square."}
        )

    def _with_numbered_moves(
        self, squares: Squares, board: GridBoard
    ) -> tuple[Squares, dict[str, str]]:
        """Return a board of chess whose squares choose moves by number, and the moves' names."""
        fen = next((found[0] for line in self._shown if (found := _POSITION.search(line))), "")
        picks: dict[tuple[int, int], list[str]] = {}
        wording: dict[str, str] = {}
        game: Any = self._game
        # Kriegspiel shows such a position without what is hidden, which is none of its own.
        can_choose = bool(fen) and self.seat is not None and not game.hides
        state: Any = game.spiel.new_initial_state(fen) if can_choose else None
        for number in state.legal_actions() if can_choose else ():
            after, move = read_board(str(state.child(number))), f"move {number}"
            wording[move] = state.action_to_string(number)
            for row, cells in enumerate(after.rows if after else ()):
                for column, cell in enumerate(cells):
                    if cell != board.rows[row][column]:
                        picks.setdefault((row, column), []).append(move)
        rows = []
        for row, each in enumerate(squares.rows):
            tiles = enumerate(each.tiles)
            made = [replace(tile, picks=(*picks.get((row, at), ()),)) for at, tile in tiles]
            rows.append(replace(each, tiles=tuple(made)))
        return replace(squares, rows=tuple(rows)), wording
