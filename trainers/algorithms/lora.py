"""LoRA (Hu et al. 2021): W + scale * B A for the matrices within the layers, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, slots=True)
class Lora:
    """An adapter's rank, and alpha: W grows by alpha / rank times B A."""

    rank: int
    alpha: float
    seed: int = 0

    @property
    def scale(self) -> float:
        return self.alpha / self.rank

    def begin(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """New factors: A uniform as in PEFT (Kaiming with a = sqrt 5), B zero."""
        generator = torch.Generator().manual_seed(self.seed)
        factors = {}
        for name, tensor in sorted(state.items()):
            stem = name.removesuffix(".weight")
            if not stem.endswith(TARGETS):
                continue
            bound = tensor.shape[1] ** -0.5
            down = torch.rand(self.rank, tensor.shape[1], generator=generator) * 2 * bound - bound
            factors[f"{stem}.lora_A"] = down.to(tensor.device)
            factors[f"{stem}.lora_B"] = torch.zeros(tensor.shape[0], self.rank).to(tensor.device)
        return factors

    def merged(
        self, state: Mapping[str, Tensor], factors: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """All weights, with the adapter added."""
        merged = dict(state)
        for name, down in factors.items():
            stem, found, _ = name.partition(".lora_A")
            if found:
                up = factors[f"{stem}.lora_B"]
                merged[f"{stem}.weight"] = state[f"{stem}.weight"] + self.scale * (up @ down)
        return merged


def adapter_config(lora: Lora, base: str) -> dict[str, object]:
    """adapter_config.json, as PEFT and vLLM read it."""
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
        "use_rslora": False,
        "use_dora": False,
        "modules_to_save": None,
    }
