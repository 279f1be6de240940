"""Rewards: each term in a game in which its value is known, and the number that is made of them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from known_deal import ENVELOPE, HANDS
from model_games import play_models
from random_games import plies

from arena.core.action import Action, Step
from arena.core.errors import ArenaError, UsageError
from arena.core.event import Decision
from arena.core.game import Game
from arena.episodes.match import Match, outcome_of, play
from arena.episodes.measurement import assessments, measure_term
from arena.episodes.record import Episode, Header
from arena.plugins.catalog import catalog, make_game
from backends.scripted import ScriptedBackend
from games.cluedo.game import Cluedo
from games.cluedo.rules.setting import Accuse, DealCards, EndTurn, Show, Suggest
from trainers.rewards import Rewards, RewardTerm, SeatEpisode, default_reward

CLUEDO = Cluedo(players=3)
END = EndTurn()
WRONG = Accuse("Mrs White", "Rope", "Study")
ASK = Suggest("Reverend Green", "Revolver", "Library")
"""Seat 1 has all three of them."""


def episode_of(decisions: Iterable[Decision | Action], game: Game = CLUEDO) -> Episode:
    """A game of these moves; what has no details is not a model's."""
    made = tuple(plies(game, decisions))
    state = game.initial_state().apply_all(Step(ply.player, ply.decision.action) for ply in made)
    header = Header.of(game, 5, ["somebody"] * game.num_players, None)
    return Episode(header, made, outcome_of(state, 9), state.turn)


def value(term: str, *moves: Decision | Action, seat: int = 0) -> float:
    """Return a term of a game that starts with the known deal."""
    episode = episode_of((DealCards(ENVELOPE, HANDS), *moves))
    scored = Rewards.parse(f"{term}=1", CLUEDO).score(SeatEpisode(CLUEDO, episode, seat))
    assert scored.reward == scored.terms[term]
    return scored.reward


@cache
def contest(seed: int, bots: str = "detective,novice,random") -> Episode:
    specs = [f"bot:{bot}" for bot in bots.split(",")]
    return asyncio.run(play(Match(CLUEDO, specs, seed, max_turns=40)))


# The terms


def test_win() -> None:
    assert [value("win", Accuse(*ENVELOPE), seat=seat) for seat in range(3)] == [1, 0, 0]
    assert value("win", END) == 0, "a game that was cut off is nobody's"
    kuhn = make_game("kuhn_poker")
    state = kuhn.initial_state()
    moves = [state.parse("deal King, Jack"), kuhn.actions.parse("bet"), kuhn.actions.parse("bet")]
    rewards, episode = Rewards.parse("win=1", kuhn), episode_of(moves, kuhn)
    assert [rewards.score(SeatEpisode(kuhn, episode, seat)).reward for seat in (0, 1)] == [2, -2]


def test_information() -> None:
    asked = (Suggest(*ENVELOPE), Accuse(*ENVELOPE))
    assert value("entropy_removed", *asked) == 1.0, "nobody could refute"
    assert 0 < value("entropy_removed", *asked, seat=1) < 0.5, "that it is solved is no deduction"
    assert value("entropy_removed", WRONG) == 0.0, "and neither is what the envelope holds"
    expected = 1 - math.log2(111) / math.log2(112)
    assert value("entropy_removed", WRONG, seat=1) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("attempts", "fallbacks", "expected"),
    [
        ([[{}], [{}]], 0, 1.0),
        ([[{"failure": "illegal"}, {}], [{}]], 0, 0.5),
        ([[{"failure": "provider_error"}, {}]], 0, 1.0),
        ([[{"failure": "empty"}, {"failure": "empty"}], [{}], [{}], [{}]], 1, 0.5),
        ([[{"failure": "illegal"}]], 1, -1.0),
        ([[]], 1, -1.0),
        ([], 0, 1.0),
    ],
)
def test_format(attempts: Sequence[list[Any]], fallbacks: int, expected: float) -> None:
    """One decision of seat 0 per round; the first ones were fallbacks."""
    moves: list[Decision | Action] = []
    for number, each in enumerate(attempts):
        failure = "none was legal" if number < fallbacks else None
        moves += [
            Decision(END, failure, {"attempts": [{"messages": []} | one for one in each]}),
            END,
            END,
        ]
    assert value("format", *moves) == expected


def test_format_of_a_model_at_the_table() -> None:
    game = make_game("kuhn_poker")

    def game_of(*replies: str) -> SeatEpisode:
        match = Match(game, ["scripted", "bot:random"], 1)
        return SeatEpisode(game, play_models(match, ScriptedBackend(cycle(replies))).episode, 0)

    rewards = Rewards.parse("format=1", game)
    assert rewards.score(game_of("bet")).reward == 1
    assert rewards.score(game_of("well", "bet")).reward == 0
    assert rewards.score(game_of("well")).reward == -1


def test_any_measure() -> None:
    asked = (Suggest(*ENVELOPE), END)
    assert 0 < value("measure:efficiency", *asked) <= 1
    assert value("measure:accusations_right", *asked, END, END, Accuse(*ENVELOPE)) == 1
    assert value("measure:excess_leak", *asked) == 0, "it never came up"
    assert value("measure:excess_leak", ASK, Show("Revolver"), seat=1) > 0.1
    assert value("measure:premature", WRONG) == 1 and value("measure:missed", *asked) == 1


