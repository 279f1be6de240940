"""The embedded trainer: sampling, training, serving each step, and going on."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from made_up_groups import Talk, credited
from safetensors.torch import load_file, save_file
from tiny_model import SMALL, build_tiny_model, same
from transformers import AutoModelForCausalLM

from arena.core.errors import ArenaError, UsageError
from arena.llm.backend import Message, Request, Sampling
from backends.embedded import SamplerBackend
from backends.embedded.architecture import read_model_config
from backends.embedded.layers import read_state_dict
from trainers.algorithms.batching import minibatches
from trainers.algorithms.checkpoint_files import OPTIMIZER, merge_checkpoint
from trainers.algorithms.learner import Learner
from trainers.algorithms.lora import Lora
from trainers.config.config import UpdateOptions
from trainers.hosts.embedded_trainer import EmbeddedTrainer, InProcess
from trainers.trajectory import (
    AnswerTokens,
    SampledToken,
    TokenSequence,
    TrajectoryGroup,
)

pytestmark = pytest.mark.usefixtures("one_thread")

ADAPTER = Lora(rank=4, alpha=8.0)
UPDATE: dict[str, Any] = {"learning_rate": 3e-3, "threads": 1}
ASK = Request((Message("user", "who has the rope"),), Sampling(max_tokens=8, seed=3), logprobs=True)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("checkpoint") / "tiny", layers=1, **SMALL)


def opened(folder: Path, base: Path, **options: Any) -> EmbeddedTrainer:
    return EmbeddedTrainer(folder / "checkpoints", base, name="m", device="cpu", **options)


def made_up(trainer: EmbeddedTrainer, seed: int, groups: int = 2) -> list[TrajectoryGroup]:
    talk = Talk(trainer.sampler.chat_tokenizer, random.Random(seed))
    return credited([talk.group(3) for _ in range(groups)])


async def answer(bridge: InProcess, step: int) -> list[float]:
    """The log-probabilities of an answer of a step's weights, to the bit."""
    completion = await bridge.policy(step).complete(ASK)
    assert completion.policy_version == step
    return [token.logprob for token in completion.choice.tokens]


@pytest.mark.parametrize("lora", [None, ADAPTER], ids=["all weights", "lora"])
def test_a_checkpoint_is_what_transformers_and_the_sampler_load(
    tmp_path: Path, base: Path, lora: Lora | None
) -> None:
    async def run() -> None:
        trainer = opened(tmp_path, base, lora=lora)
        await trainer.train(made_up(trainer, 1), UpdateOptions(**UPDATE))
        folder = trainer.checkpoint(1)
        assert folder == tmp_path / "checkpoints" / "0001"
        assert not list(folder.parent.glob(".*"))
        merge_checkpoint(folder)
        stored = load_file(folder / "model.safetensors")
        assert same(stored, trainer.learner.merged())
        theirs = AutoModelForCausalLM.from_pretrained(folder)
        assert same(stored, {n: t.detach() for n, t in theirs.named_parameters()})
        if lora is not None:
            check_adapter(folder / "adapter")
            trainer.sampler.load_adapter("loaded", folder / "adapter")
            loaded = await SamplerBackend(trainer.sampler, lambda _: ("loaded", None)).complete(ASK)
            bridge = InProcess(trainer)
            served = await answer(bridge, 1)
            logprobs = [token.logprob for token in loaded.choice.tokens]
            assert logprobs == pytest.approx(served, abs=1e-5)
            assert logprobs != pytest.approx(await answer(bridge, 0), abs=1e-5)
        await trainer.close()

    asyncio.run(run())


def test_with_bf16_sampler_and_learner_round_alike(tmp_path: Path, base: Path) -> None:
    async def run() -> None:
        trainer = opened(tmp_path, base, lora=ADAPTER, precision="bf16")
        settings = UpdateOptions(**UPDATE, precision="bf16")
        await trainer.train(made_up(trainer, 1), settings)
        assert "bfloat16" in trainer.sampler.engine
        completion = await InProcess(trainer).policy(1).complete(ASK)
        prompt = trainer.sampler.encode(ASK.messages)
        sequence = TokenSequence(0, 0)
        answered = completion.choice.tokens
        tokens = [SampledToken(t.id or 0, t.logprob, t.logprob) for t in answered]
        sequence.add(AnswerTokens(prompt, tokens))
        [[batch]] = minibatches([sequence], 1, 10**6, "0")
        new = trainer.learner.score(batch.packed, settings, trainer.learner.weights()).logprobs
        assert 0 < (new - batch.targets.sampled_logprobs).abs().mean() < 0.02
        await trainer.close()

    asyncio.run(run())


