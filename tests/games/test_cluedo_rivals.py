"""The oracle's estimate of its rivals, and the value of waiting."""

from __future__ import annotations

import random

import numpy as np
import pytest

from arena import Step
from arena.agents.agent import Seat, act_now
from arena.core.action import CHANCE
from arena.core.seeds import stream
from games.cluedo.analysis.facet import CluedoAnalysis
from games.cluedo.bots.logic import CluedoBot, Detective, Novice, Random
from games.cluedo.game import Cluedo
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.inference.rivals import RivalView, solving_chances, waiting_value
from games.cluedo.rules.state import CluedoState

RIVALS = (1, 2)


def position(
    bot: type[CluedoBot] | type[Random], seed: int, turns: int
) -> tuple[CluedoState, list[Step]]:
    """A position of a game in which all seats are this kind of bot."""
    game = Cluedo(players=3)
    state, rng, steps = game.initial_state(), stream(seed, "rivals"), list[Step]()
    bots = [bot(Seat(game, player, rng)) for player in range(3)]
    while not state.is_terminal and state.turn <= turns:
        player = state.to_act[0]
        chance = player == CHANCE
        action = (
            state.sample_chance(rng)
            if chance
            else act_now(bots[player], state.observe(player)).action
        )
        steps.append(Step(player, action))
        state.apply(player, action)
    return state, steps


@pytest.mark.parametrize(("kind", "bot"), list(enumerate((Detective, Novice, Random))))
def test_kinds_of_players_are_told_apart(kind: int, bot: type[CluedoBot] | type[Random]) -> None:
    weights = np.zeros(3)
    for seed in range(6):
        state, _ = position(bot, seed, 12)
        events = state.log.witnessed[0]
        knowledge = CluedoKnowledge.after(state.game, 0, events)
        rng = random.Random(0)
        for rival in RIVALS:
            deals = [knowledge.sample(rng) for _ in range(3)]
            views = [RivalView(knowledge, rival, deal, events, rng) for deal in deals]
            each = np.exp([view.log_weights for view in views]).sum(axis=0)
            weights += each / each.sum()
    assert weights.argmax() == kind, weights


def test_rivals_that_know_more_are_more_dangerous() -> None:
    dangers = []
    for bot in (Detective, Novice, Random):
        chances = list[float]()
        for seed in range(5):
            state, _ = position(bot, seed, 12)
            events = state.log.witnessed[0]
            knowledge = CluedoKnowledge.after(state.game, 0, events)
            chances += solving_chances(knowledge, events, RIVALS)
        assert all(0 <= chance <= 1 for chance in chances)
        dangers.append(sum(chances) / len(chances))
    assert dangers[0] > 2 * dangers[1] > 2 * dangers[2]


def test_the_estimate_depends_on_what_was_witnessed_only() -> None:
    """Worlds that seat 0 cannot tell apart give the same estimate."""
    state, steps = position(Detective, 3, 9)
    events = state.log.witnessed[0]
    own = solving_chances(CluedoKnowledge.after(state.game, 0, events), events, RIVALS)
    other = CluedoState(state.game)
    for step in CluedoAnalysis(state.game).resample(steps, 0, random.Random(5)):
        other.apply(step.player, step.action)
    assert other.hands != state.hands
    events = other.log.witnessed[0]
    assert solving_chances(CluedoKnowledge.after(state.game, 0, events), events, RIVALS) == own


def test_waiting_is_a_race() -> None:
    entropy, chances = 2.0, [0.2, 0.1]
    own, undecided, value, reached = 0.5, 0.8 * 0.9, 0.0, 1.0
    for _ in range(200):
        reached *= undecided
        value += reached * own
        reached *= 1 - own
    assert waiting_value(entropy, chances) == pytest.approx(value)
    assert waiting_value(3.0, [0.0, 0.0]) == pytest.approx(1), "no danger, no hurry"
    assert waiting_value(0.0, [0.25]) == pytest.approx(0.75)
    assert waiting_value(1.0, [1.0]) == 0.0
