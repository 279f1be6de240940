"""Values of decisions by rollouts, where the right answer is known."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from arena.core.action import Say
from arena.core.analysis import sum_measurements
from arena.core.event import Decision, Ply
from arena.core.game import Game
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, play
from arena.episodes.record import Episode
from arena.episodes.replay import read_replay
from arena.evaluation.records import Slot
from arena.evaluation.rollouts import VALUE, RolloutAssessor, rollout_values
from arena.evaluation.scoring import measure_game, measures_of
from arena.plugins.loader import make_game
from replays.analysis.replay_analysis import ReplayAnalysis


def played(game: Game, specs: Sequence[str], seed: int, folder: Path | None = None) -> Episode:
    watchers = [ReplayWriter(folder, "game")] if folder else []
    return asyncio.run(play(Match(game, specs, seed=seed), watchers=watchers))


def test_a_missed_win_costs_the_whole_game_and_the_bots_own_choice_nothing() -> None:
    game = make_game("tictactoe")
    state, assessor = game.initial_state(), RolloutAssessor(game, 4, seed=1)
    # X takes the squares 0 and 1; the perfect bot would take 2 and win.
    texts = [str(action) for action in state.legal_actions(0)]
    for number, square in enumerate((0, 3, 1, 4)):
        action = state.parse(texts[square])
        assessor.ply(Ply(number, number % 2, Decision(action), ()))
        state.apply(number % 2, action)
    twin = RolloutAssessor(game, 4, seed=1)
    twin._state = state.clone()
    (win,) = twin.ply(Ply(4, 0, Decision(state.parse(texts[2])), ()))
    assert (win.facts["value"], win.facts["differs"]) == (0, 0)
    (miss,) = assessor.ply(Ply(4, 0, Decision(state.parse(texts[8])), ()))
    assert (miss.facts["value"], miss.facts["differs"]) == (-1, 4)


def test_a_wolf_that_confesses_loses_winning_probability() -> None:
    game = make_game("werewolf", players=7)
    values = []
    for seed in range(2):
        episode = played(game, ["bot:truthful"] * 7, seed)
        assert episode.outcome.teams
        spoken = (ply for ply in episode.plies if isinstance(ply.decision.action, Say))
        ply = next(ply for ply in spoken if episode.outcome.teams[ply.player])
        assessor = RolloutAssessor(game, 12, seed, players=(ply.player,))
        for before in episode.plies[: ply.number]:
            assessor._state.apply(before.player, before.decision.action)
        confession = replace(ply, decision=Decision(Say("I am a werewolf.")))
        (found,) = assessor.ply(confession)
        assert f"{VALUE} of say" in found.measurements
        values.append(float(str(found.facts["value"])))
    # Where the village wins anyway, it costs nothing.
    assert max(values) <= 0 and min(values) < -0.2


def test_values_are_repeatable_and_their_parts_add_up() -> None:
    game = make_game("werewolf", players=5)
    episode = played(game, ["bot:random"] * 5, 1)
    values, again = (
        [each.measurements for each in rollout_values(game, episode, 2, None)] for _ in range(2)
    )
    assert values == again
    totals = sum_measurements(values)
    roles = [
        totals[f"{VALUE} as {role}"]
        for role in {*(episode.outcome.roles or ())}
        if f"{VALUE} as {role}" in totals
    ]
    kinds = [part for name, part in totals.items() if " of " in name]
    assert sum(part.weight for part in kinds) == totals[VALUE].weight
    assert sum(part.weight for part in roles) == totals[VALUE].weight
    assert {measure.name for measure in measures_of(game, totals)} == {*totals}


def test_evaluation_values_the_decisions_of_the_tested_seat_only() -> None:
    game = make_game("avalon", players=5)
    episode = played(game, ["bot:naive"] * 5, 2)
    slot = Slot(0, 2, tuple(episode.header.players), "player", 3)
    result = measure_game(slot, game, episode, False, 0.0, rollouts=1)
    valued = [VALUE in seat.measurements for seat in result.seats]
    assert valued == [False, False, False, True, False]


def test_values_are_shown_where_all_cards_are_open_only(tmp_path: Path) -> None:
    game = make_game("werewolf", players=5)
    episode = played(game, ["bot:random"] * 5, 1, tmp_path)
    analysis = ReplayAnalysis(read_replay(tmp_path / "game.jsonl"), rollouts=1)
    shown = [comment for comment in analysis.comments() if comment["kind"] == VALUE]
    decided = {ply.number for ply in episode.plies if ply.player >= 0}
    assert shown and {comment["ply"] for comment in shown} <= decided
    assert any("winning probability" in comment["text"] for comment in shown)
    for seat in range(5):
        assert all(comment["kind"] != VALUE for comment in analysis.comments(seat))
        titles = [each["title"] for each in analysis.summaries(seat)[0]["measures"]]
        assert not any("value" in title for title in titles)


@pytest.mark.parametrize("name", ["liars_dice", "kuhn_poker"])
def test_games_without_roles_have_values(name: str) -> None:
    game = make_game(name)
    episode = played(game, ["bot:random"] * game.num_players, 1)
    totals = sum_measurements(each.measurements for each in rollout_values(game, episode, 2, None))
    assert totals[VALUE].weight > 0 and not any(" as " in name for name in totals)
