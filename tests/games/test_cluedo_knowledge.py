"""Exact knowledge against brute force on small decks, and against reality on full ones."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_deal import ENVELOPE, HANDS
from plain_count import plain_marginals
from random_games import random_steps

from arena.core.action import CHANCE, Action, Step
from arena.core.action_set import ActionSet
from arena.core.event import Event
from games.cluedo.analysis.assessor import CluedoAnalysis
from games.cluedo.game import Cluedo
from games.cluedo.inference.constraints import Constraints, Contradiction, Holder, propagate
from games.cluedo.inference.counting import DealCount
from games.cluedo.inference.knowledge import CluedoKnowledge, RefuterModel
from games.cluedo.inference.questions import QuestionValues
from games.cluedo.rules.board import Triple
from games.cluedo.rules.setting import (
    Accuse,
    Accused,
    CardShown,
    CluedoSetting,
    DealCards,
    Dealt,
    EnvelopeSeen,
    HandDealt,
    Refuted,
    Suggest,
    Suggested,
    Unable,
)
from games.cluedo.rules.state import CluedoState

Hands = tuple[frozenset[str], ...]


def all_deals(game: CluedoSetting, open_cards: tuple[str, ...]) -> Iterator[tuple[Triple, Hands]]:
    """Every deal of a small deck that leaves these cards open."""

    def split(cards: list[str], sizes: tuple[int, ...]) -> Iterator[Hands]:
        if not sizes:
            yield ()
            return
        for hand in combinations(cards, sizes[0]):
            left = [card for card in cards if card not in hand]
            for others in split(left, sizes[1:]):
                yield (frozenset(hand), *others)

    for envelope in game.deck.triples:
        if set(envelope) & set(open_cards):
            continue
        left = [card for card in game.deck.cards if card not in (*envelope, *open_cards)]
        for hands in split(left, game.hand_sizes):
            yield envelope, hands


def likelihood(
    player: int, events: list[Event], envelope: Triple, hands: Hands, refuter: RefuterModel
) -> float:
    """Return the probability of the witnessed events under this deal, from the rules."""
    weight, named = 1.0, set[str]()
    for event in events:
        match event:
            case HandDealt(seat, cards) if seat == player:
                if frozenset(cards) != hands[seat]:
                    return 0.0
            case Suggested():
                named = set(event.triple)
            case Unable(players):
                if any(named & hands[seat] for seat in players):
                    return 0.0
            case Refuted(seat):
                if not named & hands[seat]:
                    return 0.0
            case CardShown(seat, suggester, card) if suggester == player:
                if card not in hands[seat]:
                    return 0.0
                if refuter == "uniform":
                    weight /= len(named & hands[seat])
            case Accused(correct=correct):
                if (event.triple == envelope) != correct:
                    return 0.0
            case EnvelopeSeen(envelope=seen):
                if seen != envelope:
                    return 0.0
    return weight


def random_game(game: Cluedo, rng: random.Random, moves: int, accuse: float = 0.1) -> CluedoState:
    """A position of a game in which people mostly ask."""

    def choose(rng: random.Random, legal: ActionSet) -> Action:
        calm = [action for action in legal if not isinstance(action, Accuse)]
        kind: Sequence[Action] = legal.of(Suggest) or calm
        if legal.of(Accuse) and (not calm or rng.random() < accuse):
            kind = legal.of(Accuse)
        return rng.choice(kind)

    return game.initial_state().apply_all(random_steps(game, rng, moves + 1, choose))


@st.composite
def small_positions(draw: st.DrawFn) -> CluedoState:
    players = draw(st.integers(2, 4))
    game = Cluedo(
        players=players,
        suspects=draw(st.integers(2, 3)),
        weapons=draw(st.integers(2, 3)),
        rooms=draw(st.integers(max(2, players - 1), 4)),
        leftover_cards=draw(st.sampled_from(["dealt", "open"])),
    )
    return random_game(
        game, random.Random(draw(st.integers(0, 2**32))), moves=draw(st.integers(0, 24))
    )


@settings(max_examples=150, deadline=None)
@given(
    small_positions(),
    st.sampled_from(["uniform", "logic"]),
    st.randoms(use_true_random=False),
)
def test_equals_brute_force(state: CluedoState, refuter: RefuterModel, rng: random.Random) -> None:
    compare(state, refuter, rng)


def compare(state: CluedoState, refuter: RefuterModel, rng: random.Random) -> None:
    """Compare what a player knows, and the value of a question, with an enumeration of deals."""
    game = state.game
    player = rng.randrange(game.num_players)
    events = state.log.witnessed[player]
    knowledge = CluedoKnowledge.after(game, player, events, refuter)
    dealt = next((event for event in events if isinstance(event, Dealt)), None)
    assert dealt is not None
    weights = {
        (envelope, hands): likelihood(player, events, envelope, hands, refuter)
        for envelope, hands in all_deals(game, dealt.open_cards)
    }
    weights = {deal: weight for deal, weight in weights.items() if weight}
    total = sum(weights.values())
    marginals = np.zeros((len(game.deck.cards), game.num_players + 1))
    envelopes: dict[Triple, float] = defaultdict(float)
    for (envelope, hands), weight in weights.items():
        envelopes[envelope] += weight / total
        for holder, cards in enumerate((*hands, envelope)):
            for card in cards:
                marginals[game.deck.index[card], holder] += weight / total
    entropy = -sum(p * math.log2(p) for p in envelopes.values())

    assert knowledge.world_count() == len(weights)
    np.testing.assert_allclose(knowledge.marginals(), marginals, atol=1e-12)
    assert ((knowledge.marginals() > 0) == (marginals > 0)).all(), "certainty must be exact"
    assert knowledge.envelopes() == pytest.approx(dict(envelopes))
    assert knowledge.entropy() == pytest.approx(entropy, abs=1e-12)

    suggestion = rng.choice(game.deck.triples)
    answers: dict[object, dict[Triple, float]] = defaultdict(lambda: defaultdict(float))
    for (envelope, hands), weight in weights.items():
        for answer, chance in possible_answers(game, player, suggestion, hands).items():
            answers[answer][envelope] += weight / total * chance
    information = entropy
    for joint in answers.values():
        probability = sum(joint.values())
        information += sum(p * math.log2(p / probability) for p in joint.values())
    assert QuestionValues(knowledge).bits(suggestion) == pytest.approx(information, abs=1e-9)


def possible_answers(
    game: CluedoSetting, player: int, suggestion: Triple, hands: Hands
) -> dict[object, float]:
    for seat in game.refuters(player):
        if held := [card for card in suggestion if card in hands[seat]]:
            return {(seat, card): 1 / len(held) for card in held}
    return {(): 1.0}


@pytest.mark.parametrize("leftover_cards", ["dealt", "open"])
def test_before_the_deal_every_deal_is_possible(leftover_cards: str) -> None:
    """Four players get four cards each of 21; two cards will lie open."""
    game = Cluedo(players=4, leftover_cards=leftover_cards)
    knowledge = CluedoKnowledge(game, 1)
    sizes = (*game.hand_sizes, 21 - 3 - sum(game.hand_sizes))
    assert sizes[4] == (2 if leftover_cards == "open" else 0)
    orders = math.factorial(18) // math.prod(map(math.factorial, sizes))
    assert knowledge.world_count() == 6 * 6 * 9 * orders
    assert knowledge.entropy() == pytest.approx(math.log2(6 * 6 * 9))
    assert knowledge.envelope_cards() == frozenset(game.deck.cards)
    placement = knowledge.placement()
    assert placement.places == (*game.seat_names, "Envelope")
    for row, category in zip(placement.probabilities, placement.kinds, strict=True):
        envelope = 1 / (9 if category == "Rooms" else 6)
        seats = [(1 - envelope) * size / 18 for size in game.hand_sizes]
        assert row == pytest.approx((*seats, envelope))
    deal = knowledge.sample(random.Random(1))
    assert tuple(map(len, (*deal.hands, deal.open_cards))) == sizes
    state = game.initial_state()
    state.apply(CHANCE, deal)
    # The deal shows the open cards; from there on their hand is gone.
    later = CluedoKnowledge.after(game, 1, state.log.witnessed[1])
    assert later.marginals().shape == (21, 5)


def test_samples_follow_the_posterior() -> None:
    state = random_game(Cluedo(players=3), random.Random(3), moves=25, accuse=0.0)
    knowledge, rng = CluedoKnowledge(state.game, 2), random.Random(0)
    for event in state.log.witnessed[2]:
        knowledge.update(event)
    deals = [knowledge.sample(rng) for _ in range(150)]
    for card, row in zip(state.game.deck.cards, knowledge.marginals(), strict=True):
        share = sum(card in deal.envelope for deal in deals) / len(deals)
        assert share == pytest.approx(row[-1], abs=0.17)
    assert all(set(deal.hands[2]) == state.hands[2] for deal in deals)


def test_contradiction_has_no_deals() -> None:
    holders = [Holder(1, 0b111), Holder(1, 0b111, must=0b001), Holder(3, 0b111, must=0b001)]
    assert DealCount(Constraints(3, (0b001, 0b010, 0b100), holders)).total == 0.0


TWO_OF_EACH = (0b000011, 0b001100, 0b110000)


@pytest.mark.parametrize(
    ("holder", "facts"),
    [
        (0, Holder(2, 0b111110, must=0b000001)),  # A card that it cannot have,
        (1, Holder(1, 0b111110, must=0b000001)),  # also where it would fill the hand.
        (1, Holder(1, 0b111111, must=0b000101)),  # More cards than places.
        (0, Holder(2, 0b000001)),  # Fewer cards than places.
        (0, Holder(2, 0b001111, clauses=(0b110000,))),  # None of the cards of a clause.
        (2, Holder(3, 0b111111, must=0b000011)),  # Two cards of a category in the envelope.
        (2, Holder(3, 0b111100)),  # None of a category.
    ],
)
def test_facts_that_fit_no_deal_are_a_contradiction(holder: int, facts: Holder) -> None:
    holders = [Holder(2, 0b111111), Holder(1, 0b111111), Holder(3, 0b111111)]
    constraints = Constraints(6, TWO_OF_EACH, holders)
    propagate(constraints.copy())  # Without the facts there are deals.
    holders[holder] = facts
    with pytest.raises(Contradiction):
        propagate(constraints)


@pytest.mark.parametrize("bound", [2**40, 2**80])
def test_event_by_event_equals_the_plain_count(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 64 bits and Python's integers, with results asked for at random times."""
    own, compared = DealCount._bound, 0
    monkeypatch.setattr(DealCount, "_bound", lambda self: max(bound, own(self)))
    for seed in range(40):
        rng = random.Random(seed)
        state = random_game(Cluedo(players=rng.randint(3, 6)), rng, moves=rng.randrange(14, 70))
        player = rng.randrange(state.game.num_players)
        knowledge = CluedoKnowledge(state.game, player, rng.choice(["uniform", "logic"]))
        for event in state.log.witnessed[player]:
            knowledge.update(event)
            if rng.random() < 0.2 and isinstance(event, Refuted | Unable):
                knowledge.entropy()
        fresh = CluedoKnowledge.after(
            state.game, player, state.log.witnessed[player], knowledge.refuter
        )
        count = DealCount(fresh.constraints)
        if math.prod(size + 1 for size in count.sizes) <= 2**12:
            plain = plain_marginals(fresh.constraints)
            np.testing.assert_allclose(knowledge.marginals(), plain, rtol=1e-13)
            assert knowledge.count.total == count.total
            column = dict(zip(state.game.deck.cards, plain[:, -1], strict=True))
            assert knowledge.envelope_cards() == {card for card, p in column.items() if p}
            compared += 1
    assert compared >= 15