def test_a_measure_reads_only_the_kinds_that_it_names() -> None:
    for seed in range(3):
        seat_episode = SeatEpisode(CLUEDO, contest(seed), seed)
        assessor = CLUEDO.analysis.assessor((seed,))
        assert assessor is not None
        found = list(assessments(assessor, seat_episode.episode))
        for measure in CLUEDO.analysis.measures:
            name = f"measure:{measure.name}"
            term = Rewards.parse(f"{name}=1", CLUEDO).score(seat_episode).terms[name]
            everything = measure_term(replace(measure, kinds=None))
            assert term == everything.value(seat_episode, found), name
    assert Rewards.parse("win=1,measure:premature=-1", CLUEDO).kinds == frozenset(
        ("accusation", "knowledge")
    )


# The sum


def test_the_reward_is_the_weighted_sum_and_other_terms_are_logged() -> None:
    scored = Rewards.parse("", CLUEDO).score(SeatEpisode(CLUEDO, contest(0), 0))
    terms = scored.terms
    expected = terms["win"] + 0.5 * terms["entropy_removed"] + terms["format"]
    assert scored.reward == pytest.approx(expected)
    assert set(terms) == {"win", "entropy_removed", "format"}
    dear = Rewards.parse("win=1,measure:efficiency=0", CLUEDO)
    again = dear.score(SeatEpisode(CLUEDO, contest(0), 0))
    assert again.reward == terms["win"] and 0 < again.terms["measure:efficiency"] <= 1
    assert again.terms == {**terms, "measure:efficiency": again.terms["measure:efficiency"]}


@pytest.mark.parametrize(
    ("game", "text"), [("kuhn_poker", "win=1,format=1"), ("goofspiel", "win=1,format=1")]
)
def test_a_game_without_exact_knowledge(game: str, text: str) -> None:
    assert default_reward(make_game(game)) == text
    assert set(Rewards.parse("", make_game(game)).describe()[0].name.split()) == {"win"}
    with pytest.raises(UsageError, match=f"{game} does not offer; its terms are: win, format"):
        Rewards.parse("win=1,entropy_removed=0.5", make_game(game))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("entropy_removd=1", "no reward term 'entropy_removd'; did you mean 'entropy_removed'?"),
        ("win", "'win' is not of the form NAME=WEIGHT"),
        ("win=1,", "'' is not of the form"),
        ("win=much", "the weight of win, 'much', is not a number"),
        ("win=inf", "is not a number"),
        ("win=1, win=2", "win appears twice"),
        ("custom=1", "--reward-fn"),
        ("measure:misse=1", "cluedo has no measure 'misse'; did you mean 'missed'?"),
    ],
)
def test_what_is_no_reward(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Rewards.parse(text, CLUEDO)
    assert message in str(caught.value)


# Terms of one's own

OWN = """
def turns(rollout):
    return rollout.episode.turns
def broken(rollout):
    raise KeyError("nothing there")
def endless(rollout):
    return float("inf")
def of_numpy(rollout):
    import numpy
    return numpy.float32(1.0)
NUMBER = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the working directory."""
    (tmp_path / "rewards_of_my_own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return "rewards_of_my_own"


def test_a_function_of_ones_own(own: str) -> None:
    rollout = SeatEpisode(CLUEDO, contest(0), 0)
    rewards = Rewards.parse("custom=0.1,win=0", CLUEDO, f"{own}:turns")
    assert rewards.score(rollout).reward == pytest.approx(rollout.episode.turns / 10)
    assert Rewards.parse("custom=0.5", CLUEDO, f"{own}:of_numpy").score(rollout).reward == 0.5
    for name, message in (("broken", "failed (seat 0, seed 0): KeyError"), ("endless", "is inf")):
        with pytest.raises(ArenaError) as caught:
            Rewards.parse("custom=1", CLUEDO, f"{own}:{name}").score(rollout)
        assert f"the reward term 'custom' {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such", "give module:function"),
        ("no_such_module:turns", "No module named 'no_such_module'"),
        ("rewards_of_my_own:turn", "no attribute 'turn'"),
        ("rewards_of_my_own:NUMBER", "it is not a function, but int"),
    ],
)
def test_no_function(own: str, target: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Rewards.parse("custom=1", CLUEDO, target)
    assert message in str(caught.value) and "--reward-fn" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [("raise OSError('no licence')", "OSError: no licence"), ("def f(:", "SyntaxError")],
)
def test_a_module_that_cannot_be_imported_is_named(own: str, text: str, told: str) -> None:
    Path("broken_at_import.py").write_text(text)
    with pytest.raises(UsageError, match="--reward-fn broken_at_import:f: ") as caught:
        Rewards.parse("custom=1", CLUEDO, "broken_at_import:f")
    assert told in str(caught.value) and "\n" not in str(caught.value)


SHORT = RewardTerm(
    "short", "Minus the turns.", lambda rollout, said: -len(said), frozenset({"turn"})
)


def test_a_term_of_a_plugin_is_in_the_record_of_a_step() -> None:
    from trainers.config.config import TrainConfig
    from trainers.loop.training import step_record
    from trainers.rollouts.trajectories import RolloutCounts

    before = catalog().entries_by_kind()
    catalog().add("reward", "short", "test_rewards:SHORT")
    try:
        rewards, counts = Rewards.parse("win=1,short=0.5", CLUEDO), RolloutCounts()
    finally:
        catalog().restore(before)
    episode = contest(0)
    breakdown = rewards.score(SeatEpisode(CLUEDO, episode, 1))
    counts.add_game(episode, 1, 0, breakdown)
    term = step_record(TrainConfig(), 1, counts, rewards.weights, {}).terms["short"]
    assert (term.mean, term.weight) == (breakdown.terms["short"], 0.5)
    assert term.mean < 0
