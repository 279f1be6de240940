"""The generated family: invented names, other deck sizes, and refutation by all seats."""

from __future__ import annotations

import asyncio
import math
import random
from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cluedo_knowledge import all_deals, likelihood, random_game

from arena.core.action import CHANCE, normalise
from arena.episodes.match import Match, play
from arena.testing import check_game
from games.cluedo.game import Cluedo
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.inference.questions import AnswerDistribution, PositionWeights
from games.cluedo.rules.board import (
    CONSONANTS,
    LENGTH,
    MIN_DIFFERENCE,
    ROOMS,
    SUSPECTS,
    VOWELS,
    WEAPONS,
    Triple,
    invented_names,
)

PRINTED = {normalise(w) for names in (*SUSPECTS.values(), *WEAPONS.values(), ROOMS) for w in names}


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_names_are_words_of_their_own(seed: int) -> None:
    names = invented_names(seed, 36)
    assert len(set(names)) == 36 and not PRINTED & set(map(normalise, names))
    for one, other in combinations(map(str.lower, names), 2):
        assert sum(a != b for a, b in zip(one, other, strict=True)) >= MIN_DIFFERENCE
    for name in names:
        assert name.isalpha() and len(name) == LENGTH
        assert set(name.lower()[::2]) <= set(CONSONANTS) and set(name[1::2]) <= set(VOWELS)


def test_a_seed_shuffles_printed_names() -> None:
    printed, one, other = (Cluedo(suspects=3, names_seed=seed).deck for seed in (0, 1, 2))
    assert one != other
    assert printed.suspects == Cluedo().deck.suspects[:3]
    for deck in (one, other):
        assert len(set(deck.suspects)) == 3 and set(deck.suspects) <= set(Cluedo().deck.suspects)
        assert sorted(deck.rooms) == sorted(printed.rooms) and deck.rooms != printed.rooms


def test_equal_options_make_equal_games() -> None:
    one, other = (Cluedo(theme="generated", names_seed=4) for _ in range(2))
    assert one == other and one.deck == other.deck
    assert not set(one.deck.cards) & set(Cluedo(theme="generated", names_seed=5).deck.cards[:3])
    # Fixed for good: stored replays name these cards.
    assert Cluedo(names_seed=1).deck.weapons[:2] == ("Lead Piping", "Candlestick")
    assert invented_names(0, 3) == ("Kupovi", "Vinoma", "Vaduzo")


def test_conformance() -> None:
    game = Cluedo(theme="generated", suspects=3, weapons=4, rooms=3, players=3)
    check_game(game, seeds=range(1))


def test_a_large_deck_is_played_to_its_end_with_exact_knowledge() -> None:
    game = Cluedo(theme="generated", suspects=12, weapons=3, rooms=12, players=3, names_seed=9)
    episode = asyncio.run(play(Match(game, ["bot:oracle", "bot:detective", "bot:novice"], 1)))
    assert episode.outcome.winner is not None
    state = game.initial_state()
    state.apply(CHANCE, state.sample_chance(random.Random(0)))
    knowledge = CluedoKnowledge(game, 0)
    for event in state.log.witnessed[0]:
        knowledge.update(event)
    # Column sums are the sizes of the hands and of the envelope.
    assert knowledge.marginals().sum(axis=0) == pytest.approx([8, 8, 8, 3])


def test_what_a_card_gives_away_equals_brute_force() -> None:
    """The bits before and after each card that a refuter may show, all others unknown."""
    game = Cluedo(players=3, suspects=3, weapons=3, rooms=3)
    compared = 0
    for seed in range(12):
        state = random_game(game, random.Random(seed), moves=seed)
        player, triple = seed % 3, game.deck.triples[seed]
        events = state.log.witnessed[player]
        knowledge = CluedoKnowledge.after(game, player, events)
        weights = {
            (envelope, hands): likelihood(player, events, envelope, hands, "uniform")
            for envelope, hands in all_deals(game, ())
        }
        refuter = game.refuters(player)[seed % 2]
        before_it = game.refuters(player)[: seed % 2]
        # Entropies of the envelope, given that the seat can refute, and given the card.
        spread: dict[str | None, dict[Triple, float]] = defaultdict(lambda: defaultdict(float))
        for (envelope, hands), weight in weights.items():
            if any(card in hands[seat] for seat in before_it for card in triple):
                continue
            held = [card for card in triple if card in hands[refuter]]
            for card in held:
                spread[card][envelope] += weight / len(held)
                spread[None][envelope] += weight / len(held)
        found = AnswerDistribution(PositionWeights(knowledge), triple)
        if sum(spread[None].values()):
            before = bits(spread.pop(None))
            leaks = {
                card: before - bits(each) for card, each in spread.items() if sum(each.values())
            }
            assert found.leaks(refuter) == pytest.approx(leaks, abs=1e-9)
            compared += len(leaks)
    assert compared >= 8


def bits(weights: Mapping[Triple, float]) -> float:
    total = sum(weights.values())
    return -sum(w / total * math.log2(w / total) for w in weights.values() if w)
