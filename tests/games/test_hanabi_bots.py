"""Hanabi: the conventions, and what bots depend on."""

from __future__ import annotations

import random
from typing import Any

from hanabi_positions import deal, move, random_history

from arena import Seat, make_agent
from arena.agents.agent import act_now
from arena.core.seeds import stream
from games.hanabi.conventions import ConventionTable
from games.hanabi.game import Hanabi, HanabiState

# Conventions and bots


def convention_table(state: HanabiState, viewer: int) -> ConventionTable:
    table = ConventionTable(state.game, viewer)
    for event in state.log.witnessed[viewer]:
        table.update(event)
    return table


def kinds(table: ConventionTable, player: int, place: int) -> set[str]:
    candidates = table.candidates(player, place)
    return {kind for kind, n in table.game.deck.index.items() if candidates >> n & 1}


def test_hint_on_a_new_card_means_play_it() -> None:
    state = deal(Hanabi(), "R1 R1 R1 Y2 Y2", "R2 G3 R4 W5 B1")
    move(state, "hint Player 1 blue")
    for viewer in (0, 1):
        table = convention_table(state, viewer)
        assert kinds(table, 1, 4) == {"B1"}
        assert table.chop(1) == 0


def test_hint_on_the_chop_may_save_it() -> None:
    state = deal(Hanabi(), "R1 R1 R1 Y2 Y2", "W5 G3 R4 W2 B1")
    move(state, "hint Player 1 white")
    table = convention_table(state, 1)
    # W1 can be played, W5 is the only copy.
    assert kinds(table, 1, 0) == {"W1", "W5"}
    assert table.chop(1) == 1


def test_hints_mean_the_same_to_all_players() -> None:
    game = Hanabi(players=3)
    state, _ = random_history(game, random.Random(4), 60)
    tables = [convention_table(state, viewer) for viewer in range(3)]
    for player in range(3):
        for place in range(len(state.hands[player])):
            assert len({table.candidates(player, place) for table in tables}) == 1


def test_bot_depends_on_its_observation_only() -> None:
    """The same observation from another world gives the same move."""
    game, rng = Hanabi(), random.Random(0)
    state, history = random_history(game, random.Random(7), 31)
    player = state.player
    for bot in ("piers", "conventions"):
        chosen = set()
        for _ in range(4):
            world = game.analysis.resample(history, player, rng)
            assert world is not None
            other = game.initial_state().apply_all(world)
            agent = make_bot_of(game, bot, player)
            chosen.add(act_now(agent, other.observe(player)).action)
        assert len(chosen) == 1


def make_bot_of(game: Hanabi, bot: str, player: int) -> Any:
    return make_agent(f"bot:{bot}", Seat(game, player, stream(0, "bot")))
