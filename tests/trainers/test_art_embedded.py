"""The embedded host as ART sees it: sampling, training, serving each step, and going on."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

if find_spec("art") is None:
    pytest.skip("openpipe-art is not installed", allow_module_level=True)

from art_groups import Talk
from safetensors.torch import load_file, save_file
from tiny_model import build_tiny_model
from trainers.hosts.embedded_backend import EmbeddedArtBackend
from transformers import AutoModelForCausalLM

from arena.core.errors import ArenaError, UsageError
from arena.llm.backend import Message, Request, Sampling
from backends.embedded import SamplerBackend
from backends.embedded.architecture import read_model_config
from trainers.algorithms.batching import minibatches
from trainers.algorithms.learner import OPTIMIZER, Learner
from trainers.algorithms.lora import Lora
from trainers.algorithms.network import score_tokens
from trainers.algorithms.sequences import token_sequences
from trainers.hosts.art import (
    TrainableModel,
    Trajectory,
    TrajectoryGroup,
)

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL: dict[str, Any] = {
    "layers": 1,
    "width": 32,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "inner": 64,
}
ADAPTER = Lora(rank=4, alpha=8.0)
UPDATE: dict[str, Any] = {"learning_rate": 3e-3, "threads": 1}
Model = TrainableModel[Any, Any]
ASK = Request((Message("user", "who has the rope"),), Sampling(max_tokens=8, seed=3), logprobs=True)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("checkpoint") / "tiny", **SMALL)


async def opened(folder: Path, base: Path, **options: Any) -> tuple[EmbeddedArtBackend, Model]:
    backend = EmbeddedArtBackend(folder, base, device="cpu", **options)
    model: Model = TrainableModel(
        name="m", project="p", base_model="tiny", base_path=str(folder), report_metrics=[]
    )
    await model.register(backend)  # type: ignore[arg-type]
    return backend, model


def made_up(backend: EmbeddedArtBackend, seed: int, groups: int = 2) -> list[TrajectoryGroup]:
    talk = Talk(backend.sampler.chat_tokenizer, random.Random(seed))
    return [talk.group(3) for _ in range(groups)]


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """To the bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


async def roll_out(model: Model, seed: int) -> Trajectory:
    """Two questions through ART's client; the reward is how many letters e are in the answers."""
    client, name = model.openai_client(), model.get_inference_name()
    items: list[Any] = [{"role": "user", "content": "who suggests what"}]
    for question in ("where", None):
        chat = Trajectory(messages_and_choices=items, reward=0.0).messages()
        reply = await client.chat.completions.create(
            model=name, messages=chat, max_tokens=6, seed=seed, logprobs=True,
            extra_body={"return_token_ids": True},
        )  # fmt: skip
        items.append(reply.choices[0])
        if question:
            items.append({"role": "user", "content": question})
    said = "".join(item.message.content or "" for item in items if not isinstance(item, dict))
    return Trajectory(messages_and_choices=items, reward=float(said.count("e")) + len(said) / 50)


def test_arts_own_loop_runs_on_it(tmp_path: Path, base: Path) -> None:
    """Register, gather, train, log; each step is served, and old ones answer as they did."""

    async def run() -> None:
        backend, model = await opened(tmp_path, base)
        assert model.get_inference_name() == model.inference_model_name == "m@0"
        from art import gather_trajectory_groups  # After arena has imported art quietly.

        groups = await gather_trajectory_groups(
            [
                cast(
                    Awaitable[TrajectoryGroup],
                    TrajectoryGroup(roll_out(model, 10 * place + n) for n in range(4)),
                )
                for place in range(2)
            ],
            pbar_desc=None,
        )
        assert [len(group.trajectories) for group in groups] == [4, 4]
        sequences = token_sequences(groups, backend.sampler.encode)
        [batches] = minibatches(sequences, 1, 10**6, 0.0, "0")
        for batch in batches:
            again = score_tokens(
                backend._learner.weights(), backend._learner.architecture, batch.packed
            )
            torch.testing.assert_close(
                again.logprobs, batch.targets.sampled_logprobs, rtol=0, atol=1e-4
            )

        before = await answer(backend, model, 0)
        result = await backend.train(model, groups, **UPDATE)
        assert result.step == backend.step == await model.get_step() == 1
        assert all(math.isfinite(value) for value in result.metrics.values())
        assert result.metrics["tokens_trained"] == sum(len(s.sampled_positions) for s in sequences)
        await model.log(groups, split="train", metrics=result.metrics, step=result.step)
        assert "m@1" in [card.id async for card in model.openai_client().models.list()]
        assert model.get_inference_name() == "m@1"
        assert await answer(backend, model, 0) == before
        assert await answer(backend, model, 1) != before
        await backend.close()

    asyncio.run(run())


