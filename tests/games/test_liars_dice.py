"""Liar's dice: rules, exact probabilities against brute force, bots and measures."""

from __future__ import annotations

import math
import random
from collections import Counter as Tally
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_games import mean_return, plies

from arena.agents.reply.reader import read_reply
from arena.core.action import CHANCE, Action, Step
from arena.core.analysis import sum_measurements
from arena.core.errors import IllegalAction
from arena.core.event import Outcome
from arena.core.game import State
from arena.testing import check_game
from games.liars_dice.bots import TEMPERATURE, hand_posterior, truth_posterior
from games.liars_dice.knowledge import LiarsDiceAssessor, LiarsDiceKnowledge
from games.liars_dice.rules import (
    CHALLENGE,
    DiceBid,
    DiceRevealed,
    Hand,
    LiarsDice,
    RollHand,
    hand_distribution,
)


def after(game: LiarsDice, hands: list[Hand], *moves: str) -> State:
    """The position after these rolls and moves."""
    state = game.initial_state()
    for hand in hands:
        state.apply(CHANCE, RollHand(hand))
    for move in moves:
        state.apply(state.to_act[0], game.actions.parse(move))
    return state


def notes_of(state: State, player: int) -> LiarsDiceKnowledge:
    notes = state.observe(player).notes
    assert isinstance(notes, LiarsDiceKnowledge)
    return notes


# Rules


@pytest.mark.parametrize(
    ("wild", "hands", "bid", "count"),
    [
        ("highest", [(2, 6), (2, 3)], "bid 3 twos", 3),
        ("highest", [(2, 6), (2, 3)], "bid 1 six", 1),
        ("ones", [(1, 6), (2, 6)], "bid 3 sixes", 3),
        ("ones", [(1, 6), (2, 6)], "bid 2 ones", 1),
        ("none", [(2, 6), (2, 3)], "bid 3 twos", 2),
    ],
)
def test_a_challenge_counts_all_dice(wild: str, hands: list[Hand], bid: str, count: int) -> None:
    game = LiarsDice(wild=wild)
    state = after(game, hands, bid, "challenge")
    shown = state.log.events[-1]
    assert isinstance(shown, DiceRevealed) and shown.count == count
    is_true = count >= shown.quantity
    assert state.returns() == ((1, -1) if is_true else (-1, 1))
    assert state.reason().endswith("true" if is_true else "false")


def test_bids_rise() -> None:
    game = LiarsDice(dice=1, faces=3)
    first = after(game, [(1,), (2,)])
    with pytest.raises(IllegalAction):
        first.apply(0, CHALLENGE)
    for bid, legal in (
        ("bid 1 two", ["bid 1 three", "bid 2 ones", "bid 2 twos", "bid 2 threes", "challenge"]),
        ("bid 2 threes", ["challenge"]),
    ):
        assert [*map(str, after(game, [(1,), (2,)], bid).legal_actions(1))] == legal


def test_the_last_player_with_dice_wins() -> None:
    game = LiarsDice(players=3, dice=1, rounds="last_standing")
    state = after(game, [(1,), (2,), (3,)], "bid 1 five", "challenge")
    # Player 0 is out, so the next one begins, and at most two dice can be bid.
    assert state.to_act == (CHANCE,) and state.returns() == (0, 0, 0)
    state.apply(CHANCE, RollHand((1,)))
    state.apply(CHANCE, RollHand((1,)))
    assert state.to_act == (1,)
    assert max(b.quantity for b in state.legal_actions(1).of(DiceBid)) == 2
    state.apply(1, DiceBid(2, 1))
    assert state.to_act == (2,)
    state.apply(2, CHALLENGE)
    assert state.returns() == (-1 / 2, 1, -1 / 2)
    assert state.reason() == "only Player 1 has dice left"
    # The loser begins the next round.
    game = LiarsDice(players=3, dice=2, rounds="last_standing")
    state = after(game, [(1, 1), (2, 2), (3, 3)], "bid 1 two", "bid 1 five", "challenge")
    for hand in [(1, 1), (2,), (3, 3)]:
        state.apply(CHANCE, RollHand(hand))
    assert state.to_act == (1,)
    assert notes_of(state, 0).dice_left == (2, 1, 2)
    assert notes_of(state, 0).hands == {0: (1, 1)}


def test_chance_is_multinomial() -> None:
    throws = Tally(tuple(sorted(throw)) for throw in product((1, 2, 3), repeat=4))
    assert dict(hand_distribution(4, 3)) == {h: n / 3**4 for h, n in throws.items()}
    state = LiarsDice().initial_state()
    for wrong in ((2, 1), (1,), (1, 7), (0, 1)):
        with pytest.raises(IllegalAction):
            state.apply(CHANCE, RollHand(wrong))


def test_conformance_of_other_options() -> None:
    check_game(LiarsDice(players=3, dice=2, rounds="last_standing", wild="ones"))
    check_game(LiarsDice(players=4, dice=1, faces=3, wild="none"))


