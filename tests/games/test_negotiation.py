"""Negotiation: rules, reference points against brute force, bots, and OpenSpiel's returns."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_games import mean_return

from arena import (
    CHANCE,
    Match,
    Say,
    Spoken,
    make_game,
    play,
)
from arena.core.action import Action
from arena.core.analysis import WeightedSum
from arena.core.errors import IllegalAction, InvalidAction
from arena.episodes.measurement import measure_seats
from games.negotiation.knowledge import NegotiationKnowledge, bargaining_reference
from games.negotiation.rules import (
    ACCEPT,
    REJECT,
    DealItems,
    DivisionProposed,
    ItemsDealt,
    Negotiation,
    NegotiationState,
    ProposeDivision,
    ValuesDealt,
    value_vectors,
    worth,
)

DEAL = DealItems((1, 4, 1), ((9, 0, 1), (2, 2, 0)))


def after(deal: DealItems, *actions: Action, **options: Any) -> NegotiationState:
    """Return the position after this deal and these actions."""
    state = Negotiation(**options).initial_state()
    for action in (deal, *actions):
        state.apply(state.to_act[0], action)
    return state


def keep(*numbers: int) -> ProposeDivision:
    return ProposeDivision(numbers)


def test_an_accepted_offer_divides_the_items() -> None:
    state = after(DEAL)
    # 2 * 5 * 2 divisions, and nothing to accept yet.
    assert len(state.legal_actions(0)) == 20
    for action in (ACCEPT, REJECT, keep(2, 0, 0)):
        with pytest.raises(IllegalAction):
            state.apply(0, action)
    state.apply(0, keep(1, 0, 1))
    assert state.offer == ((1, 0, 1), (0, 4, 0)) and state.returns() == (0, 0)
    state.apply(1, ACCEPT)
    assert state.is_terminal and state.returns() == (10, 8)
    # Whether it is Pareto-optimal would tell each player about the values of the other.
    assert state.reason() == "agreement on the offer of Player 0"


def test_the_last_turn_is_an_answer() -> None:
    state = after(DEAL, keep(1, 4, 1), keep(1, 4, 1), turns=4)
    # A fallback gives nothing away.
    assert list(state.game.fallback_actions(state.observe(0))) == [keep(1, 4, 1)]
    state.apply(0, keep(1, 4, 1))
    assert list(state.legal_actions(1)) == [ACCEPT, REJECT]
    assert list(state.game.fallback_actions(state.observe(1))) == [ACCEPT]
    refused = state.clone()
    refused.apply(1, REJECT)
    assert refused.is_terminal and refused.returns() == (0, 0)
    assert refused.reason() == "no deal within 4 turns"
    state.apply(1, ACCEPT)
    assert state.returns() == (10, 0)


def test_one_message_in_each_turn() -> None:
    state = after(DEAL)
    turn, message = state.turn, Say("I need the book")
    state.apply(0, message)
    assert state.log.events[-1] == Spoken(0, "I need the book")
    assert state.to_act == (0,) and state.turn == turn
    with pytest.raises(IllegalAction, match="say"):
        state.apply(0, message)
    state.apply(0, keep(1, 0, 1))
    state.apply(1, message)
    assert 'Player 0: "I need the book"' in state.observe(1).text()
    assert len(state.observe(1).legal_actions.speech) == 0


def test_chance_deals_only_by_the_rule() -> None:
    state = Negotiation().initial_state()
    text = "items 1 4 1; values 9 0 1, 2 2 0"
    assert str(DEAL) == text and state.parse(text) == DEAL
    for wrong in (
        "items 1 4 1; values 9 0 1, 2 2 1",  # Worth 11 to player 1.
        "items 1 1 1; values 9 0 1, 2 2 6",  # Three items.
        "items 1 4 1; values 9 0 1, 9 0 1",  # No value for a hat.
        "items 1 4 1; values 9 0 1",
        "items 1 4 1; values x",
        "nothing",
    ):
        with pytest.raises(InvalidAction):
            state.parse(wrong)
    with pytest.raises(IllegalAction):
        state.apply(CHANCE, DealItems((1, 4, 1), ((9, 0, 1), (9, 0, 1))))


# The rule of the deal and exact knowledge


def allowed_by_the_paper(values: tuple[tuple[int, ...], ...]) -> bool:
    """Return whether values keep the rule, written down a second time."""
    each_wanted = all(any(row[item] for row in values) for item in range(3))
    return each_wanted and any(all(row[item] for row in values) for item in range(3))


def test_deals_are_equally_likely() -> None:
    """Of the deals with the same items and own values, all others are drawn equally often."""
    rng, counts, state = random.Random(1), Counter[Any](), Negotiation().initial_state()
    for _ in range(8_000):
        deal = state.sample_chance(rng)
        assert isinstance(deal, DealItems)
        if deal.counts == (1, 4, 1):
            counts[deal.values] += 1
    vectors = value_vectors((1, 4, 1))
    possible = [pair for pair in product(vectors, repeat=2) if allowed_by_the_paper(pair)]
    assert set(counts) <= set(possible)
    mean = counts.total() / len(possible)
    statistic = sum((counts[values] - mean) ** 2 / mean for values in possible)
    freedom = len(possible) - 1
    assert abs(statistic - freedom) < 4 * math.sqrt(2 * freedom)


def test_knowledge_equals_brute_force() -> None:
    for player, own in enumerate(DEAL.values):
        knowledge = NegotiationKnowledge(Negotiation(), player)
        assert knowledge.world_count() == 1 and knowledge.placement().probabilities == ()
        for event in (ItemsDealt(DEAL.counts), ValuesDealt(player, own)):
            knowledge.update(event)
        worlds = [
            other
            for other in product(range(11), repeat=3)
            if worth(DEAL.counts, other) == 10 and allowed_by_the_paper((own, other))
        ]
        assert knowledge.possible() == tuple(worlds)
        assert knowledge.entropy() == pytest.approx(math.log2(len(worlds)))
        for item, row in enumerate(knowledge.placement().probabilities):
            counted = Counter(world[item] for world in worlds)
            assert row == pytest.approx([counted[value] / len(worlds) for value in range(11)])
        # Offers prove nothing.
        knowledge.update(DivisionProposed(1 - player, ((1, 4, 1), (0, 0, 0))))
        assert knowledge.world_count() == len(worlds)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6))
def test_reference_points_equal_brute_force(seed: int) -> None:
    deal = Negotiation().initial_state().sample_chance(random.Random(seed))
    assert isinstance(deal, DealItems)
    counts, values = deal.counts, deal.values
    reference = bargaining_reference(counts, values)
    ways = [
        shares
        for shares in product(product(*(range(count + 1) for count in counts)), repeat=2)
        if all(map(int.__eq__, map(sum, zip(*shares, strict=True)), counts))
    ]
    points = {tuple(map(worth, shares, values)) for shares in ways}
    frontier = {
        p
        for p in points
        if not any(q != p and all(b >= a for a, b in zip(p, q, strict=True)) for q in points)
    }
    assert reference.frontier == frontier
    assert reference.most == max(map(sum, points))
    best = max(map(math.prod, points))
    solutions = [p for p in points if math.prod(p) == best]
    assert best > 0
    assert reference.nash == pytest.approx(
        [sum(column) / len(solutions) for column in zip(*solutions, strict=True)]
    )


def test_measures_of_a_known_deal() -> None:
    reference = bargaining_reference(DEAL.counts, DEAL.values)
    assert list(reference.nash) == [10, 8]
    assert (10, 6) not in reference.frontier and (10, 8) in reference.frontier
    match = Match(Negotiation(talk=False), ["bot:conceder"] * 2, seed=3)
    episode = asyncio.run(play(match))
    for seat, measured in enumerate(measure_seats(match.game, episode)):
        assert measured["agreements"] == WeightedSum(1.0)
        assert measured["nash_ratio"].total == episode.outcome.returns[seat]
        assert 0 <= measured["welfare"].total <= measured["welfare"].weight


# Bots, other libraries, conformance


@pytest.mark.parametrize("bot", ["bot:conceder", "bot:boulware"])
def test_bots_beat_random(bot: str) -> None:
    """A bot among random players has more points than a random player against it."""
    game = make_game("negotiation")
    points = mean_return(game, bot, "bot:random", 10)
    assert points > 1.5 * mean_return(game, "bot:random", bot, 10)


def test_returns_equal_those_of_open_spiel() -> None:
    """Each of the 1,000 instances there is played once: legal actions and returns are equal."""
    pyspiel = pytest.importorskip("pyspiel")
    reference = pyspiel.load_game("bargaining")
    game = Negotiation(talk=False)
    numbers = {tuple(offer.quantities): n for n, offer in enumerate(reference.all_offers())}
    for number, instance in enumerate(reference.all_instances()):
        rng, state = random.Random(number), game.initial_state()
        other = reference.new_initial_state()
        state.apply(CHANCE, DealItems(tuple(instance.pool), tuple(map(tuple, instance.values))))
        other.apply_action(number)
        while not state.is_terminal:
            player = other.current_player()
            assert state.to_act == (player,)
            offers = state.legal_actions(player).of(ProposeDivision)
            legal: dict[int, Action] = {numbers[offer.kept]: offer for offer in offers}
            if ACCEPT in state.legal_actions(player):
                legal[other.agree_action()] = ACCEPT
            if state.may_offer:
                assert sorted(legal) == other.legal_actions()
            else:
                # There an offer in the last turn ends the game without a deal.
                legal[other.legal_actions()[0]] = REJECT
            agrees = other.agree_action() in legal and rng.random() < 0.2
            chosen = other.agree_action() if agrees else rng.choice(sorted(legal))
            state.apply(player, legal[chosen])
            other.apply_action(chosen)
        assert other.is_terminal() and other.returns() == pytest.approx(list(state.returns()))
