"""ExportResult replays train: groups on the embedded host, conversations with TRL's SFTTrainer."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("art") is None:
    pytest.skip("openpipe-art is not installed", allow_module_level=True)

from scripted_table import quick
from tiny_model import build_tiny_model
from torch import Tensor

from arena.agents.chat import ChatOptions
from arena.core.errors import UsageError
from arena.episodes.branch import position
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, play
from arena.episodes.record import Position
from arena.episodes.replay import read_replay
from arena.evaluation.analysis import episode_of
from arena.llm.backend import Sampling
from arena.llm.service import LLMService
from arena.plugins.loader import catalog, make_game
from backends.embedded import SamplerBackend
from backends.embedded.sampler import Sampler
from trainers.algorithms.sequences import token_sequences
from trainers.credit.estimators import credit_games
from trainers.export.exporter import ExportResult, export_replays
from trainers.hosts.art.classes import TrainableModel, Trajectory, TrajectoryGroup
from trainers.hosts.art.convert import from_art, to_art
from trainers.hosts.art.embedded_backend import EmbeddedBackend
from trainers.hosts.art.export import read_groups
from trainers.rewards import Rewards, SeatEpisode
from trainers.rollouts.rollouts import training_chat
from trainers.rollouts.trajectories import trajectory_of
from trainers.trajectory import TrajectoryGroup as TrajectoryGroupOfOurs

pytestmark = pytest.mark.usefixtures("one_thread")

GAME = make_game("tictactoe")
SPECS = ("embedded:tiny", "bot:random")
DEALS, GAMES = 2, 4


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(
        tmp_path_factory.mktemp("checkpoint") / "tiny",
        layers=1, width=32, heads=4, kv_heads=2, head_dim=16, inner=64, context=4096,
    )  # fmt: skip


@pytest.fixture(scope="module")
def replays(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Games of a model that knows nothing: some of several attempts, some of fallbacks."""
    folder = tmp_path_factory.mktemp("replays")
    chat = training_chat(ChatOptions(sampling=Sampling(max_tokens=6), max_attempts=2))
    numbers = [(seed, number) for seed in range(DEALS) for number in range(GAMES)]
    play_games(base, folder, chat, {f"{seed}-{n}": (seed, 100 * seed + n) for seed, n in numbers})
    return folder


def play_games(
    base: Path,
    folder: Path,
    chat: ChatOptions,
    games: dict[str, tuple[int, int]],
    start: Position | None = None,
) -> None:
    """By the name of each, its seed and that of the agents."""

    async def one(llm: LLMService, stem: str, seed: int, agents_seed: int) -> None:
        agents = Match(GAME, SPECS, agents_seed, text_level="notes", chat=chat).seat(llm)
        watchers = [ReplayWriter(folder, stem)]
        await play(Match(GAME, SPECS, seed, chat=chat), agents, watchers=watchers, start=start)

    async def run() -> None:
        sampler = Sampler(base, device="cpu", threads=1)
        async with LLMService(quick(), notify=lambda _: None) as llm:
            llm.add(SPECS[0], SamplerBackend(sampler, version=lambda: 0))
            await asyncio.gather(*(one(llm, stem, *seeds) for stem, seeds in games.items()))
        await sampler.close()

    asyncio.run(run())


def export(paths: Sequence[Path], form: str, out: Path, reward: str = "") -> ExportResult:
    return export_replays(paths, out, catalog().load("export", form), reward)


def test_the_groups_are_those_that_training_makes(tmp_path: Path, replays: Path) -> None:
    out = tmp_path / "groups.jsonl"
    told = export([replays], "art", out, "win=1,format=0.5")
    groups = list(read_groups(out))
    assert (told.rows, told.games, told.skipped) == (DEALS, DEALS * GAMES, [])
    rewards = Rewards.parse("win=1,format=0.5", GAME)
    for seed, group in enumerate(groups):
        assert group.metadata == {"game": "tictactoe", "options": "{}", "seed": seed, "seat": 0}
        assert len(group.trajectories) == GAMES
        for number, trajectory in enumerate(group):
            episode = episode_of(read_replay(replays / f"{seed}-{number}.jsonl"))
            ours = TrajectoryGroupOfOurs((trajectory_of(episode, 0),))
            [expected] = to_art(ours).trajectories
            scored = rewards.score(SeatEpisode(GAME, episode, 0))
            assert trajectory.messages_and_choices == expected.messages_and_choices
            assert trajectory.additional_histories == expected.additional_histories
            assert (trajectory.reward, trajectory.metrics) == (scored.reward, dict(scored.terms))
            assert trajectory.metadata["replay"] == str(replays / f"{seed}-{number}.jsonl")
            assert trajectory.initial_policy_version == trajectory.final_policy_version == 0


def test_arts_own_reader_of_json_lines_finds_the_same(tmp_path: Path, replays: Path) -> None:
    from art.utils.trajectory_migration import deserialize_trajectory_groups

    out = tmp_path / "groups.jsonl"
    export([replays], "art", out)
    theirs, ours = deserialize_trajectory_groups(out.read_text("utf-8")), list(read_groups(out))
    assert len(theirs) == len(ours) > 0
    for one, other in zip(theirs, ours, strict=True):
        assert [plain(each) for each in one] == [plain(each) for each in other]