def check_adapter(folder: Path) -> None:
    """Names and shapes as PEFT's: lora_A [rank, inputs], lora_B [outputs, rank]."""
    factors = load_file(folder / "adapter_model.safetensors")
    at = "base_model.model.model.layers.0"
    assert len(factors) == 14
    assert factors[f"{at}.self_attn.k_proj.lora_A.weight"].shape == (4, 32)
    assert factors[f"{at}.self_attn.k_proj.lora_B.weight"].shape == (32, 4)
    assert factors[f"{at}.mlp.down_proj.lora_A.weight"].shape == (4, 64)
    assert factors[f"{at}.mlp.gate_proj.lora_B.weight"].shape == (64, 4)


@pytest.mark.parametrize("lora", [None, ADAPTER], ids=["all weights", "lora"])
def test_going_on_from_disk_gives_the_same_bits(
    tmp_path: Path, base: Path, lora: Lora | None
) -> None:
    async def run() -> None:
        trainer = opened(tmp_path, base, lora=lora)
        options = UPDATE | {"kl_penalty_coef": 0.1, "entropy_coef": 0.01}
        for step in range(2):
            await trainer.train(made_up(trainer, step), UpdateOptions(**options))
        files = [path for path in trainer.checkpoint(2).rglob("*") if path.is_file()]
        bits = {path: path.read_bytes() for path in files if path.name != "training.json"}
        moments = load_file(trainer.checkpoint(2) / OPTIMIZER)
        assert moments and all(tensor.any() for tensor in moments.values())
        answered = await answer(InProcess(trainer), 2)
        await trainer.close()

        draft = trainer.checkpoint(2).with_name(".0003.part")
        draft.mkdir()
        trainer = opened(tmp_path, base, lora=lora, first_step=1)
        assert trainer.step == 1 and trainer.steps() == [1] and not draft.exists()
        await trainer.train(made_up(trainer, 1), UpdateOptions(**options))
        for path, content in bits.items():
            assert path.read_bytes() == content, path.name
        assert await answer(InProcess(trainer), 2) == answered
        await trainer.close()

        trainer = opened(tmp_path, base, lora=lora)
        assert trainer.step == 2
        await trainer.close()
        with pytest.raises(ArenaError, match=r"of step 7 is missing; found \[1, 2\]"):
            opened(tmp_path, base, lora=lora, first_step=7)

    asyncio.run(run())


