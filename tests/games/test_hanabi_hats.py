"""Hanabi: the code of hat guessing, and the strength of the bot that uses it."""

from __future__ import annotations

import asyncio
import random

import pytest
from hanabi_positions import random_history

from arena import Match, make_game, play
from games.hanabi.conventions import is_single
from games.hanabi.game import Hanabi, HanabiState
from games.hanabi.hats import HatTable, PublicValue, question
from games.hanabi.moves import HintGiven


def hat_table(state: HanabiState, viewer: int) -> HatTable:
    table = HatTable(state.game, viewer)
    for event in state.log.witnessed[viewer]:
        table.update(event)
    return table


async def hats_play(players: int, seed: int, **options: bool) -> HanabiState:
    """Return the end of a game of the bot with itself."""
    game = make_game("hanabi", players=players, **options)
    episode = await play(Match(game, ("bot:hats",) * players, seed=seed))
    state = game.initial_state()
    for ply in episode.plies:
        state.apply(ply.player, ply.decision.action)
    assert isinstance(state, HanabiState)
    return state


@pytest.mark.parametrize("players", [3, 4, 5])
def test_all_players_know_the_same_of_each_hand(players: int) -> None:
    state = asyncio.run(hats_play(players, seed=3))
    tables = [hat_table(state, viewer) for viewer in range(players)]
    assert all(table.known == tables[0].known for table in tables)
    assert any(isinstance(event, HintGiven) for event in state.log.events)


@pytest.mark.parametrize("options", [{}, {"rainbow": True}, {"empty_hints": True}])
def test_what_hats_tell_is_true(options: dict[str, bool]) -> None:
    for seed in range(4):
        state = asyncio.run(hats_play(4, seed, **options))
        known = hat_table(state, 0).known
        for hand, kinds in zip(state.hands, known, strict=True):
            for card, possible in zip(hand, kinds, strict=True):
                assert possible >> state.game.deck.index[card] & 1


def test_players_who_do_not_keep_to_the_code_break_nothing() -> None:
    for seed in range(10):
        state, _ = random_history(Hanabi(players=3), random.Random(seed), 50)
        tables = [hat_table(state, viewer) for viewer in range(3)]
        assert all(kinds for hand in tables[0].known for kinds in hand)


def test_a_question_divides_a_hand_into_cases_without_overlap() -> None:
    deck = Hanabi().deck
    fitting = sum(1 << deck.index[card] for card in ("R1", "Y1", "G1", "W1", "B1"))
    everything = (1 << len(deck.kinds)) - 1
    value = PublicValue(deck.copies, fitting, useless=0, last_copies=0)
    answers = question((everything,) * 2, value, 8)
    assert len(answers) == 8
    # Each pair of cards belongs to exactly one answer.
    covered = sum(first.bit_count() * second.bit_count() for first, second in answers)
    assert covered == len(deck.kinds) ** 2
    # The first question asks for a card to play.
    assert answers[0][0] & ~fitting == 0 or answers[0][1] & ~fitting == 0
    assert question((1, 2), value, 8) == ((1, 2),) and is_single(1)


@pytest.mark.parametrize(("players", "least"), [(3, 24.2), (4, 24.5), (5, 24.4)])
def test_hats_reach_nearly_all_points(players: int, least: float) -> None:
    scores = [asyncio.run(hats_play(players, seed)).returns()[0] for seed in range(15)]
    # Means of 200 games: 24.75 to 24.80. The standard error of 15 games is about 0.15.
    assert sum(scores) / len(scores) >= least
