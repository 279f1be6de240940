"""The sampler: correct numbers, batch invariance, and reuse of the KV cache."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tiny_model import build_tiny_model
from torch import Tensor
from transformers import Qwen3ForCausalLM

from arena.core.errors import BackendError, ContextOverflow, UsageError
from arena.llm.backend import Message
from backends.embedded.architecture import read_architecture
from backends.embedded.layers import (
    fuse_weights,
    read_state_dict,
    torch_threads,
    update_threads,
)
from backends.embedded.model import TILE_SIZES, batch_invariant_tiles
from backends.embedded.sampler import GeneratedToken, Sampler, SamplingParams
from backends.embedded.token_sampling import IncrementalDetokenizer, log_softmax, sample_token

VOCABULARY = 600
T = TypeVar("T")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(scope="module")
def sampler(folder: Path) -> Iterator[Sampler]:
    shared = Sampler(folder)
    yield shared
    asyncio.run(shared.close())


def tokens(seed: int, count: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(3, 500) for _ in range(count)]


async def sample_all(
    sampler: Sampler, prompt: Sequence[int], params: SamplingParams, adapter: str | None = None
) -> list[GeneratedToken]:
    return [generated async for generated in sampler.generate(prompt, params, adapter)]


def answer(sampler: Sampler, prompt: Sequence[int], params: SamplingParams) -> list[GeneratedToken]:
    return asyncio.run(sample_all(sampler, prompt, params))


async def with_sampler(folder: Path, work: Any, **options: Any) -> Any:
    sampler = Sampler(folder, **options)
    try:
        return await work(sampler)
    finally:
        await sampler.close()


def text_of(generated: Sequence[GeneratedToken]) -> str:
    return "".join(token.text for token in generated)


def bits(generated: Sequence[GeneratedToken]) -> list[tuple[int, float, float]]:
    return [(token.id, token.logprob, token.sampled_logprob) for token in generated]


def reference(folder: Path, ids: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return the log-probabilities after each token, computed by transformers."""
    model = Qwen3ForCausalLM.from_pretrained(folder)
    with torch.inference_mode():
        logits = model(torch.tensor([list(ids)])).logits[0].double()
    return torch.log_softmax(logits, -1).numpy()


# Numbers


def test_chunks_that_attend_together_have_the_same_distributions(tmp_path: Path) -> None:
    """The way of CUDA, on a CPU: several answers and prompts of several lengths in one step."""
    folder = build_tiny_model(tmp_path / "tiny", width=64, heads=6, kv_heads=2, inner=160, seed=3)
    prompts = [tokens(length, length) for length in (1, 16, 17, 90, 133)]
    params = SamplingParams(seed=1, max_tokens=5, temperature=0.0)

    async def generate(sampler: Sampler, is_joined: bool) -> list[list[float]]:
        sampler._batcher.model.joins_attention = is_joined
        jobs = [sample_all(sampler, prompt, params) for prompt in prompts]
        return [[token.logprob for token in found] for found in await asyncio.gather(*jobs)]

    apart, joined = (
        asyncio.run(with_sampler(folder, lambda sampler, way=way: generate(sampler, way)))
        for way in (False, True)
    )
    assert np.abs(np.array(apart) - np.array(joined)).max() < 1e-4


def test_matrices_in_bfloat16_move_probabilities_by_little(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "tiny", width=64, heads=6, kv_heads=2, inner=160, seed=3)
    params = SamplingParams(max_tokens=1, top_logprobs=VOCABULARY)

    async def generate(sampler: Sampler) -> list[float]:
        (first,) = await sample_all(sampler, tokens(5, 90), params)
        return [top.logprob for top in sorted(first.top, key=lambda top: top.id)]

    exact, rounded = (
        asyncio.run(with_sampler(folder, generate, precision=precision))
        for precision in ("float32", "bf16")
    )
    distances = np.abs(np.array(exact) - np.array(rounded))
    # bfloat16 has 8 bits: 0.4 % of numbers of about 1.
    assert 0 < distances.mean() < 0.05


