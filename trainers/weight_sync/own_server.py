"""The model server that a run starts itself: `--server vllm` and `--server arena`."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx

from arena.core.errors import UsageError
from backends.embedded import DEFAULT_CHECKPOINT, find_checkpoint
from trainers.config.config import DEFAULT_LORA_RANK, FULL_WEIGHTS, TrainConfig
from trainers.hosts.host import HostRequest
from trainers.weight_sync.server_process import HOST, ServerProcess

LORA_RANKS = (16, 32, 64, 128, 256, 512)
"""The ranks for which vLLM can reserve memory."""
ARENA = (sys.executable, "-m", "arena")
VLLM = ("-m", "vllm.entrypoints.openai.api_server")
PLUGIN = Path(__file__).with_name("vllm_plugin")
"""Folder for vLLM's PYTHONPATH: a module, and the metadata that registers it as a plugin."""
SHARED_WEIGHTS = json.dumps({"backend": "arena_shared"})
"""Value of vLLM's --weight-transfer-config that uses the plugin."""
CHECK_SECONDS = 60.0
LOOK_FOR_VLLM = """
import importlib.util, sys
sys.exit(None if importlib.util.find_spec("vllm") else "vllm is not installed there")
"""
"""Program of the interpreter with vLLM; does not import vLLM, which takes ten seconds."""


@dataclass(frozen=True, slots=True)
class OwnServer:
    """A server that the run starts, and how to start it with given weights."""

    config: TrainConfig
    process: ServerProcess
    """Process of the server. Its calls block for seconds."""
    adapters: Path
    """Folder from which the server may load adapters."""
    device: str
    context: int
    """Tokens of the longest chat."""

    def restart(self, model: Path) -> None:
        """Serve the checkpoint in this folder. Raises as ServerProcess does."""
        if self.config.server == "arena":
            self.adapters.mkdir(parents=True, exist_ok=True)
            self.process.restart(self._arena_command(model))
            return
        from trainers.algorithms.checkpoint_files import merge_checkpoint  # Imports torch.

        merge_checkpoint(model)  # vLLM starts with whole weights only.
        self.process.restart(self._vllm_command(model), vllm_variables(self.config))

    def _arena_command(self, model: Path) -> list[str]:
        return [
            *ARENA, "serve", f"{model}", "--host", HOST, "--port", f"{self.process.port}",
            "--lora-root", f"{self.adapters}", "--context", f"{self.context}",
            "--device", self.device, "--threads", f"{self.config.threads}",
            "--drain-seconds", "5", *shlex.split(self.config.vllm_args),
        ]  # fmt: skip

    def _vllm_command(self, model: Path) -> list[str]:
        config = self.config
        options = [
            "--model", f"{model}", "--host", HOST, "--port", f"{self.process.port}",
            "--max-model-len", f"{self.context}",
        ]  # fmt: skip
        if config.weight_sync not in FULL_WEIGHTS:
            # Two: the newest adapter, and one other in the same batch.
            options += ["--enable-lora", "--max-loras", "2"]
            options += ["--max-lora-rank", f"{served_rank(config.trained_rank)}"]
        if config.weight_sync == "shared_vllm":
            options += ["--weight-transfer-config", SHARED_WEIGHTS]
        if self.device == "cpu":
            # Compiling takes a minute and gains nothing there.
            options += ["--dtype", "float32", "--enforce-eager"]
        # The user's arguments are last: vLLM takes the last value of a flag.
        return [vllm_python(config), *VLLM, *options, *shlex.split(config.vllm_args)]


def vllm_variables(config: TrainConfig) -> dict[str, str]:
    """Return the environment variables that vLLM needs for this mode, and to stay offline."""
    variables = {
        "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
        # In place of ours, whose packages may not fit its Python.
        "PYTHONPATH": "",
    }  # fmt: skip
    if config.weight_sync == "shared_vllm":
        # The routes that pause vLLM and change its weights; it listens on this machine only.
        variables |= {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": f"{PLUGIN}"}
    return variables


def vllm_python(config: TrainConfig) -> str:
    """Return the interpreter that runs vLLM."""
    return config.vllm_python or sys.executable


def served_rank(rank: int) -> int:
    """Return the smallest rank that vLLM can reserve memory for, and that holds this one."""
    return next(served for served in (DEFAULT_LORA_RANK, *LORA_RANKS) if rank <= served)


def check_own_server(config: TrainConfig) -> None:
    """Raise UsageError unless the server's program is installed."""
    if config.server != "vllm":
        return
    python = vllm_python(config)
    try:
        done = subprocess.run(
            [python, "-c", LOOK_FOR_VLLM],
            check=False, capture_output=True, text=True, timeout=CHECK_SECONDS,
        )  # fmt: skip
        problem = done.stderr.strip().rpartition("\n")[2]
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = f"{error}"
    if problem:
        raise UsageError(
            f"--server vllm: {python}: {problem}; name the interpreter of an environment with vLLM "
            "by vllm_python"
        )


def start_hint(request: HostRequest, url: str) -> str:
    """Return the commands that start a suitable server, for one line of an error message."""
    config, address = request.config, httpx.URL(url)
    port = address.port or {"http": 80, "https": 443}[address.scheme]
    folder, vllm = find_checkpoint(config.base_model), f"python {' '.join(VLLM)}"
    if config.weight_sync == "shared_vllm":
        return (
            f"start one with `VLLM_SERVER_DEV_MODE=1 PYTHONPATH={PLUGIN} {vllm} --model {folder} "
            f"--weight-transfer-config '{SHARED_WEIGHTS}' --port {port}`"
        )
    return (
        f"start one with `arena serve {config.base_model or DEFAULT_CHECKPOINT} --port {port}` or "
        f"`VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 {vllm} --model {folder} --dtype float32 "
        f"--enable-lora --max-lora-rank {served_rank(config.trained_rank)} --port {port}`"
    )
