"""Plugin of vLLM: a weight-transfer engine whose weights a trainer writes in place.

vLLM finds it by the entry point in the folder beside this file, if that folder is on PYTHONPATH,
and uses it with `--weight-transfer-config '{"backend": "arena_shared"}'`. It runs in vLLM's own
environment, so it imports nothing of arena. vLLM's sources are not changed.

The trainer calls POST /init_weight_transfer_engine with the path of an empty folder that only this
user can read. On a CPU each parameter moves to a file there, which the trainer maps too; on CUDA
the parameters stay, and their IPC handles are written. `parameters.json` appears last:
{NAME: {"shape": [...], "dtype": "float32", "file" or "cuda": ...}}.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

NAME = "arena_shared"


def register() -> None:
    """Register the engine; vLLM calls this in each of its processes before a model is loaded."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
    from vllm.platforms import current_platform

    if NAME not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(NAME, _engine_class())
    if current_platform.is_cpu():
        from vllm import _custom_ops

        # With oneDNN, vLLM packs a copy of each matrix and drops the original. Without it, layers
        # read the parameter itself.
        _custom_ops._supports_onednn = False


@dataclass
class SharedInitInfo:
    """Body of the request that shares the weights."""

    folder: str


@dataclass
class SharedUpdateInfo:
    """Body of an update: empty, since the weights are in place already."""


def _engine_class() -> type[Any]:
    # In a function: vLLM imports this module before its own modules are complete.
    from vllm.distributed.weight_transfer.base import WeightTransferEngine

    class SharedWeightsEngine(WeightTransferEngine):  # type: ignore[misc, type-arg, unused-ignore]
        """Shares the memory of all parameters with the trainer."""

        init_info_cls = SharedInitInfo
        update_info_cls = SharedUpdateInfo

        def init_transfer_engine(self, init_info: SharedInitInfo) -> None:
            """Move the parameters into the folder. Raises ValueError if they cannot be shared."""
            if self.parallel_config.world_size > 1:
                raise ValueError(f"{NAME}: a model on several devices cannot be shared")
            share(self.model, Path(init_info.folder))

        def start_weight_update(self) -> None:
            """Do nothing: the trainer has paused the requests."""

        def receive_weights(self, update_info: SharedUpdateInfo) -> None:
            """Do nothing: the weights are in place."""

        def finish_weight_update(self) -> None:
            """Do nothing: there is no other copy to bring up to date."""

        def shutdown(self) -> None:
            """Do nothing: the memory is freed when both processes have ended."""

    return SharedWeightsEngine


def share(model: torch.nn.Module, folder: Path) -> None:
    """Share all parameters; `parameters.json` in the folder describes them."""
    described: dict[str, dict[str, Any]] = {}
    for number, (name, parameter) in enumerate(model.named_parameters()):
        if not parameter.numel():
            raise ValueError(f"{NAME}: vLLM has packed {name}, so it cannot be shared")
        # A contiguous tensor is described by its shape alone.
        if not parameter.data.is_contiguous():
            raise ValueError(f"{NAME}: {name} is not contiguous in memory")
        dtype = f"{parameter.dtype}".removeprefix("torch.")
        described[name] = {"shape": list(parameter.shape), "dtype": dtype}
        if parameter.is_cuda:
            described[name] |= {"cuda": _cuda_handle(parameter.data)}
        else:
            file = f"{number:05d}"
            described[name] |= {"file": file}
            parameter.data = map_file(folder / file, parameter.shape, parameter.dtype).copy_(
                parameter.data
            )
    draft = folder / "parameters.part"
    draft.write_text(json.dumps(described), "utf-8")
    draft.rename(folder / "parameters.json")


def map_file(path: Path, shape: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor whose memory is that of a file; other processes that map it see changes."""
    size = torch.Size(shape).numel()
    return torch.from_file(str(path), shared=True, size=size, dtype=dtype).view(tuple(shape))


def _cuda_handle(tensor: torch.Tensor) -> dict[str, Any]:
    """Return what `torch.UntypedStorage._new_shared_cuda` needs, as JSON."""
    storage: Any = tensor.untyped_storage()
    fields = storage._share_cuda_()
    texts = [
        {"base64": base64.b64encode(each).decode()} if isinstance(each, bytes) else each
        for each in fields
    ]
    return {"storage": texts, "offset": tensor.storage_offset()}


def open_cuda(description: dict[str, Any], shape: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return the tensor that `_cuda_handle` describes, in the memory of the other process."""
    fields = [
        base64.b64decode(each["base64"]) if isinstance(each, dict) else each
        for each in description["storage"]
    ]
    storage = torch.UntypedStorage._new_shared_cuda(*fields)
    tensor = torch.empty(0, dtype=dtype, device=storage.device)
    return tensor.set_(storage, description["offset"], torch.Size(shape))  # type: ignore[call-overload, no-any-return, unused-ignore]