def test_logprobs_are_those_of_the_plain_and_of_the_sampled_distribution(
    folder: Path, sampler: Sampler
) -> None:
    prompt = tokens(7, 80)
    params = SamplingParams(temperature=0.7, top_p=0.8, seed=5, max_tokens=6)
    generated = answer(sampler, prompt, params)
    expected = reference(folder, prompt + [token.id for token in generated])
    for at, token in enumerate(generated):
        plain = expected[len(prompt) - 1 + at]
        chances = np.exp(plain / 0.7)
        chances /= chances.sum()
        order = np.argsort(-chances)
        kept = order[: int(np.searchsorted(np.cumsum(chances[order]), 0.8)) + 1]
        assert token.id in kept
        assert token.logprob == pytest.approx(plain[token.id], abs=1e-4)
        sampled = math.log(chances[token.id] / chances[kept].sum())
        assert token.sampled_logprob == pytest.approx(sampled, abs=1e-3)


def test_temperature_zero_takes_the_most_probable(folder: Path, sampler: Sampler) -> None:
    prompt = tokens(8, 50)
    generated = answer(sampler, prompt, SamplingParams(temperature=0.0, max_tokens=5))
    expected = reference(folder, prompt + [token.id for token in generated])
    ids = [token.id for token in generated]
    assert ids == list(expected[49 : 49 + len(ids)].argmax(-1))
    assert {token.sampled_logprob for token in generated} == {0.0}


def test_tokens_come_as_often_as_their_probability_says() -> None:
    logits = np.array([1.0, 0.0, -1.0, 2.0, -30.0], dtype=np.float32)
    rng = random.Random(0)
    logprobs = log_softmax(logits.astype(np.float64))
    counts = Counter(
        sample_token(logprobs, SamplingParams(), rng.random())[0] for _ in range(20_000)
    )
    expected = 20_000 * np.exp(logits[:4]) / np.exp(logits[:4]).sum()
    chi_square = sum((counts[i] - expected[i]) ** 2 / expected[i] for i in range(4))
    assert chi_square < 16.3  # 3 degrees of freedom, p = 0.001
    assert counts[4] == 0


def test_noise_at_its_ends_never_draws_an_excluded_token() -> None:
    logprobs = log_softmax(np.array([-50.0, 1.0, 1.0, -50.0]))
    for noise in (0.0, math.nextafter(1.0, 0.0)):
        assert sample_token(logprobs, SamplingParams(top_p=0.9), noise)[0] in (1, 2)


# Bits


def test_this_machine_has_tiles_that_agree(folder: Path) -> None:
    weights = fuse_weights(read_state_dict(folder), read_architecture(folder), torch.device("cpu"))
    # Without any, the sampler is as exact and several times slower: worth a look here.
    assert batch_invariant_tiles(weights)


def test_tiles_that_disagree_are_found_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = fuse_weights(read_state_dict(folder), read_architecture(folder), torch.device("cpu"))
    honest = torch.nn.functional.linear

    def by_size(x: Tensor, matrix: Tensor, bias: None) -> Tensor:
        return honest(x, matrix) * (1 + 1e-6 * (len(x) < 32))

    def by_place(x: Tensor, matrix: Tensor, bias: None) -> Tensor:
        return honest(x, matrix) * (1 + 1e-6 * torch.arange(len(x))[:, None])

    monkeypatch.setattr(torch.nn.functional, "linear", by_size)
    assert batch_invariant_tiles(weights) == tuple(size for size in TILE_SIZES if size >= 32)
    monkeypatch.setattr(torch.nn.functional, "linear", by_place)
    assert batch_invariant_tiles(weights) == ()


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_seed_gives_the_same_bits_whatever_else_is_computed(
    folder: Path, threads: int
) -> None:
    prompts = [tokens(n, 20 + 17 * n) for n in range(32)]
    all_params = [SamplingParams(seed=n, max_tokens=3 + n % 5, temperature=1.3) for n in range(32)]

    async def alone(sampler: Sampler) -> list[list[GeneratedToken]]:
        chosen = (3, 17, 30)
        return [await sample_all(sampler, prompts[n], all_params[n]) for n in chosen]

    async def in_a_crowd(sampler: Sampler) -> list[list[GeneratedToken]]:
        # First a crowd, then the same again on a warm cache and from other slots.
        order = random.Random(threads).sample(range(32), 32)
        generated: dict[int, Any] = {}
        for _ in range(2):
            todo = [sample_all(sampler, prompts[n], all_params[n]) for n in order]
            found = dict(zip(order, await asyncio.gather(*todo), strict=True))
            assert not generated or {n: bits(found[n]) for n in found} == generated
            generated = {n: bits(found[n]) for n in found}
            order.reverse()
        warm = found[30][0].cached_tokens
        assert warm == len(prompts[30]) - 1
        return [found[n] for n in (3, 17, 30)]

    first = asyncio.run(with_sampler(folder, alone, threads=1))
    other = asyncio.run(with_sampler(folder, in_a_crowd, threads=threads))
    assert [bits(generated) for generated in first] == [bits(generated) for generated in other]