def test_a_card_seen_again_costs_no_count_and_counts_again_by_the_model_of_refuters() -> None:
    state = Cluedo(players=3).initial_state()
    state.apply(CHANCE, DealCards(ENVELOPE, HANDS))
    shown = next(card for card in HANDS[1] if card in state.game.deck.rooms)
    asked = Suggested(0, "Miss Scarlett", "Revolver", shown)
    refuters: list[RefuterModel] = ["logic", "uniform"]
    for refuter in refuters:
        knowledge = CluedoKnowledge.after(state.game, 0, state.log.witnessed[0], refuter)
        counts = []
        for _ in range(2):
            for event in (asked, Refuted(1, 0), CardShown(1, 0, shown)):
                knowledge.update(event)
            counts.append(knowledge.count)
        assert (counts[0] is counts[1]) == (refuter == "logic")


def test_a_false_accusation_excludes_the_last_combination_of_two_cards() -> None:
    state = Cluedo(players=3).initial_state()
    state.apply(CHANCE, DealCards(ENVELOPE, HANDS))
    deck = state.game.deck
    knowledge = CluedoKnowledge.after(state.game, 0, state.log.witnessed[0], "logic")
    keep = {ENVELOPE.suspect, ENVELOPE.weapon, ENVELOPE.room}
    other = next(room for room in deck.rooms if room not in keep and room not in HANDS[0])
    envelope = knowledge.constraints.holders[-1]
    # Two rooms are left and one card of each other category; seats 1 and 2 lack no card.
    envelope.may &= sum(1 << deck.index[card] for card in (*ENVELOPE, other))
    assert knowledge.envelope_cards() == {*keep, other}
    knowledge.update(Accused(1, ENVELOPE.suspect, ENVELOPE.weapon, other, correct=False))
    assert knowledge.envelope_cards() == keep


def test_another_world_looks_the_same_to_the_player_and_its_deals_differ() -> None:
    rng = random.Random(4)
    for seed in range(3):
        game = Cluedo(players=3, suspects=3, weapons=3, rooms=4)
        history, state = list[Step](), game.initial_state()
        for _ in range(24):
            if not state.to_act:
                break
            player = state.to_act[0]
            chance = player == CHANCE
            action = state.sample_chance(rng) if chance else rng.choice(state.legal_actions(player))
            history.append(Step(player, action))
            state.apply(player, action)
        analysis = CluedoAnalysis(game)
        assert analysis.resample([], 0, rng) == []
        for player in range(3):
            worlds = [
                CluedoAnalysis(game).resample(history, player, random.Random(n)) for n in range(8)
            ]
            for world in worlds:
                twin = game.initial_state().apply_all(world)
                assert twin.log.witnessed[player] == state.log.witnessed[player], seed
            count = CluedoKnowledge.after(game, player, state.log.witnessed[player], "logic").count
            assert count.total < 8 or len({str(world[0].action) for world in worlds}) > 1
