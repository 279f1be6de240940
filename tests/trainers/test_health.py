"""The health monitor: real processes, real files, a real disk, and thresholds low enough."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from time import time

import pytest

from trainers.config.config import TrainConfig
from trainers.runs import health
from trainers.runs.health import (
    GB,
    Health,
    Readings,
    TemporaryFiles,
    children_by_name,
    free_space,
    seconds_until_full,
    temporary_files,
)

MANY = 10**6
QUIET = {"health_children": MANY, "health_temp_gb": MANY, "health_memory": 1.0}


def watch(
    folder: Path,
    ages: Callable[[], Sequence[float]] = tuple,
    notify: Callable[[str], None] = print,
    **limits: float,
) -> Health:
    """A monitor that warns of nothing but what `limits` make it warn of."""
    config = TrainConfig.model_validate({**QUIET, "health_disk_gb": 0.0, **limits})
    return Health(config, notify, ages, folder)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_child_processes_are_counted_and_a_warning_comes_once_until_it_clears(
    tmp_path: Path, temporary: Path
) -> None:
    del temporary
    already = children_by_name().total()
    monitor = watch(tmp_path, health_children=already)
    assert monitor.check() == []
    for _ in range(2):
        waits = [sys.executable, "-c", "input()"]
        with subprocess.Popen(waits, stdin=subprocess.PIPE) as child:
            (warning,) = monitor.check()
            assert warning.startswith(f"{already + 1} child processes (")
            assert monitor.check() == []
            assert child.stdin is not None
            child.stdin.close()
        assert monitor.check() == [], "it has cleared, so that it may come back"


def test_temporary_files_of_before_and_of_the_run_itself_do_not_count(
    tmp_path: Path, temporary: Path
) -> None:
    run = temporary / "run"
    for folder in (run, temporary / "deep" / "deeper"):
        folder.mkdir(parents=True)
        (folder / "new").write_bytes(b"x" * 300_000)
    old = temporary / "old"
    old.write_bytes(b"x" * 900_000)
    os.utime(old, (1e9, 1e9))
    (temporary / "dangling").symlink_to(tmp_path / "nowhere")
    (temporary / "loop").symlink_to(temporary)
    found = temporary_files(time() - 60, run)
    assert 300_000 <= found.size < 400_000
    assert found.complete


def test_a_monitor_warns_of_temporary_files(tmp_path: Path, temporary: Path) -> None:
    monitor = watch(tmp_path, health_temp_gb=0.001)
    assert monitor.check() == []
    (temporary / "new").write_bytes(b"x" * 1_500_000)
    (warning,) = monitor.check()
    assert warning == f"1.5 MB of files newer than this run in {temporary}"
    (temporary / "new").unlink()
    assert monitor.check() == []


def test_a_scan_is_bounded(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "MOST_FILES", 5)
    for number in range(9):
        (temporary / str(number)).write_bytes(b"x")
    found = temporary_files(time() - 60, temporary / "run")
    assert not found.complete
    assert found.size > 0


def test_stale_games(tmp_path: Path, temporary: Path) -> None:
    del temporary
    ages = [10.0, 20.0]
    monitor = watch(tmp_path, lambda: ages, health_rollout_age=60)
    assert monitor.check() == []
    ages.extend((61.0, 5400.0))
    wanted = "2 games have been running for over 60 seconds, the oldest 90 minutes"
    assert monitor.check() == [wanted]
    del ages[3]
    assert monitor.check() == []
    assert monitor.take_warnings() == (wanted,)
    assert monitor.take_warnings() == ()


def test_memory_and_disk_of_this_machine(tmp_path: Path, temporary: Path) -> None:
    del temporary
    monitor = watch(tmp_path / "not yet", health_memory=1e-6, health_disk_gb=1e9)
    memory, disk = monitor.check()
    assert "% of the memory is in use, " in memory and memory.endswith("B by this process")
    assert disk.startswith("only ") and disk.endswith(f"free on the disk of {tmp_path / 'not yet'}")


def test_a_disk_that_fills_up_is_told_of_before_it_is_full(tmp_path: Path) -> None:
    monitor = watch(tmp_path, health_disk_gb=1.0)
    monitor._free_at_start = 100 * GB

    def told(minutes: float, free: float) -> list[str]:
        return monitor.judge(Readings(60 * minutes, disk_free=free * GB))

    assert told(1, 99) == [], "a small fall is no rate"
    assert told(600, 50) == [], "ten hours from now is no news"
    (warning,) = told(30, 50)
    assert warning == (
        f"the disk of {tmp_path} fills up: 50.0 GB free; full in about 30 minutes at this rate"
    )
    assert told(40, 40) == []
    (warning,) = told(59, 0.9)
    expected = f"only 0.9 GB free on the disk of {tmp_path}; full in about 32 seconds"
    assert warning.startswith(expected)
    assert told(60, 99) == []
    assert told(61, 100 - 1e-9) == []
    assert len(told(30, 50)) == 1, "what has cleared and comes back is told again"


def test_without_a_fall_there_is_no_forecast() -> None:
    assert seconds_until_full(100, 60, 3600) == 5400
    for at_first, now, seconds in [(None, 1, 1), (9, 9, 5), (9, 12, 5), (9, 5, 0), (0, 0, 5)]:
        assert seconds_until_full(at_first, now, seconds) is None


def test_what_cannot_be_measured_is_not_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "vanished"))
    monitor = watch(tmp_path / "vanished")
    assert monitor.check() == []
    assert temporary_files(0, tmp_path) == TemporaryFiles()
    assert free_space(Path("/proc/none/such")) is not None or os.name != "posix"
    silent = watch(tmp_path, health_disk_gb=MANY, health_memory=1e-6, health_children=0)
    assert silent.judge(Readings(60, Counter())) == []


def test_it_runs_beside_a_loop_until_it_is_cancelled(tmp_path: Path, temporary: Path) -> None:
    del temporary
    said: list[str] = []
    monitor = watch(tmp_path, lambda: [99.0], said.append, health_rollout_age=60, health_every=0.02)

    async def beside() -> None:
        task = asyncio.create_task(monitor.run())
        while len(said) < 1:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(beside(), 60))
    assert said == ["1 game has been running for over 60 seconds, the oldest 99 seconds"]
    assert monitor.take_warnings() == tuple(said)
