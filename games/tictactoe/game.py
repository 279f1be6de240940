"""Tic-tac-toe: three in a row wins. Copy this folder to add a game of your own.

A game needs an action (the choice of a player), an event (the visible result), a `Game` (the rules
with their options) and a `State` (a position). The other classes are its facets: each is optional.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from arena import (
    Action,
    ActionSet,
    ArraySpec,
    Event,
    Game,
    GameArrays,
    GameText,
    Observation,
    PlayGuide,
    ReturnScale,
    Squares,
    State,
    Tabletop,
    Tile,
    TileRow,
)
from arena.agents.agent import EvenBot
from arena.core.view import Look

if TYPE_CHECKING:
    from numpy.typing import NDArray


SIDE = (1, 2, 3)
"""Rows are numbered from the top and columns from the left."""


@dataclass(frozen=True, slots=True)
class Mark(Action, template="mark {self.row} {self.column}"):
    """Mark an empty square."""

    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Marked(Event):
    """Public: a player marked a square."""

    player: int
    row: int
    column: int


MARKS = tuple(Mark(row, column) for row in SIDE for column in SIDE)
SQUARES = frozenset(MARKS)
# The eight lines of three squares.
LINES = (
    *(frozenset(Mark(row, column) for column in SIDE) for row in SIDE),
    *(frozenset(Mark(row, column) for row in SIDE) for column in SIDE),
    frozenset(Mark(step, step) for step in SIDE),
    frozenset(Mark(step, 4 - step) for step in SIDE),
)


def has_line(marks: frozenset[Mark]) -> bool:
    return any(line <= marks for line in LINES)


class TicTacToe(Game):
    """Two players, no options, nothing hidden.

    Example:
        >>> state = TicTacToe().initial_state()
        >>> state.apply(0, Mark(2, 2))
        >>> [str(action) for action in state.legal_actions(1)][:2]
        ['mark 1 1', 'mark 1 2']
    """

    Text = "games.tictactoe.game:TicTacToeText"
    Arrays = "games.tictactoe.game:TicTacToeArrays"
    View = "games.tictactoe.game:TicTacToeView"
    name = "tictactoe"
    title = "Tic-tac-toe"
    summary = "three in a row"
    num_players = 2
    turn_bound = 9
    default_bots = ("perfect", "random")
    level_bots = ("easy", "blocking", "perfect")
    return_scale = ReturnScale("score", "", -1.0, 1.0)

    def _all_actions(self) -> Iterable[Mark]:
        return MARKS

    def initial_state(self) -> TicTacToeState:
        return TicTacToeState(self)


class TicTacToeState(State):
    """A position. The board is replaced, never changed in place, so that copies may share it."""

    def __init__(self, game: TicTacToe) -> None:
        super().__init__(game)
        self.to_act = (0,)
        self.turn = 1
        self.board: tuple[int | None, ...] = (None,) * 9
        """The owner of each square, in the order of `MARKS`."""
        self.winner: int | None = None

    def _legal_actions(self, player: int) -> ActionSet:
        free = [number for number, owner in enumerate(self.board) if owner is None]
        return self.game.actions.public(tuple(free))

    def _apply(self, player: int, action: Action) -> None:
        assert isinstance(action, Mark)
        number = self.game.actions.index[action]
        self.board = (*self.board[:number], player, *self.board[number + 1 :])
        self.log.append(Marked(player, action.row, action.column))
        # The first player has three marks in turn 5.
        if self.turn > 4 and has_line(self.marks(player)):
            self.winner = player
            self.to_act = ()
        elif None not in self.board:
            self.to_act = ()
        else:
            self._begin_turn(1 - player)

    def marks(self, player: int) -> frozenset[Mark]:
        """Return the squares that a player has marked."""
        squares = zip(MARKS, self.board, strict=True)
        return frozenset(mark for mark, owner in squares if owner == player)

    def returns(self) -> tuple[float, ...]:
        """Return 1 for the winner and -1 for the other player; 0 for both without a winner."""
        if self.winner is None:
            return (0.0, 0.0)
        return (1.0, -1.0) if self.winner == 0 else (-1.0, 1.0)

    def reason(self) -> str:
        if self.winner is None:
            return "the board is full"
        return f"{self.game.seat_names[self.winner]} has three in a row"


class TicTacToeText(GameText):
    """Texts of tic-tac-toe."""

    def guide(self) -> PlayGuide:
        return PlayGuide(
            goal="Have three of your marks in one row, column or diagonal.",
            turn="Mark one empty square. X begins.",
            end="Three in a row win. A full board without them is a draw.",
            example=(
                "X marks the centre, O a corner. X marks another corner: now O must block the "
                "line of both, or X completes it."
            ),
        )

    def rules(self) -> str:
        return (
            "Tic-tac-toe on a board of three rows and three columns. Player 0 (X) begins. In turn "
            "each player marks an empty square. Whoever first has three marks in a row, a column "
            "or a diagonal wins; a full board without them is a draw.\n"
            "Your action: mark ROW COLUMN, counted from 1 at the top left. For example: mark 2 3"
        )

    def narrate(self, event: Event) -> str:
        assert isinstance(event, Marked)
        return f"{self.game.seat_names[event.player]} marks {event.row} {event.column}."


class TicTacToeArrays(GameArrays):
    """Observations of tic-tac-toe as arrays."""

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        return {"board": ArraySpec(shape=(3, 3), low=-1, high=1)}

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return the board: 1 for an own mark, -1 for the other player's, 0 if empty."""
        arrays, me = self._zeros(), observation.player
        board = arrays["board"]
        for event in observation.events:
            assert isinstance(event, Marked)
            board[event.row - 1, event.column - 1] = 1 if event.player == me else -1
        return arrays


