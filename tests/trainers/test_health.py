"""The health monitor: real memory, a real disk, and thresholds low enough."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from trainers.loop import metrics as health
from trainers.loop.metrics import Health


def watch(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    notify: Callable[[str], None] = print,
    **limits: float,
) -> Health:
    """A monitor that warns of nothing but what `limits` make it warn of."""
    quiet = {"MOST_MEMORY": 1.0, "LEAST_DISK": 0.0}
    for name, limit in {**quiet, **limits}.items():
        monkeypatch.setattr(health, name, limit)
    return Health(notify, folder)


def test_a_warning_comes_once_until_its_cause_has_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = watch(monkeypatch, tmp_path)
    assert monitor.check() == []
    monkeypatch.setattr(health, "LEAST_DISK", 1e18)
    (wanted,) = monitor.check()
    assert monitor.check() == []
    monkeypatch.setattr(health, "LEAST_DISK", 0.0)
    assert monitor.check() == []
    assert monitor.take_warnings() == (wanted,)
    assert monitor.take_warnings() == ()
    monkeypatch.setattr(health, "LEAST_DISK", 1e18)
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
    monitor = watch(monkeypatch, tmp_path, said.append, EVERY=0.02, LEAST_DISK=1e18)

    async def beside() -> None:
        task = asyncio.create_task(monitor.run())
        while len(said) < 1:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(beside(), 60))
    assert len(said) == 1 and said[0].startswith("only ")
    assert monitor.take_warnings() == tuple(said)
