"""The model server that a run starts itself: `--server vllm` and `--server arena`."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from trainers.config.config import DEFAULT_LORA_RANK, FULL_WEIGHTS, TrainConfig
from trainers.hosts.host import HostRequest
from trainers.weight_sync.server_process import ServerProcess

if TYPE_CHECKING:
    from trainers.weight_sync.ray_servers import PlacedServer

LORA_RANKS = (16, 32, 64, 128, 256, 512)
"""The ranks for which vLLM can reserve memory."""
ARENA = (sys.executable, "-m", "arena")
PLUGIN = Path(__file__).with_name("vllm_plugin")
"""Folder for vLLM's PYTHONPATH: a module, and the metadata that registers it as a plugin."""
KEY_VARIABLES = ("ARENA_API_KEY", "VLLM_API_KEY")
"""Variables in which `arena serve` and vLLM find the key that clients must send."""


@dataclass(frozen=True, slots=True)
class OwnServer:
    """A server that the run starts, and how to start it with given weights."""

    config: TrainConfig
    process: ServerProcess | PlacedServer
    """Process of the server, here or on a node of a cluster. Its calls block for seconds."""
    adapters: Path
    """Folder from which the server may load adapters."""
    device: str
    context: int
    """Tokens of the longest chat."""
    key: SecretStr | None = None
    """API key that the server asks for; None: that of its environment."""

    def restart(self, model: Path) -> float:
        """Serve the checkpoint in this folder; returns seconds. Raises as ServerProcess does."""
        self.process.place()
        keys = dict.fromkeys(KEY_VARIABLES, self.key.get_secret_value()) if self.key else {}
        if self.config.server == "arena":
            self.adapters.mkdir(parents=True, exist_ok=True)
            return self.process.restart(self._arena_command(model), keys)
        from trainers.algorithms.checkpoint_files import merge_checkpoint  # Imports torch.

        merge_checkpoint(model)  # vLLM starts with whole weights only.
        return self.process.restart(vllm_command(self, model), vllm_variables(self.config) | keys)

    def is_running(self) -> bool:
        """Return whether it was started and has not ended; may block for a second."""
        return self.process.running

    def _arena_command(self, model: Path) -> list[str]:
        return [
            *ARENA, "serve", f"{model}", "--host", self.process.host,
            "--port", f"{self.process.port}",
            "--lora-root", f"{self.adapters}", "--context", f"{self.context}",
            "--device", self.device, "--threads", f"{self.config.threads}",
            "--drain-seconds", "5", *shlex.split(self.config.vllm_args),
        ]  # fmt: skip


def own_servers(
    request: HostRequest, adapters: Path, device: str, context: int, key: SecretStr | None
) -> list[OwnServer]:
    """Return the servers of `--server vllm` or `arena`, not started.

    They load adapters from `adapters`; the key is that of servers on other nodes of a cluster.
    Raises UsageError if another program uses a port.
    """
    config = request.config
    name, port = f"--server {config.server}", config.vllm_port
    # The first has the name that it always had.
    logs = [request.folder / f"server{n + 1 if n else ''}.log" for n in range(config.servers)]
    ports = [port + n if port else 0 for n in range(config.servers)]
    if config.places_servers:
        from trainers.weight_sync.ray_servers import ClusterPlacement, PlacedServer

        placement = ClusterPlacement(config.servers, config.address, with_gpus=device != "cpu")
        return [
            OwnServer(config, PlacedServer(placement, n, name, ports[n], logs[n]), adapters,
                      device, context, key)
            for n in range(config.servers)
        ]  # fmt: skip
    return [
        OwnServer(config, ServerProcess(name, each, log), adapters, device, context)
        for each, log in zip(ports, logs, strict=True)
    ]


def vllm_command(server: OwnServer, model: Path) -> list[str]:
    """Return the command that starts vLLM with this checkpoint."""
    config = server.config
    options = [
        "--model", f"{model}", "--host", server.process.host, "--port", f"{server.process.port}",
        "--max-model-len", f"{server.context}",
    ]  # fmt: skip
    if config.weight_sync not in FULL_WEIGHTS:
        # Two: the newest adapter, and one other in the same batch.
        options += ["--enable-lora", "--max-loras", "2"]
        options += ["--max-lora-rank", f"{served_rank(config.trained_rank)}"]
    if config.weight_sync == "shared_vllm":
        options += ["--weight-transfer-config", json.dumps({"backend": "arena_shared"})]
    if server.device == "cpu":
        # Compiling takes a minute and gains nothing there.
        options += ["--dtype", "float32", "--enforce-eager"]
    module = ["-m", "vllm.entrypoints.openai.api_server"]
    # The user's arguments are last: vLLM takes the last value of a flag.
    return [vllm_python(config), *module, *options, *shlex.split(config.vllm_args)]


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
