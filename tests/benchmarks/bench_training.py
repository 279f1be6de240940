"""Speed of `arena train` on the embedded host, beside TRL's GRPOTrainer and plain transformers.

One checkpoint (clue-tiny), one set of games (Cluedo at 4 players with deductions in the prompt, 8
games of each deal), one number of threads. A decision is an answer of the learner: some four
sampled tokens after a chat of 100 to 1,500. Contestants take turns and each one's best round
counts, so that whatever else the machine does falls on all.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from comparisons import Compare

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # That games can be handed in is new in it.

if find_spec("transformers") is None:
    pytest.skip("transformers is not installed", allow_module_level=True)

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoTokenizer, Qwen3ForCausalLM, TrainerCallback

from arena.agents.chat import ChatOptions
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.llm.backend import Sampling
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.catalog import make_game
from backends.embedded import SamplerBackend, find_checkpoint
from backends.embedded.sampler import Sampler
from trainers.algorithms.learner import Learner
from trainers.config.config import TrainConfig, UpdateOptions
from trainers.credit import Credit
from trainers.rewards import RewardBreakdown, Rewards, SeatEpisode
from trainers.rollouts.rollouts import NEWEST, GroupSetup, Rollouts, RolloutSetting, training_chat
from trainers.trajectory import TokenSequence, TrajectoryGroup, token_sequences

DEALS, GAMES = 8, 8
TRAINED = 16
"""Games of these that the contestants in training share: those of two deals."""
DECISIONS = 64
"""Of these games, for contestants that take seconds for each."""
ANSWER = 64
"""The longest answer in tokens."""
THREADS = 2
ROUNDS = 2
FOLDER = find_checkpoint("clue-tiny")

with_trl = pytest.mark.skipif(find_spec("trl") is None, reason="trl is not installed")


@dataclass(frozen=True, slots=True)
class Decision:
    """What the learner read, and what it said."""

    number: int
    """How many it had made before in this game."""
    prompt: list[int]
    answer: list[int]

    @property
    def size(self) -> int:
        return len(self.prompt) + len(self.answer)


@dataclass(frozen=True, slots=True)
class Played:
    """Games as the host plays them."""

    chats: list[list[Decision]]
    """Of each game, in order."""
    sequences: list[TokenSequence]


@pytest.fixture(scope="module")
def played() -> Played:
    torch.set_num_threads(THREADS)
    return asyncio.run(play_games())


async def play_games() -> Played:
    game = make_game("cluedo", players=4)
    rewards = Rewards.parse("win=1,entropy_removed=0.5", game)

    def score(episode: Episode, seat: int) -> RewardBreakdown:
        return rewards.score(SeatEpisode(game, episode, seat))

    def deal(seed: int) -> GroupSetup:
        specs = ["bot:novice"] * 4
        specs[seed % 4] = NEWEST
        return GroupSetup(seed, tuple(specs), (seed % 4,))

    sampler = Sampler(FOLDER, threads=THREADS)
    chat = training_chat(ChatOptions(sampling=Sampling(temperature=1.0, max_tokens=ANSWER)))
    async with LLMService(Settings.load()) as llm:
        llm.add(NEWEST, SamplerBackend(sampler))
        rollouts = Rollouts(
            RolloutSetting(Match(game, text_level="deductions", chat=chat)), llm, score
        )
        played = await rollouts.play([deal(seed) for seed in range(DEALS)], GAMES, step=0)
    sequences = token_sequences(Credit().assign(played.groups), sampler.chat_tokenizer)
    await sampler.close()
    return Played(list(chats_of(played.groups)), sequences)


def chats_of(groups: Sequence[TrajectoryGroup]) -> Iterator[list[Decision]]:
    for trajectory in (trajectory for group in groups for trajectory in group.trajectories):
        yield [
            Decision(number, list(turn.prompt_ids), [token.id for token in turn.tokens])
            for number, turn in enumerate(trajectory.turns)
        ]


def some_decisions(played: Played) -> list[Decision]:
    """Evenly drawn, in the order in which games played in step would ask for them."""
    every = [decision for chat in played.chats for decision in chat]
    every.sort(key=lambda decision: decision.number)
    return [every[len(every) * k // DECISIONS] for k in range(DECISIONS)]


def best(contestants: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Each one's fewest seconds, taken in turns."""
    seconds = dict.fromkeys(contestants, float("inf"))
    for _ in range(ROUNDS):
        for name, run in contestants.items():
            torch.set_num_threads(THREADS)
            seconds[name] = min(seconds[name], run())
    return seconds


