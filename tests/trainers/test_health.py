"""The health monitor: real memory, a real disk, and thresholds low enough."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from trainers.loop import metrics as health
from trainers.loop.metrics import Health


def watch(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    ages: Callable[[], Sequence[float]] = tuple,
    notify: Callable[[str], None] = print,
    **limits: float,
) -> Health:
    """A monitor that warns of nothing but what `limits` make it warn of."""
    quiet = {"MOST_MEMORY": 1.0, "LEAST_DISK": 0.0, "MOST_SECONDS": 60.0}
    for name, limit in {**quiet, **limits}.items():
        monkeypatch.setattr(health, name, limit)
    return Health(notify, ages, folder)


def test_stale_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ages = [10.0, 20.0]
    monitor = watch(monkeypatch, tmp_path, lambda: ages)
    assert monitor.check() == []
    ages.extend((61.0, 5400.0))
    wanted = "2 games have been running for over 60 seconds, the oldest 90 minutes"
    assert monitor.check() == [wanted]
    assert monitor.check() == [], "a warning comes once until its cause has cleared"
    del ages[2:]
    assert monitor.check() == []
    assert monitor.take_warnings() == (wanted,)
    assert monitor.take_warnings() == ()
    ages.append(99.0)
    assert len(monitor.check()) == 1, "what has cleared and comes back is told again"


def test_memory_and_disk_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = watch(monkeypatch, tmp_path / "not yet", MOST_MEMORY=1e-6, LEAST_DISK=1e18)
    memory, disk = monitor.check()
    assert "% of the memory is in use, " in memory and memory.endswith("B by this process")
    assert disk.startswith("only ") and disk.endswith(f"free on the disk of {tmp_path / 'not yet'}")


def test_it_runs_beside_a_loop_until_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monitor = watch(monkeypatch, tmp_path, lambda: [99.0], said.append, EVERY=0.02)

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
