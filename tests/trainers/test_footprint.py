"""Memory and disk of a run: the estimate beside what a process takes, and refusals."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from tiny_model import build_tiny_model

from arena.core.errors import UsageError
from trainers.algorithms import learner as heap
from trainers.config.config import TrainConfig
from trainers.hosts.selection import Footprint, check_fits, footprint, roles_in_words

MODEL: dict[str, Any] = {
    "layers": 6, "width": 512, "heads": 8, "kv_heads": 2, "head_dim": 64, "inner": 2048,
    "vocabulary": 4_000,
}  # fmt: skip
"""24 million weights: 96 MB."""
SETTINGS: dict[str, dict[str, Any]] = {
    "all weights": {},
    "lora": {"lora_rank": 8},
    "recomputed": {"gradient_checkpointing": True},
}
STEP = """
import asyncio, json, os, random, re, sys
from pathlib import Path
import torch, torch._dynamo
from trainers.algorithms.lora import Lora
from trainers.trajectory import TokenSequence
from trainers.hosts.embedded_trainer import EmbeddedTrainer
from trainers.config.config import UpdateOptions

def step(folder, rank, checkpointing):
    rng = random.Random(0)
    rows = [[rng.randrange(3, 3000) for _ in range(256)] for _ in range(2)]
    sequences = [
        TokenSequence(
            n, n // 2, ids, [*range(50, 200)], [-1.0] * 150, [], 1.0, n, [(-1.0) ** n] * 150
        )
        for n, ids in enumerate(rows)
    ]
    checkpoints = folder.parent / f"checkpoints-{rank}-{checkpointing}"
    lora = Lora(rank, 8.0) if rank else None
    trainer = EmbeddedTrainer(checkpoints, folder, device="cpu", lora=lora)
    settings = UpdateOptions(threads=1, tokens_per_batch=512, gradient_checkpointing=checkpointing)
    asyncio.run(trainer.train_sequences(lambda: sequences, settings))
    disk = sum(path.stat().st_size for path in trainer.checkpoint(1).rglob("*") if path.is_file())
    # Not ru_maxrss: a process inherits the peak of the one that started it.
    status = Path("/proc/self/status").read_text()
    peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) * 1024
    print(json.dumps([peak, disk]), flush=True)

for rank, checkpointing in json.loads(sys.argv[2]):
    # A process for each setting, with its own peak; only the imports are made once.
    child = os.fork()
    if child == 0:
        step(Path(sys.argv[1]), rank, checkpointing)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny", **MODEL)


def configuration(settings: dict[str, Any]) -> TrainConfig:
    return TrainConfig(tokens_per_batch=512, steps=1, **settings)


@pytest.fixture(scope="module")
def steps(folder: Path) -> dict[str, list[int]]:
    """Peak memory and size of the checkpoint of a step, by name of the settings."""
    configs = [configuration(settings) for settings in SETTINGS.values()]
    runs = json.dumps([[config.lora_rank, config.gradient_checkpointing] for config in configs])
    done = subprocess.run([sys.executable, "-c", STEP, f"{folder}", runs], check=False,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip(SETTINGS, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
@pytest.mark.parametrize("name", SETTINGS)
def test_the_estimate_is_near_what_a_step_takes(
    folder: Path, steps: dict[str, list[int]], name: str
) -> None:
    needed = footprint(folder, configuration(SETTINGS[name]))
    measured, disk = steps[name]
    # No game was played, so the cache of keys and values is address space only; and the passes of
    # one step, all of one size, leave no holes.
    unused = ("cache of keys and values", "free, not yet returned")
    expected = needed.memory_bytes - sum(needed.memory[name] for name in unused)
    assert 0.75 < expected / measured < 1.8, (expected, measured, needed)
    # Beside the tokenizer.
    assert disk == pytest.approx(3 * needed.step, abs=3e5)


@pytest.mark.skipif(sys.platform != "linux", reason="a function of glibc")
def test_freed_memory_is_returned_if_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    # Too small for pages of their own, and held from behind by those that stay.
    blocks = [bytearray(b"x" * 60_000) for _ in range(5_000)]
    blocks = blocks[::50]
    resident = [psutil.Process().memory_info().rss]
    for most in (10**9, 10**8):
        monkeypatch.setattr(heap, "FREE_HEAP", most)
        heap.return_free_memory()
        resident.append(psutil.Process().memory_info().rss)
    kept, returned = (before - after for before, after in pairwise(resident))
    assert kept < 2e7 and returned > 2e8 and len(blocks) == 100


def test_what_cannot_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainConfig(device="cpu")
    check_fits(Footprint({"weights": 10**6}, {"checkpoints": 10**5}, 0), config, tmp_path / "run")
    memory = psutil.virtual_memory().total
    large = Footprint({"optimizer": memory, "weights": 10**9}, {}, 0)
    with pytest.raises(UsageError, match=r"this machine has .* part is optimizer .*: try --lora-"):
        check_fits(large, config, tmp_path)
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(UsageError, match=r"checkpoints need about .* are free in .*keep_pool=1"):
        check_fits(Footprint({}, {"checkpoints": 2 * free}, 0), config, tmp_path / "run")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "Games ask this process, which holds the weights and trains them"),
        ({"server": "http://a:1"}, "Games ask http://a:1; weights are trained here and uploaded as "
         "adapter cluedo-default@STEP"),
        ({"server": "vllm", "weight_sync": "shared_vllm"}, "Games ask a server of this run (vllm); "
         "weights are trained here and sent to it whole"),
        ({"trainer_host": "local"}, "Games ask the server of ART's host local"),
    ],
)  # fmt: skip
def test_the_first_line_says_who_answers_and_who_trains(fields: dict[str, Any], words: str) -> None:
    config = TrainConfig(**{"trainer_host": "embedded", **fields})
    assert roles_in_words(config).startswith(words)