def test_threads_are_those_that_the_process_may_use(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OMP_NUM_THREADS and the affinity decide what torch may use."""
    probe = (
        "import os, sys; from pathlib import Path\n"
        "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
        "from backends.embedded.sampler import Sampler\n"
        "from backends.embedded.layers import update_threads\n"
        "print(Sampler(Path(sys.argv[1]))._batcher._threads, update_threads(4096))"
    )
    free = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    run = [sys.executable, "-c", probe, str(folder)]
    found = subprocess.run(run, env=free, check=True, capture_output=True, text=True).stdout
    assert found.split() == ["1", "1"]
    with torch_threads(3):
        assert asyncio.run(with_sampler(folder, threads_of)) == 3
    monkeypatch.setattr("backends.embedded.layers.TORCH_THREADS", 3)
    with torch_threads(1):  # As in a thread that starts while a sampler computes.
        assert [update_threads(width) for width in (64, 512, 4096)] == [1, 2, 3]
    with torch_threads(16):
        assert asyncio.run(with_sampler(folder, threads_of)) == 4, "no more help small models"


async def threads_of(sampler: Sampler) -> int:
    return sampler._batcher._threads


@pytest.mark.parametrize("agreeing", [TILE_SIZES, ()])
def test_a_partly_cached_prompt_has_the_bits_of_a_cold_one(
    folder: Path, agreeing: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without batch-invariant tile sizes, where each block is computed separately."""
    monkeypatch.setattr("backends.embedded.sampler.batch_invariant_tiles", lambda weights: agreeing)
    prompt, params = tokens(1, 300), SamplingParams(seed=4, max_tokens=4)

    async def cold(sampler: Sampler) -> list[GeneratedToken]:
        return await sample_all(sampler, prompt, params)

    async def warm(sampler: Sampler) -> list[GeneratedToken]:
        others = [sample_all(sampler, tokens(n, 90 + n), params) for n in range(6)]
        for length in (40, 137, 255):
            await asyncio.gather(
                sample_all(sampler, prompt[:length], SamplingParams(max_tokens=5)), *others
            )
            others = []
        generated = await sample_all(sampler, prompt, params)
        assert generated[0].cached_tokens == 255
        return generated

    expected = asyncio.run(with_sampler(folder, cold))
    assert bits(asyncio.run(with_sampler(folder, warm))) == bits(expected)


# Cache


def test_a_turn_of_a_chat_costs_its_new_tokens_only(folder: Path) -> None:
    async def play(sampler: Sampler) -> None:
        chat: list[int] = []
        known = 0
        for turn in range(4):
            chat += tokens(turn, 60)
            generated = await sample_all(sampler, chat, SamplingParams(seed=turn, max_tokens=4))
            assert generated[0].cached_tokens == known
            known = len(chat)  # The answer itself is computed again, as a part of the prompt.
            chat += [token.id for token in generated]

    asyncio.run(with_sampler(folder, play))


def test_a_common_beginning_is_computed_once_even_by_requests_that_come_together(
    folder: Path,
) -> None:
    async def play(sampler: Sampler) -> None:
        system = tokens(0, 200)
        prompts = [system + tokens(n, 30) for n in range(1, 9)]
        params = SamplingParams(seed=1, max_tokens=2)
        generated = await asyncio.gather(*(sample_all(sampler, each, params) for each in prompts))
        cached = sorted(answer[0].cached_tokens for answer in generated)
        assert cached[0] == 0
        assert min(cached[1:]) >= 200
        # Each chat then has a region of its own.
        again = await sample_all(sampler, [*prompts[3], 5], SamplingParams(max_tokens=1))
        assert again[0].cached_tokens == 230

    asyncio.run(with_sampler(folder, play))


def test_more_chats_than_regions_are_still_answered_rightly(folder: Path) -> None:
    async def play(sampler: Sampler) -> None:
        prompts = [tokens(n, 50) for n in range(24)]
        for _ in range(2):
            params = SamplingParams(temperature=0, max_tokens=4)
            todo = [sample_all(sampler, prompt, params) for prompt in prompts]
            generated = await asyncio.gather(*todo)
            texts.append([bits(answer) for answer in generated])

    texts: list[Any] = []
    asyncio.run(with_sampler(folder, play, slots=2, context_length=64))
    asyncio.run(with_sampler(folder, play, context_length=64))
    assert texts[0] == texts[1] == texts[2] == texts[3]


# Guides

WORDS = st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=8, unique=True)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(choices=WORDS, seed=st.integers(0, 2**64))
def test_an_answer_is_one_of_the_choices(sampler: Sampler, choices: list[str], seed: int) -> None:
    generated = answer(
        sampler, tokens(1, 40), SamplingParams(seed=seed, guided_choice=tuple(choices))
    )
    assert text_of(generated) in choices
    assert generated[-1].finish_reason == "stop"
    assert generated[-1].id in sampler.end_ids