# Exact probabilities


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(["highest", "ones", "none"]), st.randoms(use_true_random=False))
def test_probabilities_equal_brute_force(wild: str, rng: random.Random) -> None:
    game = LiarsDice(players=3, dice=rng.randint(1, 2), faces=rng.randint(2, 4), wild=wild)
    faces, n = list(game.faces), game.options.dice
    hands = [tuple(sorted(rng.choices(faces, k=n))) for _ in range(3)]
    notes = notes_of(after(game, hands), 1)
    throws = list(product(faces, repeat=2 * n))
    bid = rng.choice(game.bids)
    counts = [game.matches((*t, *hands[1]), bid.face) for t in throws]
    true = sum(count >= bid.quantity for count in counts)
    assert notes.probability(bid) == pytest.approx(true / len(throws))
    # Without bids there is nothing to read.
    assert truth_posterior(notes, [bid]) == pytest.approx([true / len(throws)])


def test_knowledge_has_the_hands_of_the_others() -> None:
    game = LiarsDice(players=3, dice=2, faces=3)
    state = after(game, [(1, 2), (3, 3), (1, 1)])
    knowledge = notes_of(state, 0)
    worlds = Tally(
        (tuple(sorted(t[:2])), tuple(sorted(t[2:]))) for t in product((1, 2, 3), repeat=4)
    )
    assert knowledge.world_count() == len(worlds)
    bits = -sum(n / 81 * math.log2(n / 81) for n in worlds.values())
    assert knowledge.entropy() == pytest.approx(bits)
    # Ones, and wild threes.
    assert knowledge.count_probabilities(1) == pytest.approx(
        [math.comb(4, k) * 2**k / 81 for k in range(5)]
    )
    for player, move in ((0, DiceBid(4, 1)), (1, CHALLENGE)):
        state.apply(player, move)
    knowledge = notes_of(state, 0)
    assert knowledge.entropy() == 0 and knowledge.world_count() == 1
    assert knowledge.probability(DiceBid(5, 1)) == 1
    # All four dice of the others count as ones, two as twos: the wild threes.
    placement = knowledge.placement()
    assert placement.things == ("ones", "twos", "threes")
    assert [row.index(1.0) for row in placement.probabilities] == [4, 2, 2]


def test_what_a_bid_suggests_equals_brute_force() -> None:
    """Bayes over ordered throws, with the response of the model written out."""
    game = LiarsDice(dice=2, faces=3)
    state = after(game, [(1, 2), (1, 3)], "bid 1 two", "bid 2 twos", "bid 3 ones")
    weights = dict[Hand, float]()
    for throw in product((1, 2, 3), repeat=2):
        seen = notes_of(after(game, [tuple(sorted(throw)), (1, 3)]), 0)
        likelihood = 1.0
        for last, made in ((None, DiceBid(1, 2)), (DiceBid(2, 2), DiceBid(3, 1))):
            options = [seen.probability(bid) for bid in game.raises(last, 4)]
            options += [1 - seen.probability(last)] if last else []
            total = sum(math.exp(q / TEMPERATURE) for q in options)
            likelihood *= math.exp(seen.probability(made) / TEMPERATURE) / total
        hand = tuple(sorted(throw))
        weights[hand] = weights.get(hand, 0.0) + likelihood / 9
    hands = [hand for hand, _ in hand_distribution(2, 3)]
    expected = [weights[hand] / sum(weights.values()) for hand in hands]
    assert hand_posterior(notes_of(state, 1), 0) == pytest.approx(expected)
    # Three ones are true if the bidder has a one or a three twice: the own (1, 3) count as two.
    chance = sum(p for h, p in zip(hands, expected, strict=True) if game.matches(h, 1))
    assert truth_posterior(notes_of(state, 1), [DiceBid(3, 1)]) == pytest.approx([chance])


# Text


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("Action: bid 3 fives", DiceBid(3, 5)),
        ("Action: bid 3 5s", DiceBid(3, 5)),
        ("Action: bid three fives", DiceBid(3, 5)),
        ("Action: bid 3x5", DiceBid(3, 5)),
        ("Action: raise to 3 fives", DiceBid(3, 5)),
        ("Action: bid 1 fives", DiceBid(1, 5)),
        ("Action: bid 1 five", DiceBid(1, 5)),
        ("Liar!", CHALLENGE),
        ("Action: Challenge.", CHALLENGE),
    ],
)
def test_replies_of_models(reply: str, action: Action) -> None:
    hands: list[Hand] = [(1, 2), (3, 3)]
    moves = () if reply == "Action: bid 1 five" or "1 fives" in reply else ("bid 1 one",)
    observation = after(LiarsDice(), hands, *moves).observe(len(moves))
    assert read_reply(reply, observation).action == action


# Bots and measures


