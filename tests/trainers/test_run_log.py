"""What a run keeps on disk: rows, its state, ART's files, and which checkpoints."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.core.errors import UsageError
from arena.core.text import clock, short_count
from trainers.config.config import TrainConfig
from trainers.loop.training import KEPT_POOL, RunLog, kept_steps, pool_steps
from trainers.runs.document import time_split
from trainers.runs.records import RunState, StepRecord, read_records

CONFIG = TrainConfig(game="kuhn_poker", reward="win=1")


def row(step: int) -> StepRecord:
    return StepRecord(step=step, config_hash="0", seconds=step / 3)


def test_what_was_not_finished_is_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    log = RunLog(folder)
    log.start(CONFIG)
    for step in range(3):
        log.append(row(step))
        (folder / "replays" / f"step{step:04}").mkdir(parents=True)
    (folder / "replays" / "before").mkdir()
    log.change(step=1, best_step=1, best_value=0.25)
    with log.files.metrics.open("a") as file:
        file.write('{"step": 3, "conf')
    again = RunLog(folder)
    again.start(CONFIG)
    assert again.state == log.state and again.records == [row(0), row(1)]
    assert read_records(again.files.metrics) == [row(0), row(1)]
    assert len(again.files.metrics.read_text().splitlines()) == 2
    kept = {path.name for path in again.files.replays.iterdir()}
    assert kept == {"step0000", "step0001", "before"}
    assert TrainConfig.model_validate_json(again.files.config.read_text()) == CONFIG


def test_a_state_that_cannot_be_read_is_an_error_and_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{half")
    with pytest.raises(UsageError, match=r"run\.json is broken.*another --exp"):
        RunLog(tmp_path)
    assert (tmp_path / "run.json").read_text() == "{half"


@pytest.mark.parametrize("there", ["metrics.jsonl", "checkpoints/0002/w"])
def test_a_run_whose_state_is_lost_is_not_taken_for_a_new_one(tmp_path: Path, there: str) -> None:
    path = tmp_path / there
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(row(0).model_dump_json() + "\n")
    told = "metrics.jsonl" if there == "metrics.jsonl" else "1 checkpoints"
    with pytest.raises(
        UsageError, match=f"run.json is missing, but there are {told}.*another --exp"
    ):
        RunLog(tmp_path)
    assert path.exists()
    (tmp_path / "metrics.jsonl").write_text("")
    if there != "metrics.jsonl":
        path.unlink()
        path.parent.rmdir()
    assert RunLog(tmp_path).state == RunState(), "a run that was killed at once is a new one"


def test_only_a_broken_last_row_is_forgotten(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.start(CONFIG)
    for step in range(4):
        log.append(row(step))
    log.change(step=3)
    lines = log.files.metrics.read_text().splitlines()
    log.files.metrics.write_text("\n".join([lines[0], lines[1][:9], *lines[2:]]))
    before = log.files.metrics.read_bytes()
    with pytest.raises(UsageError, match=r"metrics\.jsonl, line 2, is not a record"):
        RunLog(tmp_path).start(CONFIG)
    assert log.files.metrics.read_bytes() == before


# Which checkpoints are kept


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_pool_is_small_spread_evenly_and_never_wants_what_is_gone(newest: int, best: int) -> None:
    best, pool = min(best, newest), pool_steps(newest)
    assert KEPT_POOL // 2 < len(pool) <= KEPT_POOL or len(pool) == newest + 1 < KEPT_POOL
    assert len({b - a for a, b in pairwise(pool)}) <= 1
    kept = kept_steps(RunState(step=newest, best_step=best))
    assert {newest, best} <= kept <= {newest, best, *pool}
    later = kept_steps(RunState(step=newest + 1, best_step=best))
    assert later <= kept | {newest + 1}


# Figures


def test_numbers() -> None:
    assert [clock(s) for s in (-1, 7, 760, 11100)] == ["0:00", "0:07", "12:40", "3:05:00"]
    shown = [short_count(n) for n in (None, 812, 999.6, 4120, 1.2e6)]
    assert shown == ["–", "812", "1k", "4.12k", "1.2M"]


def test_the_time_split_adds_up_and_keeps_the_phases() -> None:
    time = {"rollouts": 6, "update": 3, "packing": 0.5, "saving": math.nan}
    record = StepRecord(step=1, config_hash="", seconds=10, time=time)
    split = time_split(record)
    assert split["rollouts"] == 6 and split["other"] == 1
    assert sum(split.values()) == 10
