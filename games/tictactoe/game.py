"""Tic-tac-toe: three in a row wins. Copy this page to add a game of your own.

A game needs an action (what a player does), an event (what the table sees of it), a `Game` (the
rules with their options, and every rendering of events) and a `State` (a position). It may have a
`Scene`, which is what a page draws, beside it in `tictactoe.js`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from arena import Action, ActionSet, ArraySpec, Event, Game, Json, Observation, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIDE = (1, 2, 3)
"""Rows are numbered from the top and columns from the left."""


@dataclass(frozen=True, slots=True)
class Mark(Action):
    """Put one's mark on an empty square."""

    row: int
    column: int

    def __str__(self) -> str:
        return f"mark {self.row} {self.column}"


@dataclass(frozen=True, slots=True)
class Marked(Event):
    """Everybody sees the mark."""

    player: int
    row: int
    column: int


LINES = (
    *(tuple(Mark(row, column) for column in SIDE) for row in SIDE),
    *(tuple(Mark(row, column) for row in SIDE) for column in SIDE),
    tuple(Mark(step, step) for step in SIDE),
    tuple(Mark(step, 4 - step) for step in SIDE),
)


class TicTacToe(Game):
    """Two players, no options, nothing hidden."""

    name = "tictactoe"
    summary = "three in a row"
    num_players = 2

    def _all_actions(self) -> Iterable[Mark]:
        return (Mark(row, column) for row in SIDE for column in SIDE)

    def initial_state(self) -> TicTacToeState:
        return TicTacToeState(self)

    def rules(self) -> str:
        return (
            "Tic-tac-toe on a board of three rows and three columns. Player 0 (X) begins. In turn "
            "each player marks an empty square. Whoever first has three marks in a row, a column "
            "or a diagonal wins; a full board without them is a draw.\n"
            "Your action: mark ROW COLUMN, counted from 1 at the top left. For example: mark 2 3"
        )

    def narrate(self, event: Event) -> str:
        assert isinstance(event, Marked)
        return f"{self.seat_names[event.player]} marks {event.row} {event.column}."

    @property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        return {"board": ArraySpec(shape=(3, 3), low=-1, high=1)}

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """The board as its observer sees it: 1 for an own mark, -1 for the other's, 0 if empty."""
        import numpy as np  # Not above: who lists the games should not wait for it.

        board = np.zeros((3, 3), np.int8)
        for event in observation.events:
            assert isinstance(event, Marked)
            board[event.row - 1, event.column - 1] = 1 if event.player == observation.player else -1
        return {"board": board}

    def diagram(self, events: Sequence[Event]) -> str:
        rows = [list(" 123"), list("1..."), list("2..."), list("3...")]
        for event in events:
            assert isinstance(event, Marked)
            rows[event.row][event.column] = "XO"[event.player]
        return "\n".join(" ".join(row) for row in rows)


class TicTacToeState(State):
    """A position. The board is replaced, never changed in place, so clones may share it."""

    def __init__(self, game: TicTacToe) -> None:
        super().__init__(game)
        self.to_act = (0,)
        self.turn = 1
        self.board: dict[Mark, int] = {}
        self.winner: int | None = None

    def _legal_actions(self, player: int) -> ActionSet:
        actions = self.game.actions
        return actions.subset(mark for mark in actions if mark not in self.board)

    def _apply(self, player: int, action: Action) -> None:
        assert isinstance(action, Mark)
        self.board = {**self.board, action: player}
        self.log.append(Marked(player, action.row, action.column))
        if any(all(self.board.get(mark) == player for mark in line) for line in LINES):
            self.winner = player
            self.to_act = ()
        elif len(self.board) == 9:
            self.to_act = ()
        else:
            self.to_act = (1 - player,)
            self.turn += 1

    def returns(self) -> tuple[float, ...]:
        """1 for the winner and -1 for the other; 0 for both without a winner."""
        if self.winner is None:
            return (0.0, 0.0)
        return (1.0, -1.0) if self.winner == 0 else (-1.0, 1.0)

    def reason(self) -> str:
        if self.winner is None:
            return "the board is full"
        return f"{self.game.seat_names[self.winner]} has three in a row"


class TicTacToeScene:
    """The board for a page, which everybody sees alike; squares are numbered from 0, row by row."""

    module: ClassVar[Path] = Path(__file__).with_name("scene.js")

    def __init__(self, game: TicTacToe, seat: int | None) -> None:
        self.board: dict[Mark, int] = {}

    def update(self, event: Event) -> None:
        assert isinstance(event, Marked)
        self.board[Mark(event.row, event.column)] = event.player

    def to_json(self) -> dict[str, Json]:
        """`squares`: who marked each, or null; `last` and `line`: squares to point out."""
        squares = [Mark(row, column) for row in SIDE for column in SIDE]
        owners = [{self.board.get(mark) for mark in line} for line in LINES]
        won = [line for line, owner in zip(LINES, owners, strict=True) if owner in ({0}, {1})]
        return {
            "squares": [self.board.get(mark) for mark in squares],
            "last": squares.index(list(self.board)[-1]) if self.board else None,
            "line": [squares.index(mark) for mark in won[0]] if won else [],
        }