def test_choices_report_both_distributions(folder: Path, sampler: Sampler) -> None:
    prompt, choices = tokens(2, 40), ("yes", "no", "nobody")
    generated = answer(sampler, prompt, SamplingParams(seed=3, guided_choice=choices))
    firsts = {sampler.tokenizer.encode(choice)[0] for choice in choices}
    plain = reference(folder, prompt)[-1]
    total = sum(math.exp(plain[i]) for i in firsts)
    assert generated[0].logprob == pytest.approx(plain[generated[0].id], abs=1e-4)
    assert generated[0].sampled_logprob == pytest.approx(
        plain[generated[0].id] - math.log(total), abs=1e-4
    )


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(guided_choice=("",)),
        SamplingParams(temperature=-1.0),
        SamplingParams(temperature=math.nan),
        SamplingParams(top_p=0.0),
        SamplingParams(max_tokens=0),
    ],
)
def test_what_cannot_be_drawn_is_refused(sampler: Sampler, params: SamplingParams) -> None:
    with pytest.raises(UsageError):
        answer(sampler, [5, 6], params)


# Text


def decode(pieces: dict[int, bytes], ids: list[int]) -> str:
    return b"".join(pieces[i] for i in ids).decode("utf-8", "replace")


@given(text=st.text(max_size=40), cuts=st.lists(st.integers(0, 200)))
def test_text_comes_in_whole_characters(text: str, cuts: list[int]) -> None:
    data = text.encode()
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    pieces = {i: data[a:b] for i, (a, b) in enumerate(zip([0, *ends], ends, strict=False))}
    stream = IncrementalDetokenizer(lambda ids: decode(pieces, ids))
    parts = [stream.push(i) for i in pieces]
    if "\ufffd" not in text:
        assert not any("\ufffd" in part for part in parts)
    assert "".join(parts) + stream.flush() == text


@given(text=st.text("ab", max_size=30), stop=st.text("ab", min_size=1, max_size=4))
def test_text_ends_before_the_first_stop_string(text: str, stop: str) -> None:
    stream = IncrementalDetokenizer(lambda ids: "".join(text[i] for i in ids), [stop])
    parts = []
    for i in range(len(text)):
        parts.append(stream.push(i))
        if stream.stopped:
            break
    parts.append(stream.flush())
    assert stream.stopped == (stop in text)
    assert "".join(parts) == text.partition(stop)[0]


