"""The rules of tic-tac-toe, Kuhn poker and Goofspiel, compared with theory."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from itertools import groupby, permutations
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena import Match, make_game, play
from arena.core.action import CHANCE, Action, Step
from arena.core.errors import AmbiguousAction, IllegalAction, InvalidAction, UsageError
from arena.core.game import Game
from arena.core.observation import Observation
from arena.core.state import State
from arena.core.view.tabletop import diagram
from arena.testing import check_game
from games.goofspiel.game import Bid, BidsRevealed, Goofspiel, GoofspielState, TurnUp
from games.kuhn_poker.game import BET, CARDS, PASS, DealHands, KuhnPoker, Showdown
from games.tictactoe.game import Mark, TicTacToe, TicTacToeState

AnyState = TypeVar("AnyState", bound=State)

GAMES: tuple[Game, ...] = (
    TicTacToe(),
    KuhnPoker(),
    Goofspiel(),
    Goofspiel(players=3, cards=4, prizes="descending"),
    Goofspiel(players=4, cards=13),
)


def seen(observation: Observation) -> tuple[object, ...]:
    """Everything that a player can read from its observation."""
    arrays = {name: array.tolist() for name, array in observation.arrays().items()}
    return (
        observation.text(),
        observation.events,
        tuple(observation.legal_actions),
        tuple(observation.legal_actions.mask.tolist()),
        diagram(observation.game, observation.events),
        json.dumps(arrays),
    )


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
    ],
)
def test_tictactoe_ends(squares: tuple[int, ...], returns: tuple[float, ...]) -> None:
    state = marks(*squares)
    assert state.is_terminal
    assert state.returns() == returns
    assert state.turn == len(squares)
    won = "has three in a row" in state.reason()
    assert won == any(returns)


def test_tictactoe_last_mark_can_win_on_a_full_board() -> None:
    state = marks(11, 12, 13, 21, 22, 23, 32, 31, 33)
    assert state.returns() == (1, -1)
    assert state.reason() == "Player 0 has three in a row"


def test_tictactoe_refuses_what_is_not_allowed() -> None:
    state = marks(22)
    with pytest.raises(IllegalAction):
        state.apply(1, Mark(2, 2))
    with pytest.raises(IllegalAction):
        state.apply(0, Mark(1, 1))
    with pytest.raises(IllegalAction):
        state.observe(1).parse("mark 2 2")
    with pytest.raises(AmbiguousAction):
        state.parse("mark 2")
    with pytest.raises(InvalidAction):
        state.parse("mark 2 4")
    assert state.to_act == (1,)
    assert len(state.legal_actions(1)) == 8
    assert len(marks(11, 21, 12, 22, 13).legal_actions(1)) == 0


def test_tictactoe_is_drawn_from_the_observers_side() -> None:
    state = marks(22, 13)
    own, other = (state.observe(player).arrays()["board"] for player in (0, 1))
    assert own.tolist() == [[0, 0, -1], [0, 1, 0], [0, 0, 0]]
    assert np.array_equal(own, -other)
    drawn = diagram(state.game, state.observe(0).events)
    assert drawn == "  1 2 3\n1 . . O\n2 . X .\n3 . . ."


def test_tictactoe_perft() -> None:
    def perft(state: State, depth: int) -> int:
        if depth == 0 or state.is_terminal:
            return depth == 0
        return sum(perft(child, depth - 1) for child in children(state))

    root = TicTacToe().initial_state()
    assert [perft(root, depth) for depth in range(1, 6)] == [9, 72, 504, 3024, 15120]


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


@pytest.mark.parametrize(
    "moves", [(), (PASS,), (BET,), (PASS, BET), (BET, PASS), (PASS, BET, PASS)]
)
def test_kuhn_poker_hides_the_other_card(moves: tuple[Action, ...]) -> None:
    for player in (0, 1):
        for own in CARDS:
            views = {
                seen(after(KuhnPoker(), DealHands(cards), *moves).observe(player))
                for cards in permutations(CARDS, 2)
                if cards[player] == own
            }
            assert len(views) == 1


def test_kuhn_poker_deals() -> None:
    state = KuhnPoker().initial_state()
    outcomes = state.chance_outcomes()
    assert {str(outcome.action) for outcome in outcomes} == {
        f"deal {first}, {second}" for first, second in permutations(CARDS, 2)
    }
    assert sum(outcome.probability for outcome in outcomes) == pytest.approx(1)
    with pytest.raises(InvalidAction):
        state.parse("deal King, King")
    with pytest.raises(IllegalAction):
        state.apply(0, PASS)


Strategy = Callable[[Observation], dict[Action, float]]
"""The probability of each action at an information set."""


def kuhn_strategy(bet: dict[tuple[str, str], float]) -> Strategy:
    """Return a strategy: probability to bet with a card after moves, 0 for unlisted pairs."""

    def act(observation: Observation) -> dict[Action, float]:
        arrays = observation.arrays()
        card = CARDS[arrays["cards"][observation.player].argmax()]
        history = "".join("pb"[row.argmax()] for row in arrays["moves"] if row.any())
        probability = bet.get((card, history), 0.0)
        return {PASS: 1 - probability, BET: probability}

    return act


def equilibrium(alpha: float) -> tuple[Strategy, Strategy]:
    """The optimal strategies of Kuhn (1950): a family for player 0, exactly one for player 1."""
    return (
        kuhn_strategy(
            {
                ("Jack", ""): alpha,
                ("King", ""): 3 * alpha,
                ("Queen", "pb"): alpha + 1 / 3,
                ("King", "pb"): 1,
            }
        ),
        kuhn_strategy(
            {
                ("Jack", "p"): 1 / 3,
                ("King", "p"): 1,
                ("Queen", "b"): 1 / 3,
                ("King", "b"): 1,
            }
        ),
    )


def branches(state: State, strategies: dict[int, Strategy]) -> list[tuple[State, float]]:
    """The states that chance or a player of known strategy moves to, with their probabilities."""
    (player,) = state.to_act
    if player == CHANCE:
        moves = {outcome.action: outcome.probability for outcome in state.chance_outcomes()}
    else:
        moves = strategies[player](state.observe(player))
    reached = []
    for action, probability in moves.items():
        child = state.clone()
        child.apply(player, action)
        reached.append((child, probability))
    return reached


def expected_return(state: State, strategies: dict[int, Strategy]) -> float:
    """Return the expected return of player 0."""
    if state.is_terminal:
        return state.returns()[0]
    return sum(p * expected_return(child, strategies) for child, p in branches(state, strategies))


def best_response(
    nodes: list[tuple[State, float]], responder: int, strategies: dict[int, Strategy]
) -> float:
    """The most that `responder` can earn, choosing once for all states that look alike to it.

    `nodes` are states with the probability that chance and the others bring them about.
    """
    value, deciding = 0.0, []
    while nodes:
        state, reach = nodes.pop()
        if state.is_terminal:
            value += reach * state.returns()[responder]
        elif state.to_act == (responder,):
            deciding.append((state, reach))
        else:
            nodes += [(child, reach * p) for child, p in branches(state, strategies)]

    def look(node: tuple[State, float]) -> str:
        return node[0].observe(responder).text()

    for _, alike in groupby(sorted(deciding, key=look), key=look):
        states = list(alike)
        choices = zip(*(children(state) for state, _ in states), strict=True)
        reaches = [reach for _, reach in states]
        value += max(
            best_response(list(zip(choice, reaches, strict=True)), responder, strategies)
            for choice in choices
        )
    return value


@pytest.mark.parametrize("alpha", [0, 1 / 6, 1 / 3])
def test_kuhn_poker_is_worth_an_eighteenth_of_a_chip(alpha: float) -> None:
    root = KuhnPoker().initial_state()
    strategies = dict(enumerate(equilibrium(alpha)))
    assert expected_return(root, strategies) == pytest.approx(-1 / 18)
    assert best_response([(root, 1.0)], 0, strategies) == pytest.approx(-1 / 18)
    assert best_response([(root, 1.0)], 1, strategies) == pytest.approx(1 / 18)


def test_kuhn_poker_best_response_beats_a_player_who_always_bets() -> None:
    """The measure itself can tell a bad strategy from an optimal one."""
    root = KuhnPoker().initial_state()
    strategies: dict[int, Strategy] = {0: lambda _: {BET: 1.0}, 1: lambda _: {BET: 1.0}}
    assert best_response([(root, 1.0)], 1, strategies) == pytest.approx(1 / 3)


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
    assert state.reason() == "all prizes are gone; most points: Player 1"


def test_matching_bids_the_number_of_each_prize() -> None:
    match = Match(make_game("goofspiel", cards=5), ("bot:matching", "bot:random"), seed=4)
    revealed = [
        event
        for ply in asyncio.run(play(match)).plies
        for event in ply.events
        if isinstance(event, BidsRevealed)
    ]
    assert [event.bids[0] for event in revealed] == [event.prize for event in revealed]


def test_goofspiel_with_all_bids_tied_is_a_draw() -> None:
    state = Goofspiel(cards=2).initial_state()
    play_round(state, 1, 1, 1)
    play_round(state, 2, 2, 2)
    assert state.returns() == (0, 0)
    assert state.reason() == "all prizes are gone; most points: Player 0 and Player 1"


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


@pytest.mark.parametrize("players", [2, 3, 4])
def test_goofspiel_bids_stay_sealed_until_the_last(players: int) -> None:
    """Before the last commitment, no view shows that others have committed."""
    game = Goofspiel(players=players, cards=4)
    before = after(game, TurnUp(3))
    for first in (1, 2, 3, 4):
        state = before.clone()
        for player in range(players - 1):
            state.apply(player, Bid((first + player) % 4 + 1))
            assert state.log.events == before.log.events
            for waiting in range(player + 1, players):
                assert seen(state.observe(waiting)) == seen(before.observe(waiting))
            for done in range(player + 1):
                assert state.observe(done).events == before.observe(done).events
                assert not state.observe(done).legal_actions
                with pytest.raises(IllegalAction):
                    state.apply(done, Bid(4))


def test_goofspiel_does_not_depend_on_the_order_of_commitment() -> None:
    one, other = (after(Goofspiel(), TurnUp(5)) for _ in range(2))
    one.apply(0, Bid(1))
    one.apply(1, Bid(6))
    other.apply(1, Bid(6))
    other.apply(0, Bid(1))
    assert one.log.events == other.log.events
    assert one.to_act == other.to_act == (CHANCE,)


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


def test_goofspiel_arrays_begin_with_the_observer() -> None:
    state = Goofspiel(cards=3).initial_state()
    play_round(state, 2, 3, 1)
    state.apply(CHANCE, TurnUp(3))
    arrays = state.observe(1).arrays()
    assert arrays["hands"].tolist() == [[0, 1, 1], [1, 1, 0]]
    assert arrays["points"].tolist() == [0, 2]
    assert arrays["prize"].tolist() == [0, 0, 1]
    assert arrays["prizes_to_come"].tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    "options", [{"players": 1}, {"players": 5}, {"cards": 1}, {"cards": 14}, {"prizes": "up"}]
)
def test_goofspiel_options_are_checked(options: dict[str, int | str]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        Goofspiel(**options)


def test_games_without_options_take_none() -> None:
    for game in (TicTacToe, KuhnPoker):
        with pytest.raises(UsageError):
            game(players=3)


# All three


@pytest.mark.parametrize("game", GAMES, ids=repr)
def test_conformance(game: Game) -> None:
    check_game(game)


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(GAMES), st.randoms(use_true_random=False))
def test_random_play_is_zero_sum(game: Game, rng: random.Random) -> None:
    state = game.initial_state()
    while not state.is_terminal:
        assert not any(state.returns())
        player = rng.choice(state.to_act)
        chance = player == CHANCE
        action = state.sample_chance(rng) if chance else rng.choice(state.legal_actions(player))
        state.apply(player, action)
    assert sum(state.returns()) == pytest.approx(0)
    assert all(game.text.narrate(event) for event in state.log.events)


def test_resample_varies_what_is_hidden_and_nothing_else() -> None:
    """Otherwise the check of non-interference would compare a world with itself."""
    rng = random.Random(0)
    deal, passes, bets = Step(CHANCE, DealHands(("King", "Jack"))), Step(0, PASS), Step(1, BET)
    poker = [KuhnPoker().analysis.resample([deal, passes, bets], 0, rng) for _ in range(20)]
    cards = {str(world[0].action) for world in poker if world}
    assert cards == {"deal King, Jack", "deal King, Queen"}
    shown = [deal, passes, bets, Step(0, BET)]
    assert KuhnPoker().analysis.resample(shown, 0, rng) == shown

    history = [Step(CHANCE, TurnUp(2)), Step(0, Bid(1))]
    bids = [Goofspiel(cards=3).analysis.resample(history, 1, rng) for _ in range(20)]
    assert {str(world[1].action) for world in bids if world} == {"bid 1", "bid 2", "bid 3"}
    assert Goofspiel(cards=3).analysis.resample(history, 0, rng) == history
    revealed = [*history, Step(1, Bid(3))]
    assert Goofspiel(cards=3).analysis.resample(revealed, 1, rng) == revealed


def test_goofspiel_clone_keeps_sealed_bids_apart() -> None:
    state = after(Goofspiel(), TurnUp(4), Bid(2))
    assert isinstance(state, GoofspielState)
    twin = state.clone()
    twin.apply(1, Bid(3))
    assert state.bids == {0: 2}
    assert state.to_act == (1,)
