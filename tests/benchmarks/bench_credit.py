"""Credit estimators on the same games: variance of advantages, and direction of the gradient.

clue-tiny plays at a table with three novices, `deductions` in the prompt. A batch is the games of
one step of the preset `demo`: 8 deals with 8 games each. All estimators get the same games and the
reward `win=1`. Printed are, by estimator,

- the standard deviation of the advantages of decisions,
- the cosine of a batch's gradient with the mean gradient by game credit of all other batches,
- the cosine of the gradients of two batches, over all pairs.

`judged` has another expectation than `game`, so that its second figure is below the third however
many games there are. The gradient is that of the last layer, for which one forward pass serves all
estimators. CREDIT_BATCHES=16 (1,024 games) in the environment gives narrower intervals.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from arena.agents.chat import ChatOptions
from arena.core.game import Game
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.llm.backend import Sampling
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.loader import make_game
from backends.embedded import SamplerBackend, find_checkpoint
from backends.embedded.sampler import Sampler
from trainers.algorithms.batching import minibatches
from trainers.algorithms.learner import Learner, UpdateOptions
from trainers.algorithms.sequences import token_sequences
from trainers.config.config import CreditName, TrainConfig
from trainers.credit import critic
from trainers.credit.estimators import Credit
from trainers.rewards import RewardBreakdown, Rewards, SeatEpisode
from trainers.rollouts.opponents import NEWEST
from trainers.rollouts.rollouts import GroupSetup, Rollouts, RolloutSetting, training_chat
from trainers.trajectory import TrajectoryGroup

BATCHES = int(os.environ.get("CREDIT_BATCHES", "6"))
DEALS, GAMES = 8, 8
NAMES: tuple[CreditName, ...] = ("game", "judged", "group-step", "turn")
FOLDER = find_checkpoint("clue-tiny")
Gradient = NDArray[np.float64]


def test_credit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    game = make_game("cluedo", players=4)
    batches = asyncio.run(play_batches(game))
    advantages: dict[str, list[list[float]]] = {}
    explained = list[float]()
    for name in NAMES:
        advantages[name] = credited(name, game, batches, tmp_path / name, explained)
    sums = [
        gradients(batch, {name: found[number] for name, found in advantages.items()})
        for number, batch in enumerate(batches)
    ]
    lines, game_sum = [], sum(each["game"] for each in sums)
    for label, found in advantages.items():
        own = [each[label] for each in sums]
        # Without the batch itself: its own games would point into its own direction.
        reference = [cosine(each[label], game_sum - each["game"]) for each in sums]
        pairs = [cosine(one, two) for one, two in combinations(own, 2)]
        deviation = float(np.std([value for batch in found for value in batch]))
        lines.append(f"{label:28} {deviation:9.3f}   {interval(reference)}   {np.mean(pairs):+.3f}")
    with capsys.disabled():
        print(f"\n\n{BATCHES} batches of {DEALS} deals x {GAMES} games, clue-tiny among novices")
        print(f"{'credit':28} deviation   cosine with the reference   between batches")
        print("\n".join(lines))
        shares = ", ".join(f"{share:.0%}" for share in explained[:BATCHES])
        print(f"the critic of turn explains by batch: {shares}")


async def play_batches(game: Game) -> list[list[TrajectoryGroup]]:
    """Return the groups of each batch, with what every estimator reads."""
    judged = Rewards.parse("win=1", game, credit="judged")
    turn = Rewards.parse("win=1", game, credit="turn")

    def score(episode: Episode, seat: int) -> RewardBreakdown:
        seat_episode = SeatEpisode(game, episode, seat)
        return replace(judged.score(seat_episode), positions=turn.score(seat_episode).positions)

    def deal(seed: int) -> GroupSetup:
        specs = ["bot:novice"] * 4
        specs[seed % 4] = NEWEST
        return GroupSetup(seed, tuple(specs), (seed % 4,))

    sampler = Sampler(FOLDER, threads=1)
    chat = training_chat(ChatOptions(sampling=Sampling(temperature=1.0, max_tokens=64)))
    async with LLMService(Settings.load()) as llm:
        llm.add(NEWEST, SamplerBackend(sampler))
        setting = RolloutSetting(Match(game, text_level="deductions", chat=chat))
        rollouts = Rollouts(setting, llm, score)
        played = [
            await rollouts.play(
                [deal(number * DEALS + place) for place in range(DEALS)], GAMES, step=0
            )
            for number in range(BATCHES)
        ]
    await sampler.close()
    return [batch.groups for batch in played]


def credited(
    name: CreditName,
    game: Game,
    batches: Sequence[Sequence[TrajectoryGroup]],
    folder: Path,
    explained: list[float],
) -> list[list[float]]:
    """Return the advantages of the turns of each batch; a weak critic is used all the same."""
    credit = Credit.parse(TrainConfig(credit=name), game)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(critic, "LEAST_EXPLAINED", -math.inf)
        for step, batch in enumerate(batches, start=1):
            values = None
            if name == "turn":
                estimate = critic.Critic(folder, credit.weights["illegal"]).estimate(step, batch)
                values = estimate.values
                explained.append(estimate.metrics["critic_explained"])
            credited = credit.assign(batch, values)
            found.append([turn.advantage for group in credited for turn in group.turns])
    return found


def gradients(
    batch: Sequence[TrajectoryGroup], advantages: Mapping[str, Sequence[float]]
) -> dict[str, Gradient]:
    """Return sum over tokens of A grad log pi for each estimator, by the last layer's weights."""
    numbered = list[TrajectoryGroup]()
    number = 0
    for group in batch:
        made = []
        for one in group.trajectories:
            # The number of its turn in place of a token's advantage.
            made.append(one.with_advantages(range(number + 1, number + 1 + len(one.turns))))
            number += len(one.turns)
        numbered.append(group.with_trajectories(made))
    learner, options = Learner(FOLDER), UpdateOptions()
    last = f"model.layers.{learner.architecture.layers - 1}."
    weights = learner.weights()
    for name, tensor in weights.items():
        tensor.requires_grad_(name.startswith(last))
    trained = [tensor for name, tensor in weights.items() if name.startswith(last)]
    sampler = Sampler(FOLDER, threads=1)
    sequences = token_sequences(numbered, sampler.encode)
    asyncio.run(sampler.close())
    tables = {name: torch.tensor([0.0, *values]) for name, values in advantages.items()}
    sums = {name: np.zeros(sum(tensor.numel() for tensor in trained)) for name in tables}
    for part in minibatches(sequences, 1, options.tokens_per_batch, 0.0, "0")[0]:
        logprobs, turns = learner.score(part.packed, options).logprobs, part.targets.advantages
        for name, table in tables.items():
            value = (table[turns.long()] * logprobs).sum()
            found = torch.autograd.grad(value, trained, retain_graph=True)
            sums[name] += torch.cat([each.flatten() for each in found]).double().numpy()
    return sums


def cosine(one: Gradient, two: Gradient) -> float:
    return float(one @ two / np.sqrt((one @ one) * (two @ two)))


def interval(values: Sequence[float]) -> str:
    """Return the mean over batches and its 95 % interval, by normal approximation."""
    half = 1.96 * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return f"{np.mean(values):+.3f} [{np.mean(values) - half:+.3f}, {np.mean(values) + half:+.3f}]"
