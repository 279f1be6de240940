"""The modes of --weight-sync on vLLM itself (`make test-vllm`)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

from scripted_table import quick  # noqa: E402
from small_runs import Notes, rows_of  # noqa: E402
from test_adapter_server import ASK, Table, answered_by, train  # noqa: E402
from tiny_model import build_tiny_model  # noqa: E402

from arena.core.errors import BackendError  # noqa: E402
from trainers.config.config import TrainConfig  # noqa: E402
from trainers.hosts.embedded import EmbeddedHost  # noqa: E402
from trainers.loop import grpo  # noqa: E402
from trainers.weight_sync.shared_vllm import SharedVLLM  # noqa: E402

PYTHON = os.environ.get("ARENA_VLLM_PYTHON", "")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not PYTHON, reason="ARENA_VLLM_PYTHON is not set"),
]
NORM = "model.norm.weight"


@pytest.mark.parametrize("mode", ["shared_vllm", "lora_only", "lora_restart", "none"])
def test_clue_tiny_trains_for_three_steps(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The modes that restart vLLM do so after step 2; step 3 is played by the weights of step 2.
    every = 2 if mode in ("lora_restart", "none") else 1
    values: dict[str, Any] = {"options": {"players": 3}, "text_level": "deductions"}
    values |= {"groups_per_step": 2, "rollouts_per_group": 4}
    values |= {"eval_every": 0, "final_eval_games": 0, "steps": 3}
    config = TrainConfig(
        game="cluedo", trainer_host="embedded", server="vllm", vllm_python=PYTHON,
        **values | {"weight_sync": mode, "sync_every": every},
    )  # fmt: skip
    folder = tmp_path / "run"
    view = Notes()
    started = time.perf_counter()
    done = grpo.train(config, folder=folder, view=view, settings=quick(patience=60))
    assert asyncio.run(done).step == 3, view.said
    whole = time.perf_counter() - started
    updates = [row.update for row in rows_of(folder)[1:]]
    synced = [update for update in updates if "swap_difference" in update]
    assert len(synced) == 3 // every
    assert all(update["swap_difference"] < 1e-5 for update in synced)
    assert any(update["swap_moved"] > 0 for update in synced)
    if every == 2:
        assert [update["staleness"] for update in updates] == [0, 1, 0]
    with capsys.disabled():
        times = ", ".join(f"{update['seconds_swapping']:.2f}" for update in synced)
        print(f"\n{mode}: {times} s per update, {whole:.0f} s in all; clue-tiny")
        print(f"{mode}: differences {[update['swap_difference'] for update in synced]}")


def test_the_optimizer_writes_into_vllms_memory(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # Heads of 64: vLLM's attention on a CPU takes no narrower ones.
    folder = tmp_path_factory.mktemp("models") / "tiny"
    model = build_tiny_model(folder, layers=2, width=128, heads=2, kv_heads=1, head_dim=64)

    async def in_place(host: EmbeddedHost) -> None:
        bridge = host.bridge
        assert isinstance(bridge, SharedVLLM)
        await answered_by(host, None, 0)
        # One copy: the trained tensors lie in the files that vLLM has mapped.
        trained = host.trainer.learner.trained
        for name, view in bridge._views.items():
            assert trained[name].data_ptr() == view.data_ptr()
        size = sum(view.nbytes for view in bridge._views.values())
        own = bridge.server.own
        assert own is not None
        assert own.process._process is not None
        group = own.process._process.pid
        assert shared_bytes(os.getpid()) >= size
        assert max(shared_bytes(pid) for pid in processes_of(group)) >= size
        # vLLM's next answer depends on what is written here, without any transfer.
        assert await distance_to_base(bridge) < 1e-5
        with torch.no_grad():
            trained[NORM].mul_(0.5)
            assert await distance_to_base(bridge) > 1e-2
            trained[NORM].mul_(2.0)
        assert await distance_to_base(bridge) < 1e-5
        metrics = await train(host)
        assert metrics["swap_difference"] < 1e-4
        assert metrics["swap_moved"] > 1e-2
        await answered_by(host, None, 1)
        await answered_by(host, 0, 0)
        # A dead vLLM is an error that names its address; the run ends.
        os.killpg(group, signal.SIGKILL)
        while own.process.is_running():
            await asyncio.sleep(0.05)
        with pytest.raises(BackendError, match=rf"{bridge.server.url} "):
            await host.policy(None).complete(ASK)

    options: dict[str, Any] = {"weight_sync": "shared_vllm", "vllm_python": PYTHON}
    Table(tmp_path, model).run("vllm", in_place, **options)


async def distance_to_base(bridge: SharedVLLM) -> float:
    """Nats between vLLM's greedy reply and the base model's probabilities for it."""
    await bridge._call("reset_prefix_cache")
    reply = await bridge.proof.request(bridge.base_name)
    return await bridge.proof.difference(reply, 0)


def processes_of(group: int) -> list[int]:
    """The processes of a group that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            # After the name, which may hold spaces: state, parent, process group.
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                found.append(int(path.parent.name))
    return found


def shared_bytes(pid: int) -> int:
    """Bytes of shared weights that a process has mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    spans = [line.split()[0].split("-") for line in lines if "/arena-weights-" in line]
    return sum(int(end, 16) - int(start, 16) for start, end in spans)


def test_a_killed_run_ends_its_server_and_resumes(tmp_path: Path) -> None:
    flags = (
        f"--server vllm --set vllm_python={PYTHON} --weight-sync shared_vllm "
        "--text-level deductions --players 3 --groups-per-step 2 --rollouts-per-group 4 "
        "--eval-every 0 --final-eval-games 0 "
        "--steps 3 --experiment-name killed --trainer-host embedded"
    )
    command = [sys.executable, "-m", "arena", "train", "cluedo", *flags.split()]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    metrics = tmp_path / "runs/train/killed/metrics.jsonl"
    first = subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True)
    # Record 0 is the starting policy.
    while not metrics.exists() or len(metrics.read_text().splitlines()) < 2:
        assert first.poll() is None, "the run has ended"
        time.sleep(0.05)
    # All threads' children: the server was started in a thread.
    lists = Path(f"/proc/{first.pid}/task").glob("*/children")
    children = [int(pid) for path in lists for pid in path.read_text().split()]
    (server,) = [pid for pid in children if b"process_guard" in command_of(pid)]
    first.kill()
    first.wait()
    deadline = time.monotonic() + 40
    while processes_of(server):
        assert time.monotonic() < deadline, "vLLM still runs"
        time.sleep(0.1)
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0
    steps = [row.step for row in rows_of(metrics.parent)]
    assert steps == [0, 1, 2, 3]


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