async def answer(backend: EmbeddedArtBackend, model: Model, step: int) -> list[float]:
    """The log-probabilities of an answer of a step's weights, to the bit."""
    policy = SamplerBackend(
        backend.sampler, lambda: backend._model_inference_name(model, step), lambda: step
    )
    completion = await policy.complete(ASK)
    assert completion.policy_version == step
    return [token.logprob for token in completion.choices[0].tokens]


@pytest.mark.parametrize("lora", [None, ADAPTER], ids=["all weights", "lora"])
def test_a_checkpoint_is_what_transformers_and_the_sampler_load(
    tmp_path: Path, base: Path, lora: Lora | None
) -> None:
    async def run() -> None:
        backend, model = await opened(tmp_path, base, lora=lora)
        await backend.train(model, made_up(backend, 1), **UPDATE)
        folder = backend.checkpoint(1)
        assert folder == tmp_path / "p" / "models" / "m" / "checkpoints" / "0001"
        assert not list(folder.parent.glob(".*"))
        stored = load_file(folder / "model.safetensors")
        assert same(stored, backend._learner.state())
        theirs = AutoModelForCausalLM.from_pretrained(folder)
        assert same(stored, {n: t.detach() for n, t in theirs.named_parameters()})
        sequences = token_sequences(made_up(backend, 2), backend.sampler.encode)
        [[batch]] = minibatches(sequences[:1], 1, 10**6, 0.0, "0")
        logits = theirs(batch.packed.tokens[None]).logits[0].log_softmax(-1)
        expected = logits[batch.packed.prediction_rows, batch.packed.targets]
        found = score_tokens(
            backend._learner.weights(), backend._learner.architecture, batch.packed
        ).logprobs
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
        if lora is not None:
            check_adapter(folder / "adapter")
            backend.sampler.load_adapter("loaded", folder / "adapter")
            loaded = await SamplerBackend(backend.sampler, lambda: "loaded").complete(ASK)
            served = await answer(backend, model, 1)
            logprobs = [token.logprob for token in loaded.choices[0].tokens]
            assert logprobs == pytest.approx(served, abs=1e-5)
            assert logprobs != pytest.approx(await answer(backend, model, 0), abs=1e-5)
        await backend.close()

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
        backend, model = await opened(tmp_path, base, lora=lora)
        options = UPDATE | {"kl_penalty_coef": 0.1, "weight_decay": 0.01, "warmup_steps": 3}
        for step in range(2):
            await backend.train(model, made_up(backend, step), **options)
        files = [path for path in backend.checkpoint(2).rglob("*") if path.is_file()]
        bits = {path: path.read_bytes() for path in files if path.name != "training.json"}
        moments = load_file(backend.checkpoint(2) / OPTIMIZER)
        assert moments and all(tensor.any() for tensor in moments.values())
        answered = await answer(backend, model, 2)
        await backend.close()

        draft = backend.checkpoint(2).with_name(".0003.part")
        draft.mkdir()
        backend, model = await opened(tmp_path, base, lora=lora, first_step=1)
        assert backend.step == 1 and backend.steps() == [1] and not draft.exists()
        await backend.train(model, made_up(backend, 1), **options)
        for path, content in bits.items():
            assert path.read_bytes() == content, path.name
        assert await answer(backend, model, 2) == answered
        await backend.close()

        backend, model = await opened(tmp_path, base, lora=lora)
        assert backend.step == 2
        await backend.close()
        with pytest.raises(ArenaError, match=r"of step 7 is missing; found \[1, 2\]"):
            await opened(tmp_path, base, lora=lora, first_step=7)

    asyncio.run(run())


