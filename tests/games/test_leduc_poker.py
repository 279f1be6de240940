"""Leduc hold'em: rules, exact probabilities, the bundled equilibrium and its exploitability."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest
from exact_policies import best_response_value
from leduc_solver import leduc_strategy, write_strategy
from random_games import plies, uniform

from arena.agents.agent import Seat
from arena.core.action import CHANCE, Step
from arena.core.analysis import Assessment, sum_measurements
from arena.core.errors import IllegalAction, UsageError
from arena.core.event import Outcome
from arena.core.game import State
from arena.core.view import diagram
from arena.evaluation.exact import Policy, expected_returns, exploitability
from arena.testing import check_game
from games.leduc_poker.bots import Equilibrium
from games.leduc_poker.knowledge import (
    LeducAssessor,
    LeducKnowledge,
    Strategy,
    equilibrium,
    move_values,
    probabilities,
)
from games.leduc_poker.rules import (
    MOVES,
    DealBoardCard,
    DealHoleCards,
    LeducPoker,
    LeducShowdown,
    LeducState,
    strength,
)

GAME, THREE = LeducPoker(), LeducPoker(players=3, ranks=4)


def steps(game: LeducPoker, cards: str, moves: str) -> Iterator[Step]:
    """Yield a deal and moves such as `crc K rc`; upper case deals the board card."""
    names, state = {card[0]: card for card in game.deck}, game.initial_state()
    deal = DealHoleCards(tuple(names[card] for card in cards))
    letters = moves.replace(" ", "")
    for action in (deal, *(DealBoardCard(names[x]) if x in names else MOVES[x] for x in letters)):
        yield Step(state.to_act[0], action)
        state.apply(state.to_act[0], action)


def after(cards: str, moves: str, game: LeducPoker = GAME) -> State:
    return game.initial_state().apply_all(steps(game, cards, moves))


def policy_of(strategy: Strategy) -> Policy:
    return lambda observation: probabilities(strategy, observation)


# Rules


@pytest.mark.parametrize(
    ("cards", "moves", "returns", "reason"),
    [
        ("KQ", "rf", (1, -1), "Player 1 folds"),
        ("KQ", "crf", (-1, 1), "Player 0 folds"),
        ("KQ", "rrf", (-3, 3), "Player 0 folds"),
        ("KQ", "cc J cc", (1, -1), "Player 0 has the higher card"),
        ("KQ", "cc Q cc", (-1, 1), "Player 1 has a pair"),
        ("KQ", "rc Q rf", (3, -3), "Player 1 folds"),
        ("JQ", "crrc K crrc", (-13, 13), "Player 1 has the higher card"),
        ("JQ", "rrc J rrc", (13, -13), "Player 0 has a pair"),
        ("JJ", "rrc K rrc", (0, 0), "both hands are equal"),
        ("TKQ", "rff", (2, -1, -1), "Player 1 and Player 2 fold"),
        ("TKQ", "crcf T rf", (-1, 4, -3), "Player 0 and Player 2 fold"),
        ("TKQ", "crcf T rc", (-1, 8, -7), "Player 1 has the higher card"),
        ("TKQ", "ccc Q ccc", (-1, -1, 2), "Player 2 has a pair"),
    ],
)
def test_hands(cards: str, moves: str, returns: tuple[float, ...], reason: str) -> None:
    state = after(cards, moves, GAME if len(cards) == 2 else THREE)
    assert state.returns() == returns and state.reason() == reason
    # A player who has folded shows nothing.
    shown = state.log.events[-1]
    assert isinstance(shown, LeducShowdown) == ("fold" not in reason)
    if moves == "crcf T rc":
        assert shown == LeducShowdown(("", "King", "Queen"))
        assert "Player 1 shows the King, Player 2 the Queen." in state.observe(0).text("events")


@pytest.mark.parametrize(
    ("moves", "player", "legal"),
    [
        ("", 0, "cr"),
        ("c", 1, "cr"),
        ("r", 1, "fcr"),
        ("cr", 0, "fcr"),
        ("crr", 1, "fc"),
        ("rc K", 0, "cr"),
        ("rc K rr", 0, "fc"),
    ],
)
def test_legal_moves(moves: str, player: int, legal: str) -> None:
    state = after("KQ", moves)
    assert state.to_act == (player,)
    assert list(state.legal_actions(player)) == [MOVES[letter] for letter in legal]
    if "f" not in legal:
        with pytest.raises(IllegalAction):
            state.apply(player, MOVES["f"])


def test_chance_counts_copies() -> None:
    deck = [card for card in GAME.deck for _ in range(2)]
    pairs = Counter(permutations(deck, 2))
    deals = {o.action: o.probability for o in GAME.initial_state().chance_outcomes()}
    assert deals == pytest.approx({DealHoleCards(pair): n / 30 for pair, n in pairs.items()})
    board = {str(o.action): o.probability for o in after("KK", "cc").chance_outcomes()}
    assert board == {"board Jack": 0.5, "board Queen": 0.5}


# Texts and the view


def test_the_view_hides_the_other_card() -> None:
    state = after("KQ", "rc Q r")
    own, every = (diagram(GAME, events) for events in (state.observe(1).events, state.log.events))
    assert "Player 0  ?" in own and "Player 0  King" in every
    assert own.startswith("Pot 10 chips") and own.endswith("Round 2: raise")


# Exact knowledge


@pytest.mark.parametrize(
    ("game", "cards", "moves"),
    [
        *((GAME, *hand) for hand in (("KQ", ""), ("KQ", "r"), ("QK", "cc Q"), ("JJ", "cc K"))),
        *((THREE, "TKQ", moves) for moves in ("", "rcc", "crcc", "ccc", "ccc J", "rcc J cr")),
    ],
)
def test_the_posterior_equals_brute_force(game: LeducPoker, cards: str, moves: str) -> None:
    """All orders of the cards that a player has not seen are equally likely."""
    state = after(cards, moves, game)
    deck = [card for card in game.deck for _ in range(2)]
    others = game.num_players - 1
    for player in range(game.num_players):
        knowledge = LeducKnowledge(game, player)
        for event in state.observe(player).events:
            knowledge.update(event)
        rest = list(deck)
        for card in filter(None, (knowledge.own, knowledge.board)):
            rest.remove(card)
        hands = Counter(permutations(rest, others))
        chances = {hand: n / hands.total() for hand, n in hands.items()}
        assert knowledge.world_count() == len(chances)
        bits = -sum(p * math.log2(p) for p in chances.values())
        assert knowledge.entropy() == pytest.approx(bits)
        rows = knowledge.placement().probabilities
        for seat, row in enumerate(rows):
            expected = [
                sum(p for hand, p in chances.items() if hand[seat] == card) for card in game.deck
            ]
            assert row == pytest.approx(expected)
        # The showdown over all orders of the deck.
        win = tie = 0.0
        for order in permutations(rest, others + 1):
            board = knowledge.board or order[-1]
            strengths = [strength(card, board) for card in (knowledge.own, *order[:others])]
            win += strengths[0] > max(strengths[1:])
            tie += strengths[0] == max(strengths[1:])
        orders = math.perm(len(rest), others + 1)
        found = knowledge.showdown()
        assert (found.win, found.tie) == pytest.approx((win / orders, tie / orders))


def test_other_options() -> None:
    with pytest.raises(UsageError, match="set more ranks"):
        LeducPoker(players=4, ranks=2)
    with pytest.raises(UsageError, match="default options only; use bot:odds"):
        Equilibrium(Seat(THREE, 0, random.Random(0)))
    assert THREE.default_bots == ("odds", "odds")
    rules = LeducPoker(players=3, ranks=6, raises=1).text.rules()
    assert "12 cards: two Eights, two Nines, two Tens, two Jacks, two Queens and two Kings" in rules
    assert "at most one raise, of all players together" in rules
    assert LeducPoker(raises=3).return_scale.bounds == (-19, 19)
    check_game(THREE, range(1))
    check_game(LeducPoker(ranks=5, raises=3), range(1))


# The equilibrium


def test_the_bundled_strategy_is_an_equilibrium() -> None:
    """Its exploitability is 0.00009 chips; the value of the game is known from OpenSpiel."""
    policy = policy_of(equilibrium())
    assert exploitability(GAME, policy) < 2e-4
    assert expected_returns(GAME, [policy, policy])[0] == pytest.approx(-0.0856, abs=2e-4)


def test_the_solver_approaches_an_equilibrium(tmp_path: Path) -> None:
    strategies = [leduc_strategy(iterations) for iterations in (2, 12)]
    found = [exploitability(GAME, policy_of(strategy)) for strategy in strategies]
    assert found[0] > 0.5 > found[1]
    write_strategy(strategies[1], tmp_path / "table.txt")
    again = exploitability(GAME, policy_of(equilibrium(tmp_path / "table.txt")))
    assert again == pytest.approx(found[1], abs=1e-3)


def test_exploitability_of_random_play_is_that_of_openspiel() -> None:
    """NashConv of the uniform policy is 4.747222 in OpenSpiel."""
    assert 2 * exploitability(GAME, uniform) == pytest.approx(4.747222, abs=1e-6)


# Measures


def judged(cards: str, moves: str) -> list[Assessment]:
    """Return all assessments of a hand."""
    assessor = LeducAssessor(GAME)
    found = [each for ply in plies(GAME, steps(GAME, cards, moves)) for each in assessor.ply(ply)]
    return found + assessor.end(Outcome("terminated", "", (0.0, 0.0)))


def test_measures_of_a_known_hand() -> None:
    found = judged("KJ", "rc J rrf")
    first, second = (
        sum_measurements(a.measurements for a in found if a.player == seat) for seat in (0, 1)
    )
    assert "calls_paid" not in first
    call = next(a for a in found if a.ply == 2)
    # Of 20 draws of the other card and the board: a Jack wins 4 (by a Jack on the board), and ties
    # 4 (with the other Jack, whatever the board). It gets 6 of 20 pots.
    assert call.facts["share"] == pytest.approx(6 / 20)
    # The call adds 2 chips to a pot of 4, which is more.
    assert second["calls_paid"].total == 0 and second["calls_paid"].weight == 1
    assert call.facts["price"] == pytest.approx(2 / 6)
    assert second["equilibrium_probability"].weight == 2
    knowledge = {a.player: a.facts for a in found if a.kind == "knowledge"}
    # A player with a King counts two Jacks, two Queens and a King.
    assert knowledge[0]["entropy_dealt"] == pytest.approx(1.52193, abs=1e-5)


def test_the_values_of_moves_are_those_of_the_best_response() -> None:
    policies = [partial(probabilities, equilibrium())] * 2
    values = move_values()
    first = [max(values[card, "", ""].values()) for card in GAME.deck]
    # Each first card is equally likely.
    assert sum(first) / 3 == pytest.approx(best_response_value(GAME, policies, 0), abs=1e-9)
    # The equilibrium's first moves lose less than counts; to fold a pair loses much.
    for card in GAME.deck:
        row = equilibrium()[card, "", ""]
        assert all(max(values[card, "", ""].values()) - values[card, "", ""][m] < 0.01 for m in row)
    fold = next(a for a in judged("KJ", "rc J rf") if a.ply == 5)
    assert fold.measurements["value_lost"].total > 5


# OpenSpiel


@pytest.mark.parametrize("players", [2, 3, 4])
def test_equal_to_openspiel(players: int) -> None:
    """Legal actions, players, returns and chances of 1,000 random games each."""
    pyspiel = pytest.importorskip("pyspiel", reason="pip install open_spiel")
    reference = pyspiel.load_game("leduc_poker", {"players": players})
    # Its deck has one rank more than there are players.
    rng, game = random.Random(0), LeducPoker(players=players, ranks=players + 1)
    for _ in range(1000):
        state, other = game.initial_state(), reference.new_initial_state()
        assert isinstance(state, LeducState)
        while not state.is_terminal:
            player = state.to_act[0]
            if player == CHANCE:
                action = state.sample_chance(rng)
                cards = action.cards if isinstance(action, DealHoleCards) else (action.card,)  # type: ignore[attr-defined]
                for card in cards:
                    # Cards 0 to 5 are two Jacks, two Queens and two Kings.
                    copies = [
                        (number, p)
                        for number, p in other.chance_outcomes()
                        if game.deck[number // 2] == card
                    ]
                    other.apply_action(rng.choice(copies)[0])
                state.apply(CHANCE, action)
                continue
            assert other.current_player() == player
            assert state.betting.legal == "".join("fcr"[a] for a in other.legal_actions())
            letter = rng.choice(state.betting.legal)
            state.apply(player, MOVES[letter])
            other.apply_action("fcr".index(letter))
        assert other.is_terminal()
        assert other.returns() == pytest.approx(state.returns())
