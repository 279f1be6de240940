"""Selection of the host: the meaning of `--trainer-host auto`, and checks of this machine.

ART finds the same problems late, in a child process, and reports them as a traceback. Each check
returns the problem in words, and an empty string if there is none.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from arena.agents.notebook import NOTES
from arena.core.errors import UsageError
from arena.core.text import size_text
from arena.llm.settings import Settings
from arena.plugins.catalog import install_command
from backends.embedded import find_checkpoint
from backends.embedded.architecture import read_architecture, weight_files
from trainers.config.config import (
    FULL_WEIGHTS,
    GAMES_AT_ONCE,
    MADE_BASES,
    NOTEBOOK,
    NOTEBOOK_TOKENS,
    OWNED_SERVERS,
    REPLY_TOKENS,
    TrainConfig,
)

LOCAL_PACKAGES = (
    "accelerate", "bitsandbytes", "peft", "pyarrow", "torch", "torchao", "transformers", "trl",
    "unsloth", "unsloth_zoo", "wandb",
)  # fmt: skip
"""The packages of openpipe-art[backend] that training imports."""
LOCAL_TORCH = "2.10"
"""openpipe-art[backend] 0.5.18 pins torch 2.10.0; the embedded host runs on another version."""
RUNTIME_VARIABLE = "ART_VLLM_RUNTIME_BIN"
RUNTIME_CACHE_VARIABLE = "ART_VLLM_RUNTIME_CACHE_DIR"
FREE_GB = 10.0
"""Free disk space without which a base model or vLLM's environment has no room."""

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def is_hub_id(base_model: str) -> bool:
    """Return whether this is a Hugging Face id (OWNER/NAME), not a folder or a bundled model."""
    return bool(_HUB_ID.fullmatch(base_model)) and not Path(base_model).exists()


def cuda_problem() -> str:
    """Return why no CUDA device can be used; empty if one can."""
    if find_spec("torch") is None:
        return "torch is not installed"
    import torch

    if torch.cuda.is_available():
        return ""
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
    return f"there is no CUDA device (torch {torch.__version__}, a {build} build)"


def check_device(device: str) -> None:
    """Raise UsageError for a --device that does not exist here."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise UsageError(f"--device {device}: choose auto, cpu, cuda or cuda:NUMBER")
    if device.startswith("cuda"):
        import torch

        if not torch.cuda.is_available():
            raise UsageError(f"--device {device}: torch finds no CUDA device; leave the flag out")


def base_checkpoint(base_model: str) -> Path:
    """Return the folder of a --base-model that this process can train, without loading it.

    Raises UsageError: see `find_checkpoint`; or the family is not supported, or has no weights.
    """
    folder = find_checkpoint(base_model, "--base-model ")
    read_architecture(folder)
    weight_files(folder)
    return folder


def packages_problem() -> str:
    """Return which packages of openpipe-art[backend] are missing, and the remedy."""
    missing = [name for name in LOCAL_PACKAGES if find_spec(name) is None]
    if not missing:
        return ""
    problem = f"openpipe-art[backend] is not installed (missing: {', '.join(missing)})"
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = ""
    if torch and not torch.startswith(LOCAL_TORCH):
        problem += (
            f", and it cannot be added here: it needs torch {LOCAL_TORCH}, and the embedded host "
            f"has installed torch {torch}; create a new virtual environment and run there"
        )
    return f"{problem}: {install_command('gpu')}"


def runtime_problem() -> str:
    """Return why ART cannot start its vLLM, which has an environment of its own."""
    if command := os.environ.get(RUNTIME_VARIABLE):
        # The variable holds a command with arguments, of which the first word is the program.
        program = (shlex.split(command) or [""])[0]
        if shutil.which(program):
            return ""
        return f"{RUNTIME_VARIABLE}={command}: there is no such program"
    cache = os.environ.get(RUNTIME_CACHE_VARIABLE) or "~/.cache/art/vllm_runtime"
    installed = Path(cache).expanduser().glob("*/.venv/bin/art-vllm-runtime-server")
    if shutil.which("uv") or any(installed):
        return ""
    return (
        "`uv` is not installed; ART uses it to create vLLM's own environment, once, over the "
        f"network (pip install uv, or set {RUNTIME_VARIABLE} to an art-vllm-runtime-server)"
    )


def disk_problem(folder: Path) -> str:
    """Return where less than FREE_GB are free: in the run's folder, or at home for models."""
    for place in (folder.absolute(), Path.home()):
        # The folder of the run may not exist yet: its nearest existing parent is on the same disk.
        existing = next(path for path in (place, *place.parents) if path.exists())
        free = shutil.disk_usage(existing).free / 1e9
        if free < FREE_GB:
            return f"only {free:.1f} GB are free in {existing}; at least {FREE_GB:g} GB are needed"
    return ""


def raise_problems(host: str, problems: Sequence[str]) -> None:
    """Raise UsageError with all problems in one message; empty strings are ignored."""
    if known := "; and ".join(filter(None, problems)):
        raise UsageError(f"--trainer-host {host} cannot run here: {known}")


@dataclass(frozen=True, slots=True)
class HostChoice:
    """A host of the catalog, and the reason in one sentence."""

    name: str
    reason: str


