"""What a host needs of this machine, looked for before anything starts.

ART finds out late, in a child process, and says it with a traceback.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from arena.core.errors import UsageError

LOCAL_PACKAGES = (
    "accelerate", "bitsandbytes", "peft", "pyarrow", "torch", "torchao", "transformers", "trl",
    "unsloth", "unsloth_zoo", "wandb",
)  # fmt: skip
"""Of what openpipe-art[backend] brings, that which is imported in training."""
LOCAL_INSTALL = "pip install 'arena-games[gpu]'"
LOCAL_TORCH = "2.10"
"""openpipe-art[backend] 0.5.18 pins torch 2.10.0; the embedded host runs on another."""
RUNTIME_VARIABLE = "ART_VLLM_RUNTIME_BIN"
RUNTIME_CACHE_VARIABLE = "ART_VLLM_RUNTIME_CACHE_DIR"
FREE_GB = 10.0
"""Less than this, and neither a base model nor vLLM's environment has room."""

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def is_hub_id(base_model: str) -> bool:
    """Whether this is a Hugging Face id (OWNER/NAME) and not a folder or a name of ours."""
    return bool(_HUB_ID.fullmatch(base_model)) and not Path(base_model).exists()


def cuda_missing() -> str:
    """Why no CUDA device can be used; empty if one can."""
    if find_spec("torch") is None:
        return "torch is not installed"
    import torch

    if torch.cuda.is_available():
        return ""
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
    return f"there is no CUDA device (torch {torch.__version__}, a {build} build)"


def packages_missing() -> str:
    """Which packages of openpipe-art[backend] are missing, and what to do; empty if none is."""
    missing = [name for name in LOCAL_PACKAGES if find_spec(name) is None]
    if not missing:
        return ""
    said = f"openpipe-art[backend] is not installed (missing: {', '.join(missing)})"
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = ""
    if torch and not torch.startswith(LOCAL_TORCH):
        said += (
            f", and it cannot be added here: it wants torch {LOCAL_TORCH}, the embedded host "
            f"brought {torch}; make a new virtual environment and there"
        )
    return f"{said}: {LOCAL_INSTALL}"


def runtime_missing() -> str:
    """Why ART cannot start its vLLM, which lives in an environment of its own; empty if it can."""
    if named := os.environ.get(RUNTIME_VARIABLE):
        program = (shlex.split(named) or [""])[0]
        if shutil.which(program):
            return ""
        return f"{RUNTIME_VARIABLE}={named}: there is no such program"
    cache = os.environ.get(RUNTIME_CACHE_VARIABLE) or "~/.cache/art/vllm_runtime"
    installed = Path(cache).expanduser().glob("*/.venv/bin/art-vllm-runtime-server")
    if shutil.which("uv") or any(installed):
        return ""
    return (
        "`uv` is not installed; with it ART makes vLLM's own environment, once, over the network "
        f"(pip install uv, or set {RUNTIME_VARIABLE} to an art-vllm-runtime-server)"
    )


def disk_missing(folder: Path) -> str:
    """Whether too little is free where the run and the models lie; empty if there is enough."""
    for place in (folder.absolute(), Path.home()):
        existing = next(each for each in (place, *place.parents) if each.exists())
        free = shutil.disk_usage(existing).free / 1e9
        if free < FREE_GB:
            return f"only {free:.1f} GB are free in {existing}; {FREE_GB:g} GB are little enough"
    return ""


def refuse_unless_empty(host: str, missing: Sequence[str]) -> None:
    """Raises UsageError with all that is missing in one message; empty strings are nothing."""
    found = [each for each in missing if each]
    if not found:
        return
    if len(found) == 1:
        raise UsageError(f"--host {host} cannot run here: {found[0]}")
    numbered = "; ".join(f"({number}) {each}" for number, each in enumerate(found, 1))
    raise UsageError(f"--host {host} cannot run here, for {len(found)} reasons: {numbered}")
