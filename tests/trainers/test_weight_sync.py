"""The modes of --weight-sync with servers that the run starts itself: `arena serve` processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
torch = pytest.importorskip("torch")
pytest.importorskip("uvicorn")
if find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

from preloaded import arena_command  # noqa: E402
from test_adapter_server import ASK, Table, adapters, answered_by, play, train  # noqa: E402
from tiny_model import build_tiny_model  # noqa: E402

from arena.core.errors import StopPlaying  # noqa: E402
from trainers.hosts.embedded import EmbeddedHost  # noqa: E402
from trainers.weight_sync import model_server  # noqa: E402
from trainers.weight_sync.server_bridge import ServerBridge  # noqa: E402
from trainers.weight_sync.server_process import ServerProcess  # noqa: E402

Steps = Callable[[EmbeddedHost], Awaitable[None]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", layers=2, width=64)


@pytest.fixture(autouse=True)
def preloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's own `arena serve` starts without its seconds of imports."""
    monkeypatch.setattr(model_server, "ARENA", arena_command())


@dataclass(frozen=True)
class Owner:
    """Runs hosts that start their own server in one mode."""

    table: Table
    mode: str

    def run(self, do: Steps, step: int = 0, **more: Any) -> None:
        self.table.run("arena", do, step, weight_sync=self.mode, **more)


def server_process(host: EmbeddedHost) -> ServerProcess:
    assert isinstance(host.bridge, ServerBridge)
    assert host.bridge.server.own is not None
    return host.bridge.server.own.process


def own_process(host: EmbeddedHost) -> int:
    process = server_process(host)
    assert process.is_running() and process._process is not None
    return process._process.pid


async def kill(host: EmbeddedHost) -> None:
    """Kill the server of the run, and wait until nothing listens at its port."""
    port = server_process(host).port
    os.killpg(own_process(host), signal.SIGKILL)
    # What is killed is the stand-in of `preloaded`; the server itself ends a moment later. A
    # connection that waits at the port while it closes is reset, any later one is refused.
    with suppress(ConnectionRefusedError, ConnectionResetError):
        while True:
            socket.create_connection(("127.0.0.1", port)).close()
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("mode", ["lora_restart", "none"])
def test_every_second_step_restarts_the_server_with_the_newest_weights(
    mode: str, model: Path, tmp_path: Path
) -> None:
    owner = Owner(Table(tmp_path, model), mode)
    processes = []

    async def three_steps(host: EmbeddedHost) -> None:
        processes.append(own_process(host))
        await answered_by(host, None, 0)
        metrics = await train(host)
        # Step 1 is not transferred: the base model goes on playing, and says so.
        assert "swap_difference" not in metrics
        assert own_process(host) == processes[0]
        await answered_by(host, None, 0)
        await answered_by(host, 1, 1)
        metrics = await train(host)
        assert metrics["swap_difference"] < 1e-4
        assert metrics["swap_moved"] > 1e-2
        processes.append(own_process(host))
        assert processes[0] != processes[1]
        await answered_by(host, None, 2)
        await answered_by(host, 0, 0)
        await train(host)
        assert host.trainer.step == 3 and (await host.policy().complete(ASK)).policy_version == 2

    owner.run(three_steps, sync_every=2)

    async def resumed(host: EmbeddedHost) -> None:
        """The run goes on with the weights that played, not with the newest ones."""
        await answered_by(host, None, 2)

    if mode == "none":
        owner.run(resumed, step=3, sync_every=2)


def test_a_failed_transfer_stops_the_run_and_the_step_is_repeated(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner(Table(tmp_path, model), "none")

    async def fails(host: EmbeddedHost) -> None:
        broken = (sys.executable, "-c", "raise SystemExit('no space left')", "--")
        with monkeypatch.context() as patch:
            patch.setattr(model_server, "ARENA", broken)
            with pytest.raises(StopPlaying, match="--server arena did not start: no space left"):
                await train(host)
        # The checkpoint of the step exists, but the run has not recorded it.
        assert host.trainer.steps() == [1]

    async def repeated(host: EmbeddedHost) -> None:
        assert host.trainer.steps() == []
        await answered_by(host, None, 0)
        await train(host)
        await answered_by(host, None, 1)

    owner.run(fails)
    owner.run(repeated)


def test_a_server_that_ends_stops_the_run_and_the_same_command_resumes(
    model: Path, tmp_path: Path
) -> None:
    owner = Owner(Table(tmp_path, model), "lora_only")

    async def ends(host: EmbeddedHost) -> None:
        await train(host)
        groups = await play(host)
        await kill(host)
        with pytest.raises(StopPlaying, match="nothing answers at .* the same command again"):
            await host.train(groups, 0)

    async def resumed(host: EmbeddedHost) -> None:
        url = f"http://127.0.0.1:{server_process(host).port}"
        assert adapters(url) == {"away@1"}
        await answered_by(host, None, 1)

    owner.run(ends)
    owner.run(resumed, step=1)
