"""Environment, trainer and model server as commands, with a stock `run-api` (`make test-atropos`).

With vLLM as the model server: `make test-vllm`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("httpx")
pytest.importorskip("torch")
if find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

from command_line import started
from trajectory_servers import STOCK, queue_api, stock_api

from trainers.runs.records import RunFiles, read_records
from trainers.weight_sync.server_process import free_port

PATIENCE = 900
"""Seconds; vLLM starts anew for each transfer in two of the modes."""
VLLM = os.environ.get("ARENA_VLLM_PYTHON", "")
GAMES = (
    "cluedo --players 3 --text-level deductions --env.group_size 4 "
    "--env.max_token_length 4096 --env.total_steps -1"
)
UPDATE = (
    "--model-name clue-tiny --batch-size 4 --gradient-accumulation-steps 2 --training-steps 3 "
    "--lr 1e-3 --save-path . --experiment-name run --json"
)


@contextmanager
def environment(api: str, port: int, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """`arena atropos serve`, which gets SIGTERM at the end if it still runs."""
    urls = f"--rollout-server-url {api} --openai.base_url http://127.0.0.1:{port}/v1"
    process = started(f"atropos serve {GAMES} {urls}", folder)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def check_training(api: str, bridge: str, folder: Path) -> None:
    """Train for three steps; the games of the third are those of newer weights."""
    port = free_port(0)
    with environment(api, port, folder) as games:
        command = f"atropos train {UPDATE} --atropos-url {api} --vllm-port {port} {bridge}"
        trainer = started(command, folder)
        try:
            out, error = trainer.communicate(timeout=PATIENCE)
        finally:
            trainer.terminate()
        assert trainer.returncode == 0, error
        # The environment ends with the trainer's last batch.
        _, error = games.communicate(timeout=60)
        assert games.returncode == 0, error
    assert json.loads(out.splitlines()[-1])["step"] == 3
    records = read_records(RunFiles(folder / "run").metrics)
    assert [record.step for record in records] == [1, 2, 3]
    assert records[0].update["kl"] < 1e-4
    assert all(record.update["swap_difference"] < 1e-3 for record in records)
    assert any(record.update["swap_moved"] > 0 for record in records)
    assert all(record.groups.refused == 0 for record in records)


@pytest.mark.atropos
@pytest.mark.skipif(STOCK not in os.environ, reason=f"{STOCK} is not set")
@pytest.mark.parametrize("mode", ["lora_only", "none"])
def test_with_run_api_and_arena_serve(mode: str, tmp_path: Path) -> None:
    with stock_api() as api:
        check_training(api, f"--server arena --weight-bridge-mode {mode}", tmp_path)


@pytest.mark.vllm
@pytest.mark.skipif(not VLLM, reason="ARENA_VLLM_PYTHON is not set")
@pytest.mark.parametrize("mode", ["shared_vllm", "lora_only", "lora_restart", "none"])
def test_with_vllm(mode: str, tmp_path: Path) -> None:
    with queue_api() as api:
        bridge = f"--server vllm --vllm-python {VLLM} --weight-bridge-mode {mode}"
        check_training(api, bridge, tmp_path)