@pytest.mark.parametrize(
    ("bot", "others", "options", "least"),
    [
        ("bot:counter", "bot:random", {}, 0.7),
        ("bot:reader", "bot:random", {"players": 3, "rounds": "last_standing"}, 0.7),
        ("bot:reader", "bot:counter", {}, 0.2),
    ],
)
def test_bots_beat_weaker_ones(
    bot: str, others: str, options: dict[str, int | str], least: float
) -> None:
    assert mean_return(LiarsDice(**options), bot, others, 60) > least


def test_measures_of_a_known_game() -> None:
    game = LiarsDice()
    steps = [Step(CHANCE, RollHand((2, 3))), Step(CHANCE, RollHand((4, 4)))]
    steps += [Step(0, DiceBid(3, 6)), Step(1, DiceBid(4, 6)), Step(0, CHALLENGE)]
    assessor = LiarsDiceAssessor(game)
    found = [each for ply in plies(game, steps) for each in assessor.ply(ply)]
    sums = [sum_measurements(a.measurements for a in found if a.player == seat) for seat in (0, 1)]
    # Both hidden dice would have to be sixes, and one more: impossible.
    assert sums[0]["impossible_bids"].total == 1
    assert sums[0]["bid_probability"].total == 0
    # Three of the four dice cannot be sixes, as two of them are fours.
    assert sums[1]["challenges_missed"].total == 1
    # The last possible bid can only be challenged.
    assert "challenges_sound" not in sums[0] and "challenges_missed" not in sums[0]
    end = assessor.end(Outcome("terminated", "", (0.0, 0.0)))
    assert [a.facts["entropy_dealt"] for a in end] == [pytest.approx(4.3366, abs=1e-4)] * 2
    comments = [game.analysis.comment(a) for a in found]
    assert [c.mistake for c in comments if c] == [True, True, False]


def test_consequences_are_the_exact_odds_by_the_own_dice() -> None:
    game = LiarsDice()
    state = after(game, [(2, 3), (4, 4)], "bid 1 three")
    knowledge = notes_of(state, 1)
    found = game.analysis.consequences(knowledge, state.legal_actions(1))
    # The bidder has two dice that the caller does not see: threes and wild sixes, 1 / 3 each.
    assert found[CHALLENGE] == "right with probability 44 %, by your own dice"
    assert found[DiceBid(2, 4)] == "true with probability 100 %, by your own dice"
    assert found[DiceBid(3, 4)] == "true with probability 56 %, by your own dice"
    assert found[DiceBid(4, 1)] == "true with probability 0 %, by your own dice"
    shares = [text for action, text in found.items() if isinstance(action, DiceBid)]
    numbers = [int(text.split()[3]) for text in shares]
    assert numbers == sorted(numbers, reverse=True), "the best first"


# OpenSpiel


@pytest.mark.parametrize(
    ("theirs", "options"),
    [
        ("liars_dice", {"dice": 1}),
        ("liars_dice(numdice=2,dice_sides=4)", {"dice": 2, "faces": 4}),
        ("liars_dice(numdice=3)", {"dice": 3}),
    ],
)
def test_equal_to_openspiel(theirs: str, options: dict[str, int | str]) -> None:
    """Legal actions, players and returns of 340 random games each, 1,020 in all."""
    pyspiel = pytest.importorskip("pyspiel", reason="pip install open_spiel")
    game, reference, rng = LiarsDice(**options), pyspiel.load_game(theirs), random.Random(0)
    names = {f"{b.quantity}-{b.face}": b for b in game.bids} | {"Liar": CHALLENGE}
    for _ in range(340):
        state, other = game.initial_state(), reference.new_initial_state()
        while not state.is_terminal:
            player = state.to_act[0]
            if player == CHANCE:
                roll = state.sample_chance(rng)
                assert isinstance(roll, RollHand)
                for die in roll.dice:
                    other.apply_action(die - 1)
                state.apply(CHANCE, roll)
                continue
            legal = {a: names[other.action_to_string(player, a)] for a in other.legal_actions()}
            assert other.current_player() == player
            assert list(state.legal_actions(player)) == list(legal.values())
            number = rng.choice(list(legal))
            state.apply(player, legal[number])
            other.apply_action(number)
        assert other.is_terminal()
        assert tuple(other.returns()) == state.returns()


def test_resample_rolls_hidden_dice_only() -> None:
    start = LiarsDice(players=2, dice=2, rounds="last_standing")
    history = [Step(CHANCE, RollHand((1, 1))), Step(CHANCE, RollHand((2, 2)))]
    history += [Step(0, DiceBid(1, 1)), Step(1, CHALLENGE), Step(CHANCE, RollHand((3, 4)))]
    worlds = [start.analysis.resample(history, 1, random.Random(n)) for n in range(20)]
    assert all(world is not None and world[:4] == history[:4] for world in worlds)
    assert len({world[4] for world in worlds if world}) > 5
    assert start.analysis.resample(history, 0, random.Random(0)) == history
