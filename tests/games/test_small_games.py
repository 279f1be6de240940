"""The rules of tic-tac-toe, Kuhn poker and Goofspiel, compared with theory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import TypeVar

import pytest

from arena.core.action import CHANCE, Action
from arena.core.errors import IllegalAction
from arena.core.game import Game, State
from arena.testing import check_game
from games.goofspiel.game import Bid, BidsRevealed, Goofspiel, TurnUp
from games.kuhn_poker.game import BET, CARDS, PASS, DealHands, KuhnPoker, Showdown
from games.tictactoe.game import Mark, TicTacToe, TicTacToeState

AnyState = TypeVar("AnyState", bound=State)


def after(game: Game, *moves: Action) -> State:
    """The position after these moves, chance's own included; the first who must act moves."""
    state = game.initial_state()
    for move in moves:
        state.apply(state.to_act[0], move)
    return state


# Tic-tac-toe


def marks(*squares: int) -> State:
    """Squares are written row-column, as in 23 for row 2, column 3."""
    return after(TicTacToe(), *(Mark(*divmod(square, 10)) for square in squares))


@pytest.mark.parametrize(
    ("squares", "returns"),
    [
        ((11, 21, 12, 22, 13), (1, -1)),
        ((11, 12, 21, 22, 31), (1, -1)),
        ((11, 12, 22, 13, 33), (1, -1)),
        ((13, 12, 22, 11, 31), (1, -1)),
        ((11, 21, 12, 22, 33, 23), (-1, 1)),
        ((11, 22, 33, 12, 32, 31, 13, 23, 21), (0, 0)),
        ((11, 12, 13, 21, 23, 22, 31, 32), (-1, 1)),
        ((11, 12, 13, 21, 22, 23, 32, 31, 33), (1, -1)),  # On a full board.
    ],
)
def test_tictactoe_ends(squares: tuple[int, ...], returns: tuple[float, ...]) -> None:
    state = marks(*squares)
    assert state.is_terminal
    assert state.returns() == returns
    assert state.turn == len(squares)
    won = "has three in a row" in state.reason()
    assert won == any(returns)


def test_tictactoe_is_a_draw_and_has_255168_games() -> None:
    """Both by walking the whole tree, with equal positions walked once."""
    known: dict[tuple[int | None, ...], tuple[float, int]] = {}

    def solve(state: TicTacToeState) -> tuple[float, int]:
        """The value for player 0, and how many games go on from here."""
        position = state.board
        if position not in known:
            if state.is_terminal:
                known[position] = (state.returns()[0], 1)
            else:
                best = max if state.to_act == (0,) else min
                values, games = zip(*map(solve, children(state)), strict=True)
                known[position] = (best(values), sum(games))
        return known[position]

    assert solve(TicTacToe().initial_state()) == (0, 255168)
    assert len(known) == 5478


def children(state: AnyState) -> Iterator[AnyState]:
    """The positions one move on."""
    (player,) = state.to_act
    for action in state.legal_actions(player):
        child = state.clone()
        child.apply(player, action)
        yield child


# Kuhn poker


@pytest.mark.parametrize(
    ("moves", "returns_of_the_higher_card"),
    [((PASS, PASS), 1), ((BET, BET), 2), ((PASS, BET, BET), 2)],
)
def test_kuhn_poker_shows_both_cards_at_a_showdown(
    moves: tuple[Action, ...], returns_of_the_higher_card: float
) -> None:
    chips = returns_of_the_higher_card
    for cards in permutations(CARDS, 2):
        state = after(KuhnPoker(), DealHands(cards), *moves)
        higher = CARDS.index(cards[0]) > CARDS.index(cards[1])
        assert state.returns() == ((chips, -chips) if higher else (-chips, chips))
        for player in (0, 1):
            observation = state.observe(player)
            assert observation.events[-1] == Showdown(cards)
            assert observation.arrays()["cards"].sum() == 2


@pytest.mark.parametrize(("moves", "winner"), [((BET, PASS), 0), ((PASS, BET, PASS), 1)])
def test_kuhn_poker_shows_nothing_after_a_fold(moves: tuple[Action, ...], winner: int) -> None:
    for cards in permutations(CARDS, 2):
        state = after(KuhnPoker(), DealHands(cards), *moves)
        assert state.returns() == ((1, -1) if winner == 0 else (-1, 1))
        assert state.reason() == f"Player {1 - winner} folds"
        for player in (0, 1):
            assert cards[1 - player] not in state.observe(player).text()


# Goofspiel


def play_round(state: State, prize: int, *bids: int) -> None:
    state.apply(CHANCE, TurnUp(prize))
    for player, bid in enumerate(bids):
        state.apply(player, Bid(bid))


def test_goofspiel_counts_points_and_discards_ties() -> None:
    state = Goofspiel(cards=3).initial_state()
    play_round(state, 2, 3, 3)
    assert state.log.events[-1] == BidsRevealed(2, (3, 3), None, (0, 0))
    play_round(state, 3, 1, 2)
    assert state.returns() == (0, 0)
    play_round(state, 1, 2, 1)
    assert state.log.events[-1] == BidsRevealed(1, (2, 1), 0, (1, 3))
    assert state.is_terminal
    assert state.returns() == (-1, 1)
    assert state.turn == 3
    assert state.reason() == "all prizes are gone; points: Player 0 1, Player 1 3"


def test_goofspiel_leaders_share_a_win_and_the_others_the_loss() -> None:
    state = Goofspiel(players=4, cards=2, prizes="descending").initial_state()
    play_round(state, 2, 2, 1, 1, 1)
    play_round(state, 1, 1, 2, 2, 2)
    assert state.returns() == (1, -1 / 3, -1 / 3, -1 / 3)

    state = Goofspiel(players=3, cards=4).initial_state()
    play_round(state, 4, 4, 1, 4)
    play_round(state, 3, 3, 2, 1)
    play_round(state, 2, 2, 3, 2)
    play_round(state, 1, 1, 4, 3)
    assert state.log.events[-1] == BidsRevealed(1, (1, 4, 3), 1, (3, 3, 0))
    assert state.returns() == (1 / 2, 1 / 2, -1)


def test_goofspiel_prizes_are_random_or_descending() -> None:
    by_chance = Goofspiel(cards=3).initial_state().chance_outcomes()
    assert [str(outcome.action) for outcome in by_chance] == ["turn up 1", "turn up 2", "turn up 3"]
    assert {outcome.probability for outcome in by_chance} == {1 / 3}
    state = Goofspiel(cards=3, prizes="descending").initial_state()
    for prize in (3, 2, 1):
        (only,) = state.chance_outcomes()
        assert only.action == state.parse(f"turn up {prize}") == TurnUp(prize)
        assert only.probability == 1
        play_round(state, prize, prize, prize)
    assert state.is_terminal


def test_goofspiel_refuses_a_card_that_is_gone() -> None:
    state = Goofspiel().initial_state()
    play_round(state, 1, 6, 5)
    state.apply(CHANCE, TurnUp(2))
    with pytest.raises(IllegalAction):
        state.apply(0, Bid(6))
    state.apply(0, Bid(5))
    with pytest.raises(IllegalAction):
        state.apply(1, Bid(5))


# Conformance with other options than those of `tests/testing`


def test_conformance() -> None:
    check_game(Goofspiel(players=4, cards=13))