@settings(max_examples=60, deadline=None)
@given(contents=st.lists(st.text("ab é.\n<|im_end|>", max_size=12), min_size=1, max_size=4))
def test_a_chat_tokenised_by_parts_is_the_chat_tokenised(
    sampler: Sampler, contents: list[str]
) -> None:
    chat = [Message("user", content) for content in contents]
    as_json = [{"role": message.role, "content": message.content} for message in chat]
    whole = sampler.tokenizer.render(as_json, add_generation_prompt=True)
    assert sampler.chat_tokenizer._separators  # Messages are encoded one by one, and cached.
    ids = sampler.encode(chat)
    assert sampler.tokenizer.decode(ids) == whole
    if not any("<|im_end|>" in content for content in contents):
        assert ids == sampler.tokenizer.encode(whole)


# Limits


def test_max_tokens_and_the_end_of_the_context_finish_by_length(folder: Path) -> None:
    async def play(sampler: Sampler) -> None:
        generated = await sample_all(sampler, tokens(1, 30), SamplingParams(seed=1, max_tokens=7))
        assert len(generated) == 7
        assert generated[-1].finish_reason == "length"
        generated = await sample_all(sampler, tokens(1, 48), SamplingParams(seed=1, max_tokens=50))
        assert len(generated) == 16
        assert generated[-1].finish_reason == "length"
        # A quarter of the context is kept free, or max_tokens if they are fewer.
        for length, most, room in ((49, 50, 16), (61, 4, 4), (64, 1, 1)):
            overflow = rf"{length} tokens and the answer needs {room};.* 64"
            with pytest.raises(ContextOverflow, match=overflow):
                await sample_all(sampler, tokens(1, length), SamplingParams(max_tokens=most))

    asyncio.run(with_sampler(folder, play, context_length=64))


def test_a_full_queue_says_so_and_a_cancelled_request_makes_room(folder: Path) -> None:
    async def play(sampler: Sampler) -> None:
        endless = SamplingParams(max_tokens=100_000, min_tokens=100_000)
        first = sampler.generate(tokens(1, 30), endless)
        await anext(first)
        second = asyncio.create_task(
            sample_all(sampler, tokens(2, 30), SamplingParams(max_tokens=2))
        )
        await asyncio.sleep(0)
        with pytest.raises(BackendError, match="the queue is full") as caught:
            await sample_all(sampler, tokens(3, 30), SamplingParams())
        assert caught.value.retryable
        assert caught.value.retry_after == 1.0
        await first.aclose()
        assert len(await second) == 2
        assert not sampler._batcher.waiting

    asyncio.run(with_sampler(folder, play, slots=1, max_queue=1))


def test_cancelled_requests_leave_no_trace(folder: Path) -> None:
    async def play(sampler: Sampler) -> None:
        expected = bits(
            await sample_all(sampler, tokens(0, 700), SamplingParams(seed=1, max_tokens=3))
        )
        todo = [
            asyncio.create_task(sample_all(sampler, tokens(n, 900), SamplingParams(max_tokens=900)))
            for n in range(12)
        ]
        await asyncio.sleep(0.05)
        for task in todo:
            task.cancel()
        await asyncio.gather(*todo, return_exceptions=True)
        async with asyncio.timeout(60):
            while sampler._batcher.running:
                await asyncio.sleep(0.01)
        assert not sampler._batcher.waiting
        found = await sample_all(sampler, tokens(0, 700), SamplingParams(seed=1, max_tokens=3))
        assert bits(found) == expected

    asyncio.run(with_sampler(folder, play, slots=4))


def test_closing_fails_those_who_wait(folder: Path) -> None:
    async def play() -> None:
        sampler = Sampler(folder, slots=1)
        todo = [
            # With this seed no answer ends by itself in the time that it is given.
            asyncio.create_task(
                sample_all(sampler, tokens(n, 30), SamplingParams(max_tokens=2000, seed=4))
            )
            for n in range(3)
        ]
        await asyncio.sleep(0.05)
        await sampler.close()
        for task in todo:
            with pytest.raises(BackendError, match="stopped"):
                await task
        with pytest.raises(BackendError, match="stopped"):
            await sample_all(sampler, tokens(1, 30), SamplingParams())

    asyncio.run(play())


def test_a_prompt_needs_tokens_of_the_vocabulary(sampler: Sampler) -> None:
    for prompt in ([], [-1], [VOCABULARY]):
        with pytest.raises(UsageError):
            answer(sampler, prompt, SamplingParams())


