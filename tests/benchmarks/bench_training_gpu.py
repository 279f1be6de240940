"""The embedded host on CUDA: decoding and training of random Qwen3-0.6B and Qwen3-1.7B shapes.

Bounds are measured on the same device. Decoding 32 answers at once reads all weights for every
token of each, so it is bound by memory; training by products of matrices. The learner computes in
float32; the same update under torch's autocast shows what bfloat16 would give.

    pytest tests/benchmarks/bench_training_gpu.py -m gpu -s
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch
from tiny_model import build_tiny_model

from backends.embedded.sampler import Sampler, SamplingParams
from trainers.algorithms.batching import minibatches
from trainers.algorithms.learner import Learner, UpdateOptions
from trainers.algorithms.sequences import TokenSequence

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]

VOCABULARY = 151_936
ANSWERS, PROMPT, NEW = 32, 512, 256
GAMES, LENGTH, BATCH = 16, 1024, 8192
SHAPES = {"Qwen3-0.6B": (1024, 3072), "Qwen3-1.7B": (2048, 6144)}
"""Width, and width of the feed-forward layers; the rest is the same."""


@pytest.fixture(scope="module", params=SHAPES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shape of the model; weights as small as at its own initialisation."""
    width, inner = SHAPES[request.param]
    return build_tiny_model(
        tmp_path_factory.mktemp("checkpoint") / request.param,
        layers=28, width=width, inner=inner, heads=16, kv_heads=8, head_dim=128,
        vocabulary=VOCABULARY, spread=0.02,
    )  # fmt: skip


def ids(count: int, rng: random.Random) -> list[int]:
    return [rng.randrange(3, VOCABULARY) for _ in range(count)]


def show(capsys: pytest.CaptureFixture[str], folder: Path, line: str, peak: int) -> None:
    device = torch.cuda.get_device_name()
    with capsys.disabled():
        print(f"\n{device}, {folder.name}: {line}; {peak / 1e9:.1f} GB at most")


def test_decoding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.cuda.reset_peak_memory_stats()
    rate = asyncio.run(decoding_rate(folder, "cuda"))
    peak = torch.cuda.max_memory_allocated()  # Before the bound is measured.
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    bound = ANSWERS * copy_rate("cuda") / weights
    share = f"{rate / bound:.1%} of what reading the weights allows"
    show(capsys, folder, f"decoding {rate:,.0f} tokens/s, {ANSWERS} at once, {share}", peak)
    assert 0 < rate <= bound


async def decoding_rate(folder: Path, device: str) -> float:
    """Tokens per second from when all answers have begun until the first one ends."""
    sampler = Sampler(folder, device=device, context_length=PROMPT + NEW, slots=ANSWERS)
    rng = random.Random(0)
    begun: list[float] = []
    ended: list[float] = []
    drawn: list[float] = []

    async def answer(seed: int) -> None:
        times = []
        draw = SamplingParams(seed=seed, max_tokens=NEW)
        async for _ in sampler.generate(ids(PROMPT, rng), draw):
            times.append(time.perf_counter())
        begun.append(times[0])
        ended.append(times[-1])
        drawn.extend(times)

    await answer(ANSWERS)  # To warm up.
    for times in (begun, ended, drawn):
        times.clear()
    await asyncio.gather(*(answer(seed) for seed in range(ANSWERS)))
    await sampler.close()
    first, last = max(begun), min(ended)
    assert first < last, "an answer ended before all had begun"
    return sum(first < at <= last for at in drawn) / (last - first)


# Norms have float32 weights; torch warns that it cannot fuse them under autocast.
@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_training(folder: Path, dtype: torch.dtype, capsys: pytest.CaptureFixture[str]) -> None:
    torch.cuda.reset_peak_memory_stats()
    learner = Learner(folder, "cuda")
    games = list(made_up_games())
    options = UpdateOptions(minibatches=2, tokens_per_batch=BATCH)
    with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        learner.update(games[:4], options)  # To warm up.
        seconds = timed(lambda: learner.update(games, options))
    peak = torch.cuda.max_memory_allocated()
    batches = minibatches(games, 2, BATCH, 0.0, "0")
    tokens = sum(len(batch.packed.tokens) for part in batches for batch in part)
    # 6 operations for each weight and token. Rows of the embedding are looked up, not multiplied;
    # the head, which is the same matrix, multiplies the trained tokens only.
    trained = sum(len(batch.targets) for part in batches for batch in part)
    head = VOCABULARY * learner.architecture.width
    body = sum(tensor.numel() for tensor in learner.weights().values()) - head
    operations = 6 * (body * tokens + head * trained)
    share = operations / seconds / product_rate("cuda", dtype)
    text = f"training {tokens / seconds:,.0f} tokens/s in {dtype}"
    show(capsys, folder, f"{text}, {share:.1%} of the rate of products of matrices", peak)
    assert 0 < share <= 1


def made_up_games() -> Iterator[TokenSequence]:
    """Chats in which 4 tokens of every 64 were sampled, none of which share a beginning."""
    rng = random.Random(0)
    for number in range(GAMES):
        game = TokenSequence(number, number // 4, weight=1.0)
        advantage = rng.choice([-1.0, 1.0])
        game.index = number
        game.ids = ids(LENGTH, rng)
        game.sampled_positions = [place for place in range(64, LENGTH) if place % 64 >= 60]
        game.sampled_logprobs = [-12.0] * len(game.sampled_positions)
        game.advantages = [advantage] * len(game.sampled_positions)
        yield game


def copy_rate(device: str, size: int = 2**30) -> float:
    """Bytes per second that go in and out of memory."""
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / timed(lambda: target.copy_(source))


def product_rate(device: str, dtype: torch.dtype, size: int = 8192) -> float:
    """Floating-point operations per second."""
    one, other = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / timed(lambda: one @ other)


def timed(run: Callable[[], object], tries: int = 3) -> float:
    """The best of some tries, each until the device has finished."""
    seconds = []
    for _ in range(tries):
        started = time.perf_counter()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return min(seconds)
