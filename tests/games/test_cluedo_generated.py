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

from arena import UsageError
from arena.core.action import CHANCE, normalise
from arena.episodes.match import Match, play
from arena.testing import check_game
from games.cluedo.game import Cluedo
from games.cluedo.inference.answers import JointAnswers
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import (
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
from games.cluedo.rules.events import CardShown, DealCards, Refuted, Show, Suggest, Unable
from games.cluedo.views.scene import CluedoScene

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


def test_options_are_read_back() -> None:
    for game in (Cluedo(), Cluedo(theme="generated", names_seed=3, refuters="all")):
        assert Cluedo(**game.options.model_dump(mode="json")) == game


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"suspects": 7}, "theme 'uk' has 6 suspects, not 7; for more use theme 'generated'"),
        ({"rooms": 10, "theme": "us"}, "theme 'us' has 9 rooms, not 10"),
        ({"theme": "generated", "weapons": 2}, "theme 'generated' needs 3 to 12 weapons, not 2"),
        ({"theme": "generated", "weapons": 13}, "less than or equal to 12"),
        ({"theme": "generated", "variant": "classic"}, "classic board needs all 6 suspects"),
        ({"variant": "classic", "names_seed": 1}, "names_seed needs variant 'cards'"),
        ({"theme": "generated", "names_seed": -1}, "greater than or equal to 0"),
        ({"refuters": "none"}, "'in_turn' or 'all'"),
    ],
)
def test_bad_options(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Cluedo(**options)  # type: ignore[arg-type]


def test_all_who_can_refute_show_a_card_each() -> None:
    state = Cluedo(players=4, suspects=3, weapons=3, rooms=4, refuters="all").initial_state()
    scarlett, mustard, white = state.game.deck.suspects
    rope, (hall, *rest) = state.game.deck.weapons[2], state.game.deck.rooms
    dagger, stick = state.game.deck.weapons[1], state.game.deck.weapons[0]
    sort = state.game.deck.sort
    hands = (sort([stick, rest[0]]), sort([scarlett, hall]), sort([dagger, rest[1]]), (mustard,))
    envelope = Triple(white, rope, rest[2])
    state.apply(CHANCE, DealCards(envelope, hands))
    state.apply(0, Suggest(scarlett, dagger, hall))
    assert state.log.events[-3:] == [Unable((3,)), Refuted(1, 0), Refuted(2, 0)]
    # Seat 1 has a choice of two cards; seat 2 follows, whatever it is.
    assert state.to_act == (1,) and len(state.legal_actions(1)) == 2
    state.apply(1, Show(hall))
    assert state.to_act == (2,) and list(state.legal_actions(2)) == [Show(dagger)]
    state.apply(2, Show(dagger))
    assert state.to_act == (0,)
    shown = [event for event in state.log.events if isinstance(event, CardShown)]
    assert shown == [CardShown(1, 0, hall), CardShown(2, 0, dagger)]
    assert not any(isinstance(event, CardShown) for event in state.log.witnessed[3])
    row = state.observe(0).arrays()["suggestions"][0].tolist()
    index = state.game.deck.index
    assert row[3:] == [0, 0, 1, 1, 0, 0, index[hall] + 1, index[dagger] + 1, 0]
    scene = CluedoScene(state.game, 0)
    for event in state.log.witnessed[0]:
        scene.update(event)
    suggestion = scene.to_json()["suggestion"]
    assert suggestion and suggestion["refutations"] == [
        {"player": 1, "card": hall},
        {"player": 2, "card": dagger},
    ]


def test_conformance() -> None:
    game = Cluedo(theme="generated", suspects=3, weapons=4, rooms=3, players=3, refuters="all")
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
    game = Cluedo(players=3, suspects=3, weapons=3, rooms=3, refuters="all")
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
        refuter = game.refuters(player)[0]
        # Entropies of the envelope, given that the seat can refute, and given the card.
        spread: dict[str | None, dict[Triple, float]] = defaultdict(lambda: defaultdict(float))
        for (envelope, hands), weight in weights.items():
            held = [card for card in triple if card in hands[refuter]]
            for card in held:
                spread[card][envelope] += weight / len(held)
                spread[None][envelope] += weight / len(held)
        found = JointAnswers(knowledge, triple)
        if sum(spread[None].values()):
            entropies = found.refutation(refuter)
            assert entropies.before_card == pytest.approx(bits(spread.pop(None)), abs=1e-9)
            after = {card: bits(each) for card, each in spread.items() if sum(each.values())}
            assert entropies.after_card == pytest.approx(after, abs=1e-9)
            compared += len(after)
    assert compared >= 8


def bits(weights: Mapping[Triple, float]) -> float:
    total = sum(weights.values())
    return -sum(w / total * math.log2(w / total) for w in weights.values() if w)