def test_a_step_that_fails_leaves_the_last_one(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step can be repeated after an error between two minibatches or while saving."""

    async def run() -> None:
        trainer = opened(tmp_path / "failing", base)
        calm = opened(tmp_path / "calm", base)
        for step in range(2):
            groups = made_up(trainer, step, groups=4)
            for part in ("_optimizer_step", "save"):
                with monkeypatch.context() as patched:
                    fail_at_the_second_call(patched, part)
                    with pytest.raises(OSError, match="disk"):
                        await trainer.train(groups, UpdateOptions(**UPDATE))
                assert trainer.step == step
                assert same(trainer.learner.merged(), calm.learner.merged())
            await trainer.train(groups, UpdateOptions(**UPDATE))
            await calm.train(groups, UpdateOptions(**UPDATE))
        assert same(load_file(trainer.checkpoint(2) / OPTIMIZER),
                    load_file(calm.checkpoint(2) / OPTIMIZER))  # fmt: skip
        with pytest.raises(ArenaError, match="the gradient is not finite"):
            await trainer.train(broken(made_up(trainer, 2)), UpdateOptions(**UPDATE))
        assert same(trainer.learner.merged(), calm.learner.merged())
        await trainer.close()
        await calm.close()

    asyncio.run(run())


def test_a_broken_checkpoint_is_named(tmp_path: Path, base: Path) -> None:
    async def run() -> None:
        trainer = opened(tmp_path, base)
        await trainer.train(made_up(trainer, 1), UpdateOptions(**UPDATE))
        await trainer.close()
        for name in (OPTIMIZER, "model.safetensors"):
            path = trainer.checkpoint(1) / name
            good = path.read_bytes()
            for content in (b"", b"not a tensor in it", None):
                path.unlink() if content is None else path.write_bytes(content)
                with pytest.raises(
                    ArenaError, match=rf"0001 cannot be read: {name}.*another --exp"
                ):
                    opened(tmp_path, base)
            path.write_bytes(good)
        path = trainer.checkpoint(1) / OPTIMIZER
        save_file({f"another/{name}": torch.ones(1) for name in ("step", "exp_avg")}, path)
        with pytest.raises(ArenaError, match="the optimizer in the checkpoint trained other tens"):
            opened(tmp_path, base)

    asyncio.run(run())


def fail_at_the_second_call(patched: pytest.MonkeyPatch, part: str) -> None:
    """Fail at the second step of the optimizer, or at the first save, after all computation."""
    original, calls = getattr(Learner, part), []

    def failing(self: Learner, *arguments: Any) -> Any:
        calls.append(part)
        if len(calls) == (2 if part == "_optimizer_step" else 1):
            raise OSError("no space left on this disk")
        return original(self, *arguments)

    patched.setattr(Learner, part, failing)


def broken(groups: list[TrajectoryGroup]) -> list[TrajectoryGroup]:
    first, *others = groups[0].trajectories
    return [
        replace(
            groups[0], trajectories=(first.with_advantages([math.nan] * len(first.turns)), *others)
        ),
        *groups[1:],
    ]


def test_old_weights_are_forgotten_but_found_again(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.embedded.SERVED_BYTES", 0)  # Room for two.

    async def run() -> None:
        trainer = opened(tmp_path, base)
        bridge = InProcess(trainer)
        await bridge.start()
        answers = [await answer(bridge, 0)]
        for step in range(1, 5):
            await trainer.train(made_up(trainer, step, groups=1), UpdateOptions(**UPDATE))
            await bridge.publish(step, ())
            answers.append(await answer(bridge, step))
        assert sorted(trainer.sampler.adapters) == ["m@3", "m@4"]
        assert await answer(bridge, 1) == answers[1]
        assert await answer(bridge, 0) == answers[0]
        trainer.keep([2])
        await bridge.keep(trainer.steps())
        assert trainer.steps() == [2, 4] and "m@1" not in trainer.sampler.adapters
        assert [step for step in (2, 4) if (trainer.checkpoint(step) / OPTIMIZER).exists()] == [4]
        with pytest.raises(UsageError, match=r"step 3 is not kept; found \[2, 4\]"):
            bridge.policy(3)
        assert await answer(bridge, 2) == answers[2]
        await trainer.close()

    asyncio.run(run())


def test_the_penalty_is_on_the_divergence_from_the_reference_step(
    tmp_path: Path, base: Path
) -> None:
    async def run() -> None:
        trainer = opened(tmp_path, base)
        penalised = UPDATE | {"kl_penalty_coef": 1.0, "minibatches": 1}
        first = await trainer.train(made_up(trainer, 1), UpdateOptions(**penalised))
        assert first["kl_reference"] == 0.0
        second = await trainer.train(made_up(trainer, 1), UpdateOptions(**penalised))
        assert second["kl_reference"] != 0.0
        newest = await trainer.train(
            made_up(trainer, 1), UpdateOptions(kl_penalty_reference_step=2, **penalised)
        )
        assert newest["kl_reference"] == 0.0
        with pytest.raises(UsageError, match="step 9 is not kept"):
            await trainer.train([], UpdateOptions(kl_penalty_reference_step=9, **penalised))
        nothing = await trainer.train([], UpdateOptions(**UPDATE))
        assert trainer.step == 4 and nothing["tokens_trained"] == 0
        await trainer.close()

    asyncio.run(run())


@pytest.mark.parametrize("lora", [None, ADAPTER], ids=["all weights", "lora"])
def test_checkpoints_as_they_are_found_in_the_wild(
    tmp_path: Path, base: Path, lora: Lora | None
) -> None:
    """Half precision, the embedding held twice, and a checkpoint of ours as the base."""
    wild = tmp_path / "wild"
    AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16).save_pretrained(wild)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (wild / name).write_bytes((base / name).read_bytes())
    for path in base.glob("*.jinja"):
        (wild / path.name).write_bytes(path.read_bytes())
    state = load_file(wild / "model.safetensors")
    assert state["model.norm.weight"].dtype == torch.bfloat16
    copied = state["model.embed_tokens.weight"].clone()
    save_file(state | {"lm_head.weight": copied}, wild / "model.safetensors", {"format": "pt"})

    async def run() -> None:
        options = UPDATE | {"kl_penalty_coef": 0.1}
        trainer = opened(tmp_path / "one", wild, lora=lora)
        await trainer.train(made_up(trainer, 1), UpdateOptions(**options))
        await trainer.close()
        trainer = opened(tmp_path / "one", wild, lora=lora)
        ours = trainer.checkpoint(1)
        stored = read_state_dict(ours)
        merge_checkpoint(ours)
        assert read_model_config(ours)["dtype"] == "float32"
        assert next(AutoModelForCausalLM.from_pretrained(ours).parameters()).dtype == torch.float32
        await trainer.close()
        trainer = opened(tmp_path / "two", ours, lora=lora)
        assert same(trainer.learner.merged(), {n: stored[n] for n in trainer.learner.merged()})
        assert not trainer.learner.moments()
        await trainer.close()

    asyncio.run(run())
