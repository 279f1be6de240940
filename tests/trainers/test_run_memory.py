"""The memory of a run, and the first line about it."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import psutil
import pytest

from arena.cli.train import roles_in_words
from trainers.algorithms import learner as heap
from trainers.config.config import TrainConfig


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
