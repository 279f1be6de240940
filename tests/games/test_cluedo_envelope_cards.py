"""The cards that the envelope may hold: kept event by event, against counts from scratch."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_deal import ENVELOPE, HANDS
from pydantic import JsonValue
from test_cluedo_knowledge import random_game

from arena.core.action import CHANCE
from games.cluedo.game import Cluedo
from games.cluedo.inference.constraints import Constraints, SearchTooLong, envelope_cards, propagate
from games.cluedo.inference.counting import DealCount
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.events import Accused, DealCards
from games.cluedo.rules.state import CluedoState


@st.composite
def any_games(draw: st.DrawFn) -> Cluedo:
    players = draw(st.integers(2, 6))
    common: dict[str, JsonValue] = {
        "players": players,
        "leftover_cards": draw(st.sampled_from(["dealt", "open"])),
    }
    if draw(st.booleans()):
        summoned = draw(st.booleans())
        return Cluedo(variant="classic", summoned_may_suggest=summoned, **common)
    for name in ("suspects", "weapons"):
        common[name] = draw(st.integers(2, 5))
    # Each seat needs a card at least.
    rooms = draw(st.integers(max(2, players), 7))
    return Cluedo(rooms=rooms, **common)


def counted(game: Cluedo, constraints: Constraints) -> set[str]:
    """Return the cards with a positive number of deals that have them in the envelope."""
    column = DealCount(constraints).marginals()[:, -1]
    return {card for card, share in zip(game.deck.cards, column, strict=True) if share > 0}


@settings(max_examples=60, deadline=None)
@given(any_games(), st.randoms(use_true_random=False), st.integers(0, 40), st.integers(0, 5))
def test_kept_knowledge_equals_a_count_from_scratch_after_every_event(
    game: Cluedo, rng: random.Random, moves: int, seat: int
) -> None:
    player = seat % game.num_players
    events = random_game(game, rng, moves, accuse=0.05).log.witnessed[player]
    kept = CluedoKnowledge(game, player, "logic")
    before: Constraints | None = None
    expected = set[str]()
    for number, event in enumerate(events, start=1):
        kept.update(event)
        fresh = CluedoKnowledge.after(game, player, events[:number], "logic").constraints
        # Equal constraints have equal counts, which take most of the time.
        if fresh != before:
            before, expected = fresh, counted(game, fresh)
        assert kept.envelope_cards() == expected, f"after event {number}, {event}"
        if rng.random() < 0.1:
            kept.count  # noqa: B018 - keeps conclusions of its own.


def test_a_search_that_takes_too_long_becomes_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("games.cluedo.inference.constraints.MOST_STEPS", 1)
    counts = 0
    for seed in range(6):
        game = Cluedo(players=4, suspects=4, weapons=4, rooms=6)
        events = random_game(game, random.Random(seed), 40, accuse=0.05).log.witnessed[1]
        knowledge = CluedoKnowledge.after(game, 1, events, "logic")
        expected = counted(game, knowledge.constraints)
        propagate(knowledge.constraints)
        try:
            envelope_cards(knowledge.constraints)
        except SearchTooLong:
            counts += 1
        assert knowledge.envelope_cards() == expected
    assert counts >= 2


def start() -> CluedoState:
    state = Cluedo(players=3).initial_state()
    state.apply(CHANCE, DealCards(ENVELOPE, HANDS))
    return state


def test_a_false_accusation_excludes_the_last_combination_of_two_cards() -> None:
    state = start()
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
