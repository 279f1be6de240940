"""Judged rewards of turns: every interface gives what `arena train --credit judged` uses."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from chat_players import accuses_in_the_end
from random_games import plies, random_steps
from scripted_table import WithTokens, quick

from arena.agents.chat import ChatOptions
from arena.core.action import Step
from arena.core.game import Game
from arena.envs.hosting import HostedGame
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.episodes.replay import read_replay
from arena.evaluation.analysis import episode_of
from arena.llm.backend import Request, Sampling
from arena.llm.service import LLMService
from arena.plugins.catalog import make_game
from trainers.credit import GAME, Credit
from trainers.export.exporter import export_format, export_replays
from trainers.rewards import Rewards, decision_values
from trainers.rollouts.rollouts import NEWEST, GroupSetup, Rollouts, RolloutSetting, training_chat
from trainers.rollouts.trajectories import attempts_of
from trainers.trajectory import Trajectory, TrajectoryGroup

CLUEDO = make_game("cluedo", players=3)
SPECS = NEWEST, "bot:detective", "bot:novice"
GAMES = 10
CREDIT = Credit.judged(CLUEDO)


@dataclass(frozen=True)
class Trained:
    """A game as `arena train` plays and credits it."""

    path: Path
    episode: Episode
    reward: float
    turn_rewards: list[float]


def trained(path: Path, trajectory: Trajectory) -> Trained:
    # Alone in its group a game has the advantage 0, so that the part of the turns is left.
    alone = replace(CREDIT, baselines={}).assign([TrajectoryGroup((trajectory,))])
    rewards = [turn.advantage for turn in alone[0].turns]
    return Trained(path, episode_of(read_replay(path)), trajectory.reward, rewards)


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> list[Trained]:
    """Ten games of a step of training."""
    folder = tmp_path_factory.mktemp("games")

    def reply(request: Request) -> str:
        messages = [{"role": each.role, "content": each.content} for each in request.messages]
        return accuses_in_the_end({"messages": messages})

    async def play() -> list[Trained]:
        async with LLMService(quick(), notify=lambda _: None) as llm:
            llm.add(NEWEST, WithTokens(reply))
            chat = training_chat(ChatOptions(sampling=Sampling(max_tokens=99)))
            match = Match(CLUEDO, (), text_level="notes", chat=chat)
            score = Rewards.parse("", CLUEDO, credit="judged").score_seat
            setups = [GroupSetup(seed, SPECS, (0,)) for seed in range(GAMES)]
            step = await Rollouts(RolloutSetting(match), llm, score).play(
                setups, 1, 0, lambda number: folder / f"{number:02}"
            )
            paths = sorted(folder.glob("*/*.jsonl"))
            pairs = zip(paths, step.groups, strict=True)
            return [trained(path, group.trajectories[0]) for path, group in pairs]

    played = asyncio.run(play())
    values = {value for game in played for value in game.turn_rewards}
    assert len(played) == GAMES and len(values) > 20 and -1.0 in values
    return played


def test_exports(games: list[Trained], tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    chat, parquet = tmp_path / "chat", tmp_path / "parquet"
    for out in (chat, parquet):
        export_replays([game.path for game in games], out, export_format(out.name))
    lines = [json.loads(line) for line in chat.read_text().splitlines()]
    rows = pq.read_table(parquet).to_pylist()
    for game in games:
        own = [line for line in lines if line["replay"] == str(game.path)]
        assert [value for line in own for value in line["turn_rewards"]] == game.turn_rewards
        assert [row["turn_reward"] for row in rows if row["replay"] == str(game.path)] == (
            game.turn_rewards
        )


@dataclass(frozen=True, slots=True)
class SameDraws(HostedGame):
    """A hosted game whose bots draw as in another game."""

    agents_seed: int | None = None

    def match(self, seed: int, seats: Any) -> Match:
        return replace(HostedGame.match(self, seed, seats), agents_seed=self.agents_seed)


@pytest.mark.openenv
@pytest.mark.filterwarnings("ignore")
def test_openenv(games: list[Trained]) -> None:
    """Each reply of a game is a step; the last one has the share of the game's reward too."""
    pytest.importorskip("openenv.core", reason="needs openenv: make test-openenv")
    from arena.cli.openenv import HostingOptions
    from arena.envs.openenv import GameEnvironment, call

    steps = HostingOptions(game="cluedo", credit="judged").step_rewards(CLUEDO)

    async def rewards(game: Trained) -> list[float]:
        header = game.episode.header
        hosted = SameDraws(CLUEDO, SPECS[1:], agents_seed=header.agents_seed)
        env = GameEnvironment(hosted, steps=steps)
        seen = await env.reset_async(seed=header.seed)
        found = []
        for attempt in attempts_of(game.episode, 0):
            assert not seen.done
            seen = await env.step_async(call("reply", None, text=attempt.reply))
            found.append(seen.reward)
        assert seen.done
        return found

    for game in games:
        *earlier, last = game.turn_rewards
        share = CREDIT.weights[GAME] * game.reward
        assert asyncio.run(rewards(game)) == [*earlier, last + share]


HIDDEN = {"cluedo": {"refutation"}, "hanabi": {"hint"}}
"""Kinds whose values depend on what another seat knows; the guide names them."""


@pytest.mark.parametrize(
    "name", ["avalon", "battleship", "cluedo", "hanabi", "leduc_poker", "liars_dice", "werewolf"]
)
def test_which_values_show_more_than_the_seat_knows(name: str) -> None:
    """OpenEnv sends them during the game: all others are the same in every world the seat saw."""
    game, rng, compared, differing = make_game(name), random.Random(3), 0, set[str]()
    for _ in range(6):
        steps = random_steps(game, rng)
        last = max(n for n, step in enumerate(steps) if step.player == 0)
        other = game.analysis.resample(steps[:last], 0, rng)
        assert other is not None
        # The last ply of the seat has the same value in both, too.
        worlds = (values(game, each) for each in (steps[: last + 1], [*other, steps[last]]))
        for here, there in zip(*worlds, strict=True):
            compared += len(here)
            assert here.keys() == there.keys()
            differing |= {kind for kind in here if here[kind] != pytest.approx(there[kind])}
    assert compared > 3 and differing == HIDDEN.get(name, set())


def values(game: Game, steps: Sequence[Step]) -> list[dict[str, float]]:
    """The values of the plies of seat 0, each of which is known at its ply."""
    assessor, found = game.analysis.assessor((0,), game.analysis.decision_kinds), []
    assert assessor is not None
    for ply in plies(game, steps):
        values = decision_values(game, assessor.ply(ply))
        assert set(values) <= ({ply.number} if ply.player == 0 else set())
        if ply.player == 0:
            found.append({each.kind: each.value for each in values.get(ply.number, ())})
    return found