# Weights


def write_adapter(folder: Path, base: dict[str, Tensor], *, rank: int = 4) -> dict[str, Tensor]:
    """A random adapter in PEFT's format; returns the base's state with it merged."""
    folder.mkdir()
    generator = torch.Generator().manual_seed(1)
    merged = dict(base)
    adapter: dict[str, Tensor] = {}
    for name, weight in base.items():
        if re.search(r"layers\.[02]\..*(q|v|down)_proj", name):
            rows, columns = weight.shape
            up = torch.randn(rows, rank, generator=generator) * 0.1
            down = torch.randn(rank, columns, generator=generator) * 0.1
            stem = "base_model.model." + name.removesuffix(".weight")
            adapter |= {f"{stem}.lora_A.weight": down, f"{stem}.lora_B.weight": up}
            merged[name] = weight + up @ down * (16 / rank)
    assert len(adapter) == 12
    save_file(adapter, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 16}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return merged


def test_an_adapter_adds_its_product_and_is_cached_apart(folder: Path, tmp_path: Path) -> None:
    merged = write_adapter(tmp_path / "lora", load_file(folder / "model.safetensors"))
    prompt, params = tokens(4, 90), SamplingParams(temperature=0.0, max_tokens=4)

    async def play(sampler: Sampler) -> None:
        before = bits(await sample_all(sampler, prompt, params))
        sampler.load_adapter("learner", tmp_path / "lora")
        assert sampler.adapters == ("learner",)
        # Both in one batch, the base's part of the cache being warm.
        plain, adapted = await asyncio.gather(
            sample_all(sampler, prompt, params), sample_all(sampler, prompt, params, "learner")
        )
        assert bits(plain) == before
        assert adapted[0].cached_tokens == 0
        sampler.unload_adapter("learner")
        with pytest.raises(UsageError, match="learner"):
            await sample_all(sampler, prompt, params, "learner")
        with pytest.raises(UsageError, match="learner"):
            sampler.unload_adapter("learner")
        sampler.load_adapter_weights("merged", merged)
        expected = await sample_all(sampler, prompt, params, "merged")
        assert expected[0].cached_tokens == 0
        assert [token.id for token in adapted] == [token.id for token in expected]
        assert [token.logprob for token in adapted] == pytest.approx(
            [token.logprob for token in expected], abs=1e-6
        )
        assert bits(adapted) != before

    asyncio.run(with_sampler(folder, play))


def test_a_request_under_way_keeps_the_weights_it_began_with(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    other = {name: tensor * 1.5 for name, tensor in state.items()}
    prompt, params = tokens(5, 60), SamplingParams(seed=9, max_tokens=40, min_tokens=40)

    async def play(sampler: Sampler) -> None:
        sampler.load_adapter_weights("newest", state)
        expected = bits(await sample_all(sampler, prompt, params, "newest"))
        found = []
        async with aclosing(sampler.generate(prompt, params, "newest")) as stream:
            async for generated in stream:
                found.append(generated)
                if len(found) == 2:
                    sampler.load_adapter_weights("newest", other)
        assert bits(found) == expected
        later = await sample_all(sampler, prompt, params, "newest")
        assert bits(later) != expected and later[0].cached_tokens == 0

    asyncio.run(with_sampler(folder, play))


def test_weights_or_adapters_that_do_not_fit_are_refused(
    folder: Path, tmp_path: Path, sampler: Sampler
) -> None:
    state = load_file(folder / "model.safetensors")
    write_adapter(tmp_path / "lora", state)
    path = tmp_path / "lora" / "adapter_model.safetensors"
    save_file({name: tensor[:, :-1].contiguous() for name, tensor in load_file(path).items()}, path)
    with pytest.raises(UsageError, match="does not fit"):
        sampler.load_adapter("bad", tmp_path / "lora")
    with pytest.raises(UsageError, match="adapter"):
        sampler.load_adapter("bad", tmp_path)
    assert sampler.adapters == ()
    del state["model.norm.weight"]
    with pytest.raises(UsageError, match=r"model\.norm\.weight"):
        sampler.load_adapter_weights("bad", state)