# Training


@dataclass(frozen=True, slots=True)
class Work:
    """What a contestant trains on in its seconds."""

    decisions: int
    tokens: int
    """That it was given, padding not counted; those of a chat once if it takes whole games."""
    run: Callable[[], float]


@with_trl
@pytest.mark.filterwarnings("ignore")  # TRL and what it imports warn of much.
def test_training(played: Played, tmp_path: Path, compare: Compare) -> None:
    """The same games for all, as whole chats or as a decision after the other."""
    groups = sorted({sequence.group for sequence in played.sequences})[: TRAINED // GAMES]
    games = [sequence for sequence in played.sequences if sequence.group in groups]
    some, length = some_decisions(played), sum(len(game.ids) for game in games)
    decisions = sum(len(answers_of(game)) for game in games)
    one_by_one = sum(decision.size for decision in some)
    works = {
        "the host": Work(decisions, length, lambda: update(games)),
        "plain transformers, whole games": Work(decisions, length, lambda: plain_loop(games)),
        "TRL, whole games": Work(decisions, length, lambda: train_games_by_trl(games, tmp_path)),
        "TRL, decision by decision": Work(
            DECISIONS, one_by_one, lambda: train_decisions_by_trl(some, 8, tmp_path)
        ),
    }
    seconds = best({name: work.run for name, work in works.items()})
    speeds = {name: work.decisions / seconds[name] for name, work in works.items()}
    host = speeds.pop("the host")
    compare("training of `clue-tiny` on 16 games", "decisions/s", host, speeds)
    for name, speed in speeds.items():
        assert host >= 1.5 * speed, name


def answers_of(game: TokenSequence) -> list[int]:
    """The first token's position of each answer."""
    places = game.sampled_positions
    return [places[0], *(b for a, b in pairwise(places) if b != a + 1)]


def update(games: Sequence[TokenSequence]) -> float:
    learner = Learner(FOLDER)
    started = time.perf_counter()
    learner.update(games, options())
    return time.perf_counter() - started


def options() -> UpdateOptions:
    return UpdateOptions(threads=THREADS, tokens_per_batch=TrainConfig().tokens_per_batch)


def plain_loop(games: Sequence[TokenSequence]) -> float:
    """What one writes first: a padded batch of whole games, all logits, AdamW."""
    model = Qwen3ForCausalLM.from_pretrained(FOLDER).train()
    adam = torch.optim.AdamW(model.parameters(), lr=3e-4)
    started = time.perf_counter()
    for first in range(0, len(games), GAMES):
        batch = games[first : first + GAMES]
        ids = padded([torch.tensor(game.ids) for game in batch])
        mask = padded([torch.ones(len(game.ids), dtype=torch.long) for game in batch])
        weights = torch.zeros(ids.shape)
        for row, game in enumerate(batch):
            values = torch.tensor(game.advantages) * game.weight
            weights[row, game.sampled_positions] = values
        logits = model(input_ids=ids, attention_mask=mask).logits
        logprobs = F.log_softmax(logits[:, :-1], -1).gather(2, ids[:, 1:, None])[..., 0]
        loss = -(logprobs * weights[:, 1:]).sum() / len(batch)
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
    return time.perf_counter() - started


def padded(rows: Sequence[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)


Handed = Mapping[str, Sequence[Sequence[float]]]
"""What TRL takes for rollouts that were made elsewhere."""


@dataclass(frozen=True, slots=True)
class Trl:
    trainer: Any
    starts: list[float]
    """When each of its steps began, and when the last one ended."""


def trl_trainer(folder: Path, size: int, steps: int, hand: Callable[[int], Handed]) -> Trl:
    """TRL's trainer with ART's loss on this checkpoint, AdamW, no reference model (its default).

    It generates nothing, and trains on what `hand` gives for so many rollouts.
    """
    trl = import_module("trl")
    starts: list[float] = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            starts.append(time.perf_counter())

        on_train_end = on_step_begin

    def reward(completions: Sequence[str], **_: Any) -> list[float]:
        return [random.random() for _ in completions]

    config = trl.GRPOConfig(
        output_dir=str(folder), per_device_train_batch_size=size, num_generations=GAMES,
        max_completion_length=ANSWER, max_steps=steps, learning_rate=3e-4, loss_type="cispo",
        optim="adamw_torch", gradient_checkpointing=False, bf16=False, use_cpu=True,
        dataloader_pin_memory=False, report_to=[], save_strategy="no", logging_strategy="no",
        disable_tqdm=True,
    )  # fmt: skip
    trainer = trl.GRPOTrainer(
        model=Qwen3ForCausalLM.from_pretrained(FOLDER),
        reward_funcs=reward,
        args=config,
        train_dataset=import_module("datasets").Dataset.from_dict(
            {"prompt": [str(number) for number in range(64)]}
        ),
        processing_class=AutoTokenizer.from_pretrained(FOLDER),
        callbacks=[Clock()],
        rollout_func=lambda prompts, _: hand(len(prompts)),
    )
    return Trl(trainer, starts)


def steps_of_trl(folder: Path, size: int, rollouts: list[Handed]) -> float:
    """Seconds of a step for each of these; the first one is done once more before, to warm up."""
    left = iter([rollouts[0], *rollouts])
    trl = trl_trainer(folder, size, len(rollouts) + 1, lambda _: next(left))
    trl.trainer.train()
    assert len(trl.starts) == len(rollouts) + 2
    return trl.starts[-1] - trl.starts[1]


def train_decisions_by_trl(decisions: Sequence[Decision], size: int, folder: Path) -> float:
    """A prompt and its completion for each decision: what TRL makes of a game of many turns."""

    def handed(some: Sequence[Decision]) -> Handed:
        return {
            "prompt_ids": [decision.prompt for decision in some],
            "completion_ids": [decision.answer for decision in some],
            "logprobs": [[0.0] * len(decision.answer) for decision in some],
        }

    firsts = range(0, len(decisions), size)
    return steps_of_trl(folder, size, [handed(decisions[k : k + size]) for k in firsts])


def train_games_by_trl(games: Sequence[TokenSequence], folder: Path) -> float:
    """A whole game as one completion, in which only what the learner said counts."""

    def handed(some: Sequence[TokenSequence]) -> Handed:
        starts = [game.sampled_positions[0] for game in some]
        pairs = list(zip(some, starts, strict=True))
        return {
            "prompt_ids": [game.ids[:start] for game, start in pairs],
            "completion_ids": [game.ids[start:] for game, start in pairs],
            "logprobs": [[0.0] * (len(game.ids) - start) for game, start in pairs],
            "env_mask": [said_by_learner(game)[start:] for game, start in pairs],
        }

    # Its batches are of one size; a game without advantage is not among these.
    some = [*games, *games][: -(-len(games) // GAMES) * GAMES]
    firsts = range(0, len(some), GAMES)
    seconds = steps_of_trl(folder, GAMES, [handed(some[k : k + GAMES]) for k in firsts])
    return seconds * len(games) / len(some)


def said_by_learner(game: TokenSequence) -> list[int]:
    """1 where a token was sampled, 0 elsewhere."""
    said = set(game.sampled_positions)
    return [int(place in said) for place in range(len(game.ids))]
