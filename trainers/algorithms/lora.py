"""LoRA adapters (Hu et al. 2021, arXiv:2106.09685) for the matrices within the layers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import JsonValue
from torch import Tensor

from backends.embedded.architecture import ADAPTER_FILE
from trainers.algorithms.checkpoint_files import read_tensors, write_tensors

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The adapted matrices; embeddings, norms, biases and the output head are not adapted."""
PREFIX = "base_model.model."
"""PEFT's, in front of the names of transformers."""


@dataclass(frozen=True, slots=True)
class Lora:
    """Size of an adapter: W' = W + scale * B A, with scale = alpha / rank.

    For W of shape [out, in], A has the shape [rank, in] and B has the shape [out, rank].
    """

    rank: int
    alpha: float
    seed: int = 0

    @property
    def scale(self) -> float:
        """Return alpha / rank: the update's size does not depend on the rank chosen."""
        return self.alpha / self.rank

    def initial_factors(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return new factors `NAME.lora_A` and `NAME.lora_B`, float32; B A is 0 at first."""
        # Drawn on the CPU in the order of the names, so that all devices start from equal numbers.
        # A generator of its own: torch's global one may have been used by other code.
        generator = torch.Generator().manual_seed(self.seed)
        factors = {}
        for name, tensor in sorted(state.items()):
            stem = name.removesuffix(".weight")
            if not stem.endswith(TARGETS):
                continue
            # As in PEFT, Kaiming's uniform with a = sqrt(5): bound = sqrt(6 / ((1 + a^2) in))
            # = in^(-1/2).
            bound = tensor.shape[1] ** -0.5
            # A is uniform in [-bound, bound), shape [rank, in]. B = 0, so W' = W before the first
            # step. There dL/dA = scale B^T G = 0 and dL/dB = scale G A^T, where G = dL/dW': the
            # first step changes B only. If A were 0 too, neither would ever change.
            down = torch.rand(self.rank, tensor.shape[1], generator=generator) * 2 * bound - bound
            factors[f"{stem}.lora_A"] = down.to(tensor.device)
            factors[f"{stem}.lora_B"] = torch.zeros(tensor.shape[0], self.rank).to(tensor.device)
        return factors

    def adapt(
        self, state: Mapping[str, Tensor], factors: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """Return the weights beside the factors, as the forward pass reads them."""
        # The scale is a part of the graph, so its gradient reaches B; W itself is frozen.
        scaled = {n: self.scale * t if n.endswith(".lora_B") else t for n, t in factors.items()}
        return {**state, **scaled}


def write_adapter(folder: Path, lora: Lora, factors: Mapping[str, Tensor], base: str) -> None:
    """Write an adapter into an existing folder, as PEFT writes it and vLLM reads it."""
    # PEFT's names: base_model.model.MODULE.lora_A.weight and …lora_B.weight. safetensors writes
    # contiguous tensors only.
    named = {f"{PREFIX}{n}.weight": t.detach().cpu().contiguous() for n, t in factors.items()}
    write_tensors(named, folder / ADAPTER_FILE)
    config = _adapter_config(lora, base)
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1), "utf-8")


def read_adapter(folder: Path) -> dict[str, Tensor]:
    """Return the factors that `write_adapter` wrote. Raises ArenaError."""
    stored = read_tensors(folder / ADAPTER_FILE)
    return {n.removeprefix(PREFIX).removesuffix(".weight"): t for n, t in stored.items()}


def _adapter_config(lora: Lora, base: str) -> dict[str, JsonValue]:
    """Return the content of adapter_config.json."""
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": list(TARGETS),
        "inference_mode": True,
        "fan_in_fan_out": False,
        # Else the scale would be alpha / sqrt(rank).
        "use_rslora": False,
        "use_dora": False,
        # No module beside the adapted matrices is trained or stored.
        "modules_to_save": None,
    }