class TicTacToeView:
    """The board, the same for all viewers."""

    def __init__(self, game: TicTacToe, seat: int | None) -> None:
        self._board: dict[Mark, int] = {}

    def update(self, event: Event) -> None:
        """Add one event."""
        assert isinstance(event, Marked)
        self._board[Mark(event.row, event.column)] = event.player

    def tabletop(self) -> Tabletop:
        """Return the board now; as text, a dot is an empty square."""
        rows = [
            TileRow(tuple(self._square(Mark(row, column)) for column in SIDE), str(row))
            for row in SIDE
        ]
        lines = [f"{row.name} {' '.join(tile.label or '.' for tile in row.tiles)}" for row in rows]
        board = Squares("", tuple(rows), tuple(map(str, SIDE)))
        prompts = {"mark": "Click an empty square."}
        return Tabletop((board,), prompts=prompts, plain="\n".join(("  1 2 3", *lines)))

    def _square(self, mark: Mark) -> Tile:
        place = f"row {mark.row}, column {mark.column}"
        owner = self._board.get(mark)
        if owner is None:
            # A click on the square plays the action with this text.
            return Tile("", "hidden", f"{place}: empty", (str(mark),))
        marks = {each for each, player in self._board.items() if player == owner}
        won, sign = any(mark in line and line <= marks for line in LINES), "XO"[owner]
        look: Look = "win" if won else ""
        return Tile(sign, "seat1" if owner else "seat0", f"{place}: {sign}", look=look)


# Bots


Marks = frozenset[Mark]


@cache
def value(last: Marks, other: Marks) -> int:
    """Return the score of the player who marked last, if both play perfectly from here on."""
    if has_line(last):
        return 1
    free = SQUARES - last - other
    return -max((value(other | {mark}, last) for mark in free), default=0)


def _marks(observation: Observation) -> tuple[Marks, Marks]:
    """Return the marks of the observer and of the other player."""
    marks: tuple[set[Mark], set[Mark]] = (set(), set())
    for each in observation.events:
        assert isinstance(each, Marked)
        marks[each.player != observation.player].add(Mark(each.row, each.column))
    return frozenset(marks[0]), frozenset(marks[1])


class Perfect(EvenBot):
    """Bot that never loses: it draws from the marks of the best score (minimax).

    Among them it prefers those after which most answers of the other player lose.
    """

    def _best(self, observation: Observation) -> Sequence[Action]:
        own, other = _marks(observation)
        ranks = dict[Action, tuple[int, int]]()
        for mark in observation.legal_actions.of(Mark):
            after = own | {mark}
            answers = SQUARES - after - other
            traps = sum(value(other | {answer}, after) < 0 for answer in answers)
            ranks[mark] = (value(after, other), traps)
        best = max(ranks.values())
        return [mark for mark, rank in ranks.items() if rank == best]


class Blocking(EvenBot):
    """Bot that completes its own line, else blocks one, and else marks any square."""

    def _best(self, observation: Observation) -> Sequence[Action]:
        marks = observation.legal_actions.of(Mark)
        for line in _marks(observation):
            if completing := [mark for mark in marks if has_line(line | {mark})]:
                return completing
        return marks
