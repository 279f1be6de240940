"""Hanabi: rules, text, conformance, and agreement with OpenSpiel."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hanabi_positions import SMALL, deal, move, random_history

from arena.core.action import CHANCE, Action, Step
from arena.core.errors import IllegalAction, InvalidAction, UsageError
from arena.core.view import diagram
from arena.testing import check_game
from games.hanabi.deck import HanabiDeck
from games.hanabi.rules import (
    CardPlayed,
    DiscardSlot,
    DrawCard,
    Hanabi,
    HanabiDeal,
    Hint,
    HintGiven,
    PlaySlot,
)

# Rules


def test_deck_has_the_copies_of_the_card_game() -> None:
    deck = HanabiDeck(5, 5)
    assert deck.size == 50
    assert deck.kinds[:6] == ("R1", "R2", "R3", "R4", "R5", "Y1")
    assert deck.copies[:5] == (3, 2, 2, 2, 1)
    assert HanabiDeck(1, 1).copies == (3,)
    assert HanabiDeck(2, 2).copies == (3, 1, 3, 1)


def test_hint_names_all_cards_and_no_others() -> None:
    state = deal(Hanabi(), "R1 R1 R1 Y2 Y2", "R2 G3 R4 W5 B1")
    move(state, "hint Player 1 red")
    assert state.log.events[-1] == HintGiven(0, 1, "red", (1, 3), 7)
    move(state, "hint Player 0 rank 2")
    assert state.log.events[-1] == HintGiven(1, 0, "rank 2", (4, 5), 6)
    # A hint must fit a card, and players give none to themselves.
    legal = state.legal_actions(0)
    assert Hint(1, "yellow") not in legal
    assert {hint.target for hint in legal.of(Hint)} == {1}


def test_tokens_limit_hints_and_discards() -> None:
    state = deal(Hanabi(**SMALL), "R1 R1", "Y1 Y1")
    with pytest.raises(IllegalAction):
        state.apply(0, DiscardSlot(1))
    move(state, "hint Player 1 yellow", "hint Player 0 red", "hint Player 1 rank 1")
    assert state.tokens == 0
    assert not state.legal_actions(1).of(Hint)
    move(state, "discard slot 1", "draw R2")
    assert state.tokens == 1
    assert state.hands == [["R1", "R1"], ["Y1", "R2"]]


def test_complete_firework_recovers_a_token() -> None:
    state = deal(Hanabi(**SMALL), "R1 R3", "R2 Y1")
    move(state, "play slot 1", "draw Y1", "play slot 1", "draw Y2", "hint Player 1 yellow")
    move(state, "hint Player 0 red", "play slot 1")
    assert state.fireworks == [3, 0]
    assert state.tokens == 2
    played = state.log.events[-1]
    assert isinstance(played, CardPlayed) and played.tokens == 2
    assert state.game.text.narrate(played) == (
        "Player 0 plays slot 1, R3: it fits and completes the red firework. 2 hint tokens left."
    )


def test_last_life_ends_the_game() -> None:
    state = deal(Hanabi(**SMALL, lives=1), "R1 R3", "R2 Y2")
    move(state, "play slot 1", "draw Y1")
    assert state.returns() == (1, 1)
    assert state.fireworks == [1, 0]
    move(state, "play slot 2")
    assert state.to_act == ()
    assert state.returns() == (0, 0)
    assert state.reason() == "all lives are lost; score 0 of 6"


def test_each_player_has_one_turn_after_the_last_card() -> None:
    game = Hanabi(players=3, colours=1, ranks=3, hand_size=1, hint_tokens=3)
    state = deal(game, "R1", "R1", "R2")
    move(state, "play slot 1", "draw R1", "hint Player 0 rank 1", "play slot 1", "draw R2")
    move(state, "discard slot 1", "draw R3")
    assert not any(state.deck)
    assert "The deck is empty" in game.text.narrate(state.log.events[-1])
    # Player 0 has drawn the last card, and moves once more itself.
    move(state, "hint Player 0 rank 3", "hint Player 0 red")
    assert state.to_act == (0,)
    move(state, "play slot 1")
    assert state.is_terminal
    assert state.returns() == (3, 3, 3)
    assert state.reason() == "all fireworks are complete; score 3 of 3"


def test_last_round_ends_the_game() -> None:
    state = deal(Hanabi(colours=1, ranks=2, hand_size=2), "R1 R1", "R1 R2")
    assert not any(state.deck)
    move(state, "hint Player 1 red", "hint Player 0 red")
    assert state.is_terminal
    assert state.reason() == "the deck is empty and the last round is over; score 0 of 2"


def test_first_deal_is_checked() -> None:
    state = Hanabi(**SMALL).initial_state()
    for text in (
        "deal R1 R1 | R1 R1",  # Four copies of three.
        "deal R1 R1 | Y1",
        "deal R1  R1 | Y1 Y1",
        "deal R1 R9 | Y1 Y1",
        "draw R1",
    ):
        with pytest.raises((InvalidAction, NotImplementedError)):
            state.parse(text)
    assert str(state.parse("deal R1 R1 | Y1 Y1")) == "deal R1 R1 | Y1 Y1"


def test_a_seed_fixes_the_order_of_the_deck() -> None:
    """Otherwise players who are compared on one seed would get different cards."""
    orders = []
    for play_first in (True, False):
        state, rng, cards = Hanabi(lives=3).initial_state(), random.Random(5), list[str]()
        while not state.is_terminal and len(cards) < 25:
            if state.to_act == (CHANCE,):
                drawn = state.sample_chance(rng)
                cards += [drawn.card] if isinstance(drawn, DrawCard) else []
                state.apply(CHANCE, drawn)
                continue
            legal = state.legal_actions(state.player)
            moves: tuple[Action, ...] = legal.of(DiscardSlot) or legal.of(Hint)
            state.apply(state.player, moves[0 if play_first else -1])
        orders.append(cards)
    assert len(orders[0]) == 25
    assert orders[0] == orders[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"players": 1}, "players"),
        ({"players": 5, "colours": 1}, "need more than the deck's 10"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Hanabi(**options)


# Text and view


def test_view_shows_hints_and_hides_the_own_hand() -> None:
    game = Hanabi(**SMALL)
    state = move(deal(game, "R1 R3", "R2 Y1"), "hint Player 1 red", "hint Player 0 rank 1")
    assert diagram(game, state.observe(0).events) == (
        "Score 0 of 6; hint tokens 1 of 3; lives 3 of 3; cards in the deck 8\n"
        "Fireworks:\nR0  Y0\n"
        "Hands:\nPlayer 0  ?1  ??\nPlayer 1  R2(R?)  Y1"
    )
    move(state, "play slot 1", "draw Y2")
    # A viewer of everything witnesses both events of a draw, which add one card.
    assert "Player 0  R3  Y2\n" in diagram(game, state.log.events)
    assert "Player 0  ??  ??\n" in diagram(game, state.observe(0).events)


# Conformance


@pytest.mark.parametrize("options", [{**SMALL, "players": 3}, {}])
def test_conformance(options: dict[str, Any]) -> None:
    check_game(Hanabi(**options), (1,))


# OpenSpiel


VARIANTS: tuple[dict[str, Any], ...] = (
    {"players": 2},
    {"players": 5},
    {"players": 3, **SMALL, "lives": 1},
    {"players": 4, "colours": 3, "ranks": 4, "hand_size": 3, "hint_tokens": 4, "lives": 2},
)


def open_spiel_number(game: Hanabi, player: int, action: Action) -> int:
    """The number of an action in OpenSpiel; of chance, that of the kind."""
    deck, size, others = game.deck, game.hand_size, game.num_players - 1
    match action:
        case DrawCard(card):
            return deck.index[card]
        case DiscardSlot(slot):
            return slot - 1
        case PlaySlot(slot):
            return size + slot - 1
        case Hint(target, name):
            place, number = (target - player) % game.num_players - 1, deck.hints.index(name)
            if number < deck.colours:
                return 2 * size + place * deck.colours + number
            return 2 * size + others * deck.colours + place * deck.ranks + number - deck.colours
    raise AssertionError(action)


def chance_steps(step: Step) -> Iterator[Step]:
    """OpenSpiel deals the cards of the first hands one by one."""
    if isinstance(step.action, HanabiDeal):
        for hand in step.action.hands:
            yield from (Step(CHANCE, DrawCard(card)) for card in hand)
    else:
        yield step


@pytest.mark.parametrize("options", VARIANTS)
def test_equals_open_spiel(options: dict[str, Any]) -> None:
    """1,000 random games in all: equal legal actions, chances and returns."""
    pyspiel = pytest.importorskip("pyspiel", reason="pip install open_spiel")
    game = Hanabi(**options)
    reference = pyspiel.load_game(
        "hanabi",
        {
            "players": game.num_players,
            "colors": game.deck.colours,
            "ranks": game.deck.ranks,
            "hand_size": game.hand_size,
            "max_information_tokens": game.options.hint_tokens,
            "max_life_tokens": game.options.lives,
        },
    )
    for seed in range(1000 // len(VARIANTS)):
        final, history = random_history(game, random.Random(seed), 10_000)
        state, theirs = game.initial_state(), reference.new_initial_state()
        for step in history:
            for part in chance_steps(step):
                if part.player != CHANCE:
                    legal = state.legal_actions(part.player)
                    numbers = {open_spiel_number(game, part.player, a) for a in legal}
                    assert numbers == set(theirs.legal_actions())
                elif state.turn:
                    ours = {
                        open_spiel_number(game, CHANCE, o.action): o.probability
                        for o in state.chance_outcomes()
                    }
                    chances = dict(theirs.chance_outcomes())
                    assert ours.keys() == chances.keys()
                    assert np.allclose(list(ours.values()), [chances[n] for n in ours])
                theirs.apply_action(open_spiel_number(game, part.player, part.action))
            state.apply(step.player, step.action)
        assert final.is_terminal and theirs.is_terminal()
        assert list(final.returns()) == theirs.returns()
