"""Boards of OpenSpiel's games: how texts are read, what a click means, and the texts of chess."""

from __future__ import annotations

import random

import pytest
from reach import picked, unreached

from arena import CHANCE, make_game
from arena.core.view import Squares, draw_tabletop
from games.adapters.open_spiel.board import Notation, draw_board, read_board

BREAKTHROUGH = "3bbb\n2.w.\n1w.w\n abc\n"
OTHELLO = "White (o) to play:\n  a b c\n1 - - - 1\n2 - x - 2\n3 - - o 3\n  a b c"
HEX = ". . x \n x . . \n  o . . "
GO = "GoState(komi=7.5)\n\n 3 O++\n 2 +XO\n 1 +++\n   ABC"
CHESS = "rnbqkbnr/pp1ppppp/8/2p5/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2"


@pytest.mark.parametrize(
    ("text", "row", "names", "columns", "others"),
    [
        (BREAKTHROUGH, ".w.", ("3", "2", "1"), "abc", ()),
        (OTHELLO, "-x-", ("1", "2", "3"), "abc", ("White (o) to play:",)),
        (HEX, "x..", (), "", ()),
        (GO, "+XO", ("3", "2", "1"), "abc", ("GoState(komi=7.5)",)),
        ("..x\n.o.\n...\nx wins", ".o.", (), "", ("x wins",)),
    ],
)
def test_a_board_is_read_from_lines(
    text: str, row: str, names: tuple[str, ...], columns: str, others: tuple[str, ...]
) -> None:
    board = read_board(text)
    assert board is not None and len(board.rows) == 3
    assert "".join(board.rows[1]) == row and board.row_names == names
    assert "".join(board.columns) == columns and board.others == others


def test_chess_is_read_from_its_fen() -> None:
    board = read_board(CHESS)
    assert board is not None and board.row_names[0] == "8" and board.columns[-1] == "h"
    assert "".join(board.rows[0]) == "♜♞♝♛♚♝♞♜" and board.others == ("white to move",)


@pytest.mark.parametrize(
    "text",
    [
        "0pbp",
        "... .o. ...\n... ... ...\n.x. ... ...",
        " a b c\n  1 . .\n   2 .",
        "|o.|\n|x.|\n|..|",
    ],
)
def test_what_is_no_board_stays_text(text: str) -> None:
    assert read_board(text) is None


@pytest.mark.parametrize(
    ("text", "moves", "at", "means"),
    [
        (BREAKTHROUGH, ["c1-c2", "b2 x a3", "a1-a2"], (0, 0), ["b2 x a3"]),
        (HEX, ["a1", "b2"], (1, 1), ["b2"]),
        ("...\n...\n..x", ["x(0,1)", "x(2,1)"], (2, 1), ["x(2,1)"]),
        ("...\n...\n..x", ["o0", "o1", "o2"], (0, 1), ["o1"]),
    ],
)
def test_a_click_keeps_the_moves_that_name_the_square(
    text: str, moves: list[str], at: tuple[int, int], means: list[str]
) -> None:
    board = read_board(text)
    assert board is not None
    tile = draw_board("", board, Notation.of(moves, board)).rows[at[0]].tiles[at[1]]
    assert [move for move in moves if picked(move, tile.picks)] == means


POPULAR = ("checkers", "othello", "breakthrough", "connect_four", "hex", "tic_tac_toe",
           "clobber", "lines_of_action", "mnk")  # fmt: skip


@pytest.mark.adapters
@pytest.mark.parametrize("name", POPULAR)
def test_every_move_of_a_popular_game_is_a_click_on_its_board(name: str) -> None:
    pytest.importorskip("pyspiel")
    game, rng = make_game(f"open_spiel/{name}"), random.Random(3)
    state = game.initial_state()
    for _ in range(60):
        if state.is_terminal:
            break
        player = state.to_act[0]
        assert player != CHANCE
        table = draw_tabletop(game, state.log.witnessed[player], player)
        assert table is not None and isinstance(table.panels[0], Squares)
        legal = list(state.legal_actions(player))
        assert set(unreached(table.panels, list(map(str, legal)))) <= {"pass"}
        state.apply(player, rng.choice(legal))


def test_the_moves_of_chess_are_chosen_by_squares() -> None:
    """Its moves have numbers; a piece and a square choose one, whose button has its name."""
    pytest.importorskip("pyspiel")
    game = make_game("open_spiel/chess")
    state = game.initial_state()
    player = state.to_act[0]
    table = draw_tabletop(game, state.log.witnessed[player], player)
    assert table is not None
    board = table.panels[0]
    assert isinstance(board, Squares)
    assert set(table.wording) == {str(action) for action in state.legal_actions(player)}
    tiles = {tile.title[:2]: tile for row in board.rows for tile in row.tiles}
    [move] = {*tiles["e2"].picks} & {*tiles["e4"].picks}
    assert table.wording[move] == "e4" and not tiles["e5"].picks


def test_kriegspiel_has_a_board_without_numbered_moves() -> None:
    """The position that a player sees is no position of the game."""
    pytest.importorskip("pyspiel")
    game = make_game("open_spiel/kriegspiel")
    state = game.initial_state()
    table = draw_tabletop(game, state.log.witnessed[0], 0)
    assert table is not None and not table.wording