def plain(trajectory: Trajectory) -> tuple[Any, ...]:
    return trajectory.messages_and_choices, trajectory.reward, trajectory.metrics


def test_an_export_trains_on_the_embedded_host(tmp_path: Path, base: Path, replays: Path) -> None:
    out = tmp_path / "groups.jsonl"
    export([replays], "art", out, "win=1,format=1")

    async def run() -> None:
        groups = list(read_groups(out))
        backend = EmbeddedBackend(base, path=tmp_path, device="cpu")
        model: TrainableModel[Any, Any] = TrainableModel(
            name="m", project="p", base_model="tiny", base_path=str(tmp_path), report_metrics=[]
        )
        await model.register(backend)
        before = copied(backend.trainer._learner.state())
        sequences = token_sequences(
            credit_games([from_art(group) for group in groups], scale=True),
            backend.trainer.sampler.encode,
        )
        result = await backend.train(model, groups, learning_rate=3e-3, threads=1)
        assert result.step == backend.trainer.step == 1
        assert (
            result.metrics["tokens_trained"] == sum(len(s.sampled_positions) for s in sequences) > 0
        )
        after = backend.trainer._learner.state()
        assert any(not before[name].equal(after[name]) for name in before)
        await backend.close()

    asyncio.run(run())


def copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.items()}


def test_branches_of_one_position_are_a_group(tmp_path: Path, base: Path, replays: Path) -> None:
    chat = training_chat(ChatOptions(sampling=Sampling(max_tokens=4), max_attempts=1))
    parent = replays / "0-0.jsonl"
    for ply in (2, 4):
        start = position(read_replay(parent), ply)
        play_games(base, tmp_path, chat, {f"{ply}-{n}": (n, n) for n in range(2)}, start)
    export([tmp_path, parent], "art", tmp_path / "out.jsonl")
    groups = list(read_groups(tmp_path / "out.jsonl"))
    files = [[Path(str(t.metadata["replay"])).stem for t in group] for group in groups]
    assert files == [["0-0"], ["2-0", "2-1"], ["4-0", "4-1"]]
    decisions = [answers(group) for group in groups[1:]]
    assert decisions[0] > decisions[1] > 0  # What the parent's player said is not among them.


def answers(group: TrajectoryGroup) -> int:
    histories = [h for t in group for h in (t.messages_and_choices, *more(t))]
    return sum(not isinstance(item, dict) for items in histories for item in items)


def more(trajectory: Trajectory) -> list[list[Any]]:
    return [history.messages_and_choices for history in trajectory.additional_histories]


def test_replays_without_tokens_are_refused(tmp_path: Path, base: Path) -> None:
    chat = ChatOptions(sampling=Sampling(max_tokens=4), max_attempts=1)
    play_games(base, tmp_path, chat, {"plain": (0, 0)})
    with pytest.raises(UsageError, match=r"plain\.jsonl: no token ids .* with --set logprobs=true"):
        export([tmp_path], "art", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_group_of_one_game_is_pointed_out(tmp_path: Path, replays: Path) -> None:
    told = export([replays / "0-0.jsonl"], "art", tmp_path / "out.jsonl")
    assert told.rows == 1 and told.notes[0].startswith("1 of 1 groups have equal rewards, or one")


@pytest.mark.skipif(find_spec("trl") is None, reason="trl is not installed: the extra 'bench'")
def test_a_chat_export_trains_with_trl(tmp_path: Path, base: Path, replays: Path) -> None:
    """In a process of its own: TRL and ART both patch transformers."""
    out = tmp_path / "chat.jsonl"
    told = export([replays], "chat", out)
    assert told.rows >= DEALS * GAMES
    done = asyncio.run(in_python(SFT, str(out), str(base), str(tmp_path / "sft")))
    assert json.loads(done) == {"rows": told.rows, "read": told.rows, "step": 1, "changed": True}


SFT = """
import json, sys
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

data, base, out = sys.argv[1:]
rows = load_dataset("json", data_files=data, split="train", cache_dir=out)
model = AutoModelForCausalLM.from_pretrained(base)
before = {name: each.detach().clone() for name, each in model.named_parameters()}
given = dict(output_dir=out, max_steps=1, per_device_train_batch_size=2, learning_rate=1e-3)
quiet = dict(report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True, bf16=False)
config = SFTConfig(max_length=None, **given, **quiet)
trainer = SFTTrainer(model, config, train_dataset=rows)
# What is trained is every conversation, as the model's own template writes it.
template = trainer.processing_class.apply_chat_template
told = [template(messages)["input_ids"] for messages in rows["messages"]]
read = sum(one == each["input_ids"] for one, each in zip(told, trainer.train_dataset))
trainer.train()
changed = any(not before[name].equal(each) for name, each in model.named_parameters())
step = trainer.state.global_step
print(json.dumps({"rows": len(rows), "read": read, "step": step, "changed": changed}))
"""


async def in_python(program: str, *arguments: str) -> str:
    """The last line that it prints."""
    quiet = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, *arguments,
        env={**os.environ, **quiet}, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, complained = await process.communicate()
    assert process.returncode == 0, complained.decode()[-2000:]
    return said.decode().splitlines()[-1]