def select_host(config: TrainConfig, settings: Settings) -> HostChoice:
    """Return the requested host, or with `auto` the host that fits.

    `auto` never selects a host that costs money: an API key alone does not authorise spending.
    """
    if config.trainer_host != "auto":
        return HostChoice(
            config.trainer_host, f"--trainer-host {config.trainer_host} was requested."
        )
    objection = _objection_to_local(config)
    if not objection:
        return HostChoice(
            "local",
            f"There is a CUDA device, openpipe-art[backend] is installed, and {config.base_model} "
            "comes from the Hugging Face hub: ART's LocalBackend trains it.",
        )
    reason = f"Training runs in this process: {objection}. For a GPU: --preset gpu."
    if settings.secret("WANDB_API_KEY") is not None:
        reason += " A WANDB_API_KEY is set; --trainer-host serverless would use it."
    return HostChoice("embedded", reason)


def roles_in_words(config: TrainConfig) -> str:
    """Return which server answers the games, and which process holds the weights."""
    if config.trainer_host != "embedded":
        return f"Games ask the server of ART's host {config.trainer_host}, which trains the weights"
    if not config.server:
        return "Games ask this process, which holds the weights and trains them"
    owned = f"a server of this run ({config.server})"
    sent = "sent to it whole"
    if config.weight_sync not in FULL_WEIGHTS:
        sent = f"uploaded as adapter {config.experiment}@STEP"
    server = owned if config.server in OWNED_SERVERS else config.server
    return f"Games ask {server}; weights are trained here and {sent}"


def art_server(settings: Settings) -> str:
    """Return the server of ART_WRAPPER_URL if LLM_BACKEND=ART selects it; empty otherwise.

    `arena play` uses the same variables. Both may be in `.env`.
    """
    backend = settings.secret("LLM_BACKEND")
    is_art = backend is not None and backend.get_secret_value().strip().lower() == "art"
    return settings.art_wrapper_url if is_art else ""


def _objection_to_local(config: TrainConfig) -> str:
    """Return why ART's LocalBackend does not fit; empty if it does. Cheap checks come first."""
    if config.server:
        return f"games ask the server {config.server}"
    if not config.base_model:
        return "no --base-model of the Hugging Face hub is named"
    if not is_hub_id(config.base_model):
        return f"{config.base_model} is not a model of the Hugging Face hub"
    if packages_problem():
        return "openpipe-art[backend] is not installed"
    return cuda_problem()


LIBRARIES = 350_000_000
"""Memory of a process that has imported arena, torch and, for training, transformers."""
FLOAT = 4
"""Bytes of a number of the trained weights: they are float32, whatever the file holds."""


def training_bytes(folder: Path, rank: int) -> int:
    """Return the bytes of memory that training takes at least, without activations.

    Raises UsageError for a folder without a checkpoint of a supported family.
    """
    model = FLOAT * read_architecture(folder).parameters
    file = sum(path.stat().st_size for path in weight_files(folder))
    # The sampler keeps the file and has two versions. Beside them are the trained weights with
    # gradients and Adam's two moments, or with LoRA the frozen ones: an adapter is small.
    return LIBRARIES + file + 2 * model + (1 if rank else 4) * model


def check_fits(folder: Path, config: TrainConfig) -> None:
    """Raise UsageError if the weights of the checkpoint in `folder` cannot be trained here."""
    import psutil  # Comes with the extra `train`.

    needed = training_bytes(folder, config.trained_rank)
    memory = _cuda_memory(config.device) or psutil.virtual_memory().total
    if needed > memory:
        raise UsageError(
            f"training needs at least {size_text(needed)} of memory, and there is "
            f"{size_text(memory)}: try --lora-rank 8 or a smaller --base-model"
        )


def games_at_once(config: TrainConfig, chats: int) -> int:
    """Return how many games to play at the same time, in each of which the model has `chats` chats.

    On the embedded host they are no more than the sampler's cache holds: with more, it would lose
    each chat before its next turn, and read it again.
    """
    most = GAMES_AT_ONCE
    if config.trainer_host != "embedded" or config.server or config.base_model in MADE_BASES:
        return most
    architecture = read_architecture(base_checkpoint(config.base_model))
    kept = architecture.cache_chats(config.max_context_tokens, _cuda_memory(config.device))
    return min(most, max(1, kept // chats))


def reply_tokens(config: TrainConfig) -> int:
    """Return the longest reply in tokens, which fits the base model."""
    keeps_notebook = config.base_model == NOTEBOOK
    if config.trainer_host == "embedded" and config.base_model not in MADE_BASES:
        # Its tokenizer has a token for the beginning of an entry, as have all its checkpoints.
        file = find_checkpoint(config.base_model, "--base-model ") / "tokenizer.json"
        keeps_notebook = file.exists() and json.dumps(NOTES) in file.read_text("utf-8")
    return config.max_tokens or (NOTEBOOK_TOKENS if keeps_notebook else REPLY_TOKENS)


def _cuda_memory(device: str) -> int:
    """Return the bytes of memory of a CUDA device; 0 if the run computes on the CPU."""
    import torch

    if device == "cpu" or not torch.cuda.is_available():
        return 0
    index = torch.device("cuda" if device == "auto" else device).index or 0
    return torch.cuda.get_device_properties(index).total_memory
