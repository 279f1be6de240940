"""Measures of Cluedo compare players: equal play gives equal values, however long games are."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from pydantic import JsonValue

from arena.agents.agent import Agent, Seat
from arena.core.analysis import Assessment, WeightedSum, sum_measurements
from arena.core.spec import stream
from arena.episodes.match import Match, play
from arena.episodes.record import Episode
from games.cluedo.analysis.assessor import CluedoAssessor
from games.cluedo.analysis.measures import STAGES
from games.cluedo.bots import CluedoBot, Detective, Novice
from games.cluedo.game import Cluedo
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.board import Triple

DECK = {"suspects": 4, "weapons": 4, "rooms": 5}
"""Smaller than the usual one, so that hundreds of games are played and judged in seconds."""
PLAYERS = 3
EFFICIENCY = [stage.measure for stage in STAGES]


class Patient(Detective):
    """A detective that never accuses: the others go on playing where it would have won."""

    def accusation(self, may_suggest: bool) -> Triple | None:
        return None


def table(bot: type[CluedoBot], others: type[CluedoBot], seed: int) -> Episode:
    """Return a game of one bot among others; seats draw from the same streams at each table."""
    game, tested = Cluedo(players=PLAYERS, **DECK), seed % PLAYERS
    agents: list[Agent] = []
    for number in range(PLAYERS):
        seat = Seat(game, number, stream(seed, f"bot {number}"))
        agents.append((bot if number == tested else others)(seat))
    return asyncio.run(play(Match(game, (), seed, max_turns=60), agents))


Sums = Sequence[dict[str, WeightedSum]]
"""The sums of the tested seat, by deal."""


@cache
def judged(
    bot: type[CluedoBot], others: type[CluedoBot], deals: int, kinds: tuple[str, ...]
) -> list[list[tuple[int, Assessment]]]:
    """Return the assessments of the tested seat in each deal, with the turn of the game."""
    found = []
    for seed in range(deals):
        game, episode = Cluedo(players=PLAYERS, **DECK), table(bot, others, seed)
        assessor, state, turns = (
            CluedoAssessor(game, (seed % PLAYERS,), kinds),
            game.initial_state(),
            [],
        )
        assessments = list[Assessment]()
        for ply in episode.plies:
            turns.append(state.turn)
            assessments += assessor.ply(ply)
            state.apply(ply.player, ply.decision.action)
        found.append([(turns[each.ply], each) for each in assessments])
    return found


def measured(
    bot: type[CluedoBot],
    others: type[CluedoBot],
    deals: int,
    kinds: tuple[str, ...],
    turns: float = math.inf,
) -> Sums:
    """Return the sums of the tested seat in each deal, of games cut off after so many turns."""
    return [
        sum_measurements(each.measurements for turn, each in game if turn <= turns)
        for game in judged(bot, others, deals, kinds)
    ]


def ratio(sums: Sums, name: str) -> tuple[float, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Return the ratio of sums, and the influence of each deal on it."""
    none = WeightedSum(0.0, 0.0)
    totals = np.array([each.get(name, none).total for each in sums])
    weights = np.array([each.get(name, none).weight for each in sums])
    value = totals.sum() / weights.sum()
    return float(value), (totals - value * weights) / weights.mean()


def distance(one: Sums, other: Sums, name: str) -> float:
    """Return the difference of two ratios on the same deals, in standard errors."""
    (first, influence), (second, of_second) = ratio(one, name), ratio(other, name)
    error = float((influence - of_second).std(ddof=1)) / math.sqrt(len(one))
    return abs(first - second) / error if first != second else 0.0


def test_games_that_are_cut_off_give_the_same_measures() -> None:
    """Play is equal, move by move; only the length of the games differs."""
    kinds = (
        *("turn", "suggestion", "skipped question"),
        *("refutation", "accusation", "missed accusation"),
    )
    early, later, full = (measured(Novice, Patient, 80, kinds, end) for end in (6, 12, math.inf))
    assert distance(early, full, "efficiency") > 3, "it is not comparable"
    assert distance(later, full, "missed") > 3, "late turns of a game are missed less"
    for name in ("leak_ratio", *EFFICIENCY, "missed_seen", "missed_deduced"):
        for cut in (early, later):
            assert distance(cut, full, name) < 3, name
    # A novice uses what it has seen, and nothing else.
    assert ratio(full, "missed_seen")[0] == 0
    assert ratio(full, "missed_deduced")[0] == 1


def test_twins_that_show_cards_by_the_same_rule_are_equal() -> None:
    """Games of a detective are shorter, but both bots draw the card that they show."""
    novice, detective = (measured(bot, Novice, 80, ("refutation",)) for bot in (Novice, Detective))
    assert distance(novice, detective, "leak_ratio") < 3
    for twin in (novice, detective):
        value, influence = ratio(twin, "leak_ratio")
        error = influence.std(ddof=1) / math.sqrt(len(twin))
        assert abs(value - 1) < 3 * error < 0.7


@pytest.mark.parametrize("options", [{}, {"leftover_cards": "open", "players": 4}])
def test_facts_give_the_entropy_of_the_deal_and_the_cards_that_no_seat_has(
    options: dict[str, JsonValue],
) -> None:
    """What is computed without deduction agrees with exact knowledge where both know it."""
    game = Cluedo(**{"players": PLAYERS, **DECK, **options})
    agents = [Novice(Seat(game, n, random.Random(n))) for n in range(game.num_players)]
    episode = asyncio.run(play(Match(game, (), 4), agents))
    knowledge = CluedoKnowledge(game, 0)
    for ply in episode.plies:
        for event in (event for event in ply.events if event.seen_by(0)):
            knowledge.update(event)
        facts = knowledge.facts
        if ply.number == 0:
            assert facts.entropy_dealt == pytest.approx(knowledge.entropy())
        candidates = {card for cards in game.deck.categories for card in facts.candidates(cards)}
        assert candidates >= knowledge.envelope_cards()
        assert not facts.name_envelope or knowledge.entropy() == 0
    assert knowledge.facts.shown