def test_a_step_that_fails_leaves_the_last_one(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step can be repeated after an error between two minibatches or while saving."""

    async def run() -> None:
        backend, model = await opened(tmp_path / "failing", base)
        calm, other = await opened(tmp_path / "calm", base)
        for step in range(2):
            groups = made_up(backend, step, groups=4)
            for part in ("_optimizer_step", "save"):
                with monkeypatch.context() as patched:
                    fail_at_the_second_call(patched, part)
                    with pytest.raises(OSError, match="disk"):
                        await backend.train(model, groups, **UPDATE)
                assert backend.step == step
                assert same(backend._learner.state(), calm._learner.state())
            await backend.train(model, groups, **UPDATE)
            await calm.train(other, groups, **UPDATE)
        assert same(load_file(backend.checkpoint(2) / OPTIMIZER),
                    load_file(calm.checkpoint(2) / OPTIMIZER))  # fmt: skip
        with pytest.raises(ArenaError, match="the gradient is not finite"):
            await backend.train(model, broken(made_up(backend, 2)), **UPDATE)
        assert same(backend._learner.state(), calm._learner.state())
        await backend.close()
        await calm.close()

    asyncio.run(run())


@pytest.mark.parametrize(("began", "goes_on"), [(ADAPTER, None), (None, ADAPTER)])
def test_a_checkpoint_is_not_gone_on_with_by_training_something_else(
    tmp_path: Path, base: Path, began: Lora | None, goes_on: Lora | None
) -> None:
    async def run() -> None:
        backend, model = await opened(tmp_path, base, lora=began)
        await backend.train(model, made_up(backend, 1), **UPDATE)
        await backend.close()
        with pytest.raises(ArenaError, match="trained other tensors|adapter_model") as caught:
            await opened(tmp_path, base, lora=goes_on)
        assert "0001" in str(caught.value)
        if began:
            with pytest.raises(ArenaError, match="trains an adapter of rank 2"):
                await opened(tmp_path, base, lora=Lora(2, 16.0))

    asyncio.run(run())


@pytest.mark.parametrize("name", [OPTIMIZER, "model.safetensors"])
@pytest.mark.parametrize("content", [b"", b"not a tensor in it", None])
def test_a_broken_checkpoint_is_named(
    tmp_path: Path, base: Path, name: str, content: bytes | None
) -> None:
    async def run() -> None:
        backend, model = await opened(tmp_path, base)
        await backend.train(model, made_up(backend, 1), **UPDATE)
        await backend.close()
        path = backend.checkpoint(1) / name
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(ArenaError, match=rf"0001 cannot be read: {name}.*--fresh"):
            await opened(tmp_path, base)

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
    groups[0].trajectories[0].reward = math.inf
    return groups


def test_old_weights_are_forgotten_but_found_again(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainers.hosts.embedded_backend.SERVED_BYTES", 0)  # Room for two.

    async def run() -> None:
        backend, model = await opened(tmp_path, base)
        answers = [await answer(backend, model, 0)]
        for step in range(1, 5):
            await backend.train(model, made_up(backend, step, groups=1), **UPDATE)
            answers.append(await answer(backend, model, step))
        assert sorted(backend.sampler.adapters) == ["m@3", "m@4"]
        assert await answer(backend, model, 1) == answers[1]
        assert await answer(backend, model, 0) == answers[0]
        await backend._delete_checkpoint_files(model, [2])
        assert backend.steps() == [2, 4] and "m@1" not in backend.sampler.adapters
        with pytest.raises(UsageError, match=r"step 3 is not kept; found \[2, 4\]"):
            backend._model_inference_name(model, 3)
        assert await answer(backend, model, 2) == answers[2]
        await backend.close()

    asyncio.run(run())


def test_the_penalty_is_on_the_divergence_from_the_reference_step(
    tmp_path: Path, base: Path
) -> None:
    async def run() -> None:
        backend, model = await opened(tmp_path, base)
        penalised = UPDATE | {"kl_penalty_coef": 1.0, "minibatches": 1}
        first = await backend.train(model, made_up(backend, 1), **penalised)
        assert first.metrics["kl_reference"] == 0.0
        second = await backend.train(model, made_up(backend, 1), **penalised)
        assert second.metrics["kl_reference"] != 0.0
        newest = await backend.train(
            model, made_up(backend, 1), kl_penalty_reference_step=2, **penalised
        )
        assert newest.metrics["kl_reference"] == 0.0
        with pytest.raises(UsageError, match="step 9 is not kept"):
            await backend.train(model, [], kl_penalty_reference_step=9, **penalised)
        nothing = await backend.train(model, [], **UPDATE)
        assert nothing.step == 4 and nothing.metrics["tokens_trained"] == 0
        await backend.close()

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
        backend, model = await opened(tmp_path / "one", wild, lora=lora)
        await backend.train(model, made_up(backend, 1), **options)
        await backend.close()
        backend, model = await opened(tmp_path / "one", wild, lora=lora)
        ours = backend.checkpoint(1)
        assert read_model_config(ours)["dtype"] == "float32"
        assert next(AutoModelForCausalLM.from_pretrained(ours).parameters()).dtype == torch.float32
        await backend.close()
        backend, model = await opened(tmp_path / "two", ours, lora=lora)
        assert same(backend._learner.state(), load_file(ours / "model.safetensors"))
        assert not backend._learner._moments()
        await backend.close()

    asyncio.run(run())
