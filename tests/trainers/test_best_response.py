"""The best response learns, and is an ordinary agent on its observation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from exact_policies import information_sets

from arena.agents.agent import Seat, uniform
from arena.agents.seating import make_agent
from arena.core.action import CHANCE
from arena.core.errors import UsageError
from arena.episodes.job import GameJob, play_job
from arena.episodes.match import Match
from arena.evaluation.deviation import Deviation, exact_gain, gain_interval, gains
from arena.evaluation.exact.exploitability import exploitability
from arena.plugins.loader import make_game
from games.kuhn_poker.game import BET, CARDS, PASS, DealHands
from trainers.best_response import (
    MIX,
    ChosenGame,
    ResponsePolicy,
    ResponseTraining,
    log_prior,
    response_policy,
)

KUHN = make_game("kuhn_poker")


async def play(jobs: Iterable[GameJob[ChosenGame]]) -> AsyncIterator[ChosenGame]:
    for job in jobs:
        yield (await play_job(job, None)).value


def trained(folder: Path, game: str = "kuhn_poker", games: int = 1200, base: str = "") -> str:
    """Train against bot:random; return the SPEC of the response."""

    async def run() -> None:
        match = Match(make_game(game))
        training = ResponseTraining(match, "bot:random", games, 3, base, folder / "x.npz")
        async for _ in training.run(play):
            pass

    asyncio.run(run())
    return f"response:{folder / 'x.npz'}"


def test_a_small_budget_finds_most_of_the_exact_value(tmp_path: Path) -> None:
    found = exact_gain(KUHN, uniform, response_policy(trained(tmp_path), KUHN), None)
    assert found.exploitability == pytest.approx(11 / 24)
    assert found.share is not None and 0.8 <= found.share <= 1 + 1e-9


def test_a_response_begins_as_its_bot(tmp_path: Path) -> None:
    game = make_game("leduc_poker")
    file = tmp_path / "x.npz"
    ResponsePolicy.new(game, "bot:odds", 0).save(file)
    response = response_policy(f"response:{file}", game)
    for situation in information_sets(game).values():
        seen = situation.observation
        bot = make_agent("bot:odds", Seat(game, seen.player, Random(0)))
        assert response(seen) == bot.probabilities(seen)  # type: ignore[attr-defined]


def test_the_prior_mixes_the_bot_with_all_legal_actions() -> None:
    mask = np.array([1, 0, 1, 1, 1], np.int8)
    prior = np.exp(log_prior({2: 1.0}, mask))
    assert prior == pytest.approx([MIX / 4, 0, 1 - MIX + MIX / 4, MIX / 4, MIX / 4])
    assert np.exp(log_prior({}, mask)) == pytest.approx([0.25, 0, 0.25, 0.25, 0.25])


def test_hidden_cards_do_not_change_the_response(tmp_path: Path) -> None:
    """In all worlds that agree with the observation the response is the same."""
    spec = trained(tmp_path, games=100)
    for own in CARDS:
        choices = []
        for other in set(CARDS) - {own}:
            state = KUHN.initial_state()
            for player, action in ((CHANCE, DealHands((own, other))), (0, PASS), (1, BET)):
                state.apply(player, action)
            agent = make_agent(spec, Seat(KUHN, 0, Random(1)))
            choices.append(asyncio.run(agent.act(state.observe(0))).action)
        assert choices[0] == choices[1]


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    files = [trained(tmp_path / name, games=64).removeprefix("response:") for name in "ab"]
    one, other = (np.load(file) for file in files)
    assert all((one[name] == other[name]).all() for name in one.files)


def test_a_response_to_another_game_is_refused(tmp_path: Path) -> None:
    spec = trained(tmp_path, games=16)
    with pytest.raises(UsageError, match="trained on another game"):
        make_agent(spec, Seat(make_game("leduc_poker"), 0, Random(0)))
    with pytest.raises(UsageError, match="no response of arena exploit is there"):
        make_agent(f"response:{tmp_path}/none", Seat(KUHN, 0, Random(0)))


def test_the_gain_is_paired_by_deal() -> None:
    """A player that replaces itself gains exactly nothing on every deal."""
    table = Deviation(Match(KUHN), "bot:random")

    async def games(response: str | None) -> list[object]:
        jobs = table.jobs(response, range(20))
        return [(await play_job(job, None)).value for job in jobs]

    copies, same = asyncio.run(games(None)), asyncio.run(games("bot:random"))
    assert len(copies) == 20 and len(same) == 40
    assert gains(same, copies) == [0.0] * 20  # type: ignore[arg-type]
    interval = gain_interval([0.0] * 20, KUHN)
    assert interval.value == 0 and interval.low is not None and interval.low < 0


def test_the_exact_gain_of_a_best_response_is_the_exploitability(tmp_path: Path) -> None:
    found = exact_gain(KUHN, uniform, uniform, 0.1)
    assert found.response == pytest.approx(0)
    assert found.exploitability == exploitability(KUHN, uniform)
    assert found.bound_share == pytest.approx(0.1 * 24 / 11)


def test_no_share_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # An equilibrium's exploitability is 0 but for rounding.
    monkeypatch.setattr("arena.evaluation.deviation.exploitability", lambda *_: 2.8e-17)
    found = exact_gain(KUHN, uniform, uniform, 0.1)
    assert found.exploitability == 2.8e-17 and found.bound_share is None
