"""Cluedo in words: the three levels, the two forms, and what a text costs."""

from __future__ import annotations

import random
from typing import get_args

import pytest
from known_deal import ENVELOPE, HANDS
from random_games import walk

from arena.core.action import CHANCE
from arena.core.observation import TextLevel
from games.cluedo.game import Cluedo
from games.cluedo.rules.setting import Accuse, DealCards, Dealt, EndTurn, Show, Suggest
from games.cluedo.rules.state import CluedoState


def played() -> CluedoState:
    state = Cluedo(players=3).initial_state()
    state.apply(CHANCE, DealCards(ENVELOPE, HANDS))
    state.apply(0, Suggest("Reverend Green", "Revolver", "Hall"))
    state.apply(1, Show("Revolver"))
    state.apply(0, EndTurn())
    return state


def test_others_do_not_read_which_card_was_shown() -> None:
    text = played().observe(2).text("deductions")
    assert "Player 1 shows Player 0 a card." in text
    assert "Player 1 shows Player 0: Revolver." not in text


def accused() -> CluedoState:
    """Player 1 has made a false accusation, and all others have passed."""
    state = played()
    state.apply(1, Accuse("Mrs White", "Rope", "Study"))
    state.apply(2, EndTurn())
    return state


@pytest.mark.parametrize("level", get_args(TextLevel))
def test_a_summary_keeps_what_no_notebook_contains(level: TextLevel) -> None:
    """Accusations and the envelope after one; suggestions are left out."""
    state = accused()
    summary = state.observe(0).text(level, forget=state.observe(0).num_events)
    assert "Player 1 accuses Mrs White, Rope, Study, and is wrong" in summary
    assert "Player 0 holds Miss Scarlett" in summary and "Cards dealt: Player 0 6" in summary
    assert "Player 0 suggests" not in summary and "looks into" not in summary
    seen = state.observe(1)
    own = seen.text(level, forget=seen.num_events)
    assert "Player 1 looks into the envelope: Mrs White, Rope, Hall." in own


def test_a_summary_without_events_has_the_notebook_instead() -> None:
    """Also at level `events`: what was forgotten must be known from somewhere."""
    observation = accused().observe(0)
    summary = observation.text("events", forget=observation.num_events)
    assert "- own cards: Miss Scarlett" in summary
    assert "- shown to you by Player 1: Revolver" in summary
    deductions = observation.text("deductions", forget=observation.num_events)
    assert "What follows:" in deductions and "- own cards" not in deductions


def test_open_cards_are_placed() -> None:
    state = Cluedo(players=4, leftover_cards="open").initial_state()
    state.apply(CHANCE, state.sample_chance(random.Random(1)))
    dealt = state.log.events[0]
    assert isinstance(dealt, Dealt) and len(dealt.open_cards) == 2
    text = state.observe(0).text("deductions")
    (line,) = (line for line in text.splitlines() if line.startswith("- cards not placed yet: "))
    unplaced = set(line.partition(": ")[2].split(", "))
    hand = state.observe(0).notes.hand
    assert unplaced == set(state.game.deck.cards) - set(dealt.open_cards) - set(hand)


@pytest.mark.parametrize("variant", ["cards", "classic"])
def test_every_example_in_a_text_is_a_legal_action(variant: str) -> None:
    examples = 0
    for state in walk(Cluedo(players=3, variant=variant), 1):
        observation = state.observe(state.to_act[0])
        _, found, example = observation.text("events").rpartition("For example: ")
        if found:
            assert observation.parse(example) in observation.legal_actions
            examples += 1
    assert examples >= 50
