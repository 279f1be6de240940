"""Figures of training runs: numbers for people, and the parts of a step's time."""

from __future__ import annotations

import math

from arena.core.text import clock, short_count
from trainers.runs.charts import sampling_rate, time_split
from trainers.runs.records import StepRecord

NAN = math.nan


def test_numbers() -> None:
    assert [clock(s) for s in (-1, 7, 760, 11100)] == ["0:00", "0:07", "12:40", "3:05:00"]
    assert [short_count(n) for n in (None, 812, 999.6, 4120, 1.2e6)] == ["–", "812", "1k", "4.12k",
                                                                      "1.2M"]  # fmt: skip


def test_the_time_split_adds_up_and_keeps_the_phases() -> None:
    record = StepRecord(
        step=1,
        config_hash="",
        seconds=10,
        time={"rollouts": 5, "rewards": 1, "update": 3, "packing": 0.5, "saving": NAN},
    )
    split = time_split(record)
    assert split["rollouts"] == 5 and split["rewards"] == 1 and split["other"] == 1
    assert sum(split.values()) == 10
    assert sampling_rate(record) is None, "nothing was sampled"
