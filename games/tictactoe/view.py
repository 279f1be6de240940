"""Scene of tic-tac-toe for a web page; `scene.js` draws it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, TypedDict

from arena import Event
from games.tictactoe.game import LINES, SIDE, Mark, Marked, TicTacToe


class TicTacToeSceneJson(TypedDict):
    """The board. Squares are numbered from 0, row by row."""

    squares: list[int | None]
    """The player who marked each square."""
    last: int | None
    """The square that was marked last."""
    line: list[int]
    """The three squares of the winning line; empty without a winner."""


class TicTacToeScene:
    """The board, the same for all viewers; squares are numbered from 0, row by row."""

    module: ClassVar[Path] = Path(__file__).with_name("scene.js")

    def __init__(self, game: TicTacToe, seat: int | None) -> None:
        self.board: dict[Mark, int] = {}

    def update(self, event: Event) -> None:
        """Add one event."""
        assert isinstance(event, Marked)
        self.board[Mark(event.row, event.column)] = event.player

    def to_json(self) -> TicTacToeSceneJson:
        """Return the current board."""
        squares = [Mark(row, column) for row in SIDE for column in SIDE]
        owners = [{self.board.get(mark) for mark in line} for line in LINES]
        won = [line for line, owner in zip(LINES, owners, strict=True) if owner in ({0}, {1})]
        return TicTacToeSceneJson(
            squares=[self.board.get(mark) for mark in squares],
            last=squares.index(list(self.board)[-1]) if self.board else None,
            line=[squares.index(mark) for mark in won[0]] if won else [],
        )
