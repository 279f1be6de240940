"""Training of models by playing games: GRPO, rewards, hosts of weights, pretraining, export."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Add the bundled rewards, prompts, exports and hosts to the catalog."""
    terms = "trainers.rewards.terms"
    catalog.add("reward", "win", f"{terms}:WIN", "the seat's return")
    catalog.add("reward", "information", f"{terms}:INFORMATION", "entropy removed")
    catalog.add("reward", "format", f"{terms}:FORMAT", "legal replies")
    catalog.add("prompt", "rules", "trainers.prompts:rules", "rules and notation")
    catalog.add(
        "prompt", "reason", "trainers.prompts:reason", "rules, and a request to think first"
    )
    catalog.add("prompt", "brief", "trainers.prompts:brief", "notation only, for trained models")
    exports = "trainers.export"
    catalog.add("export", "chat", f"{exports}.chat:ChatExport", "conversations, for fine-tuning")
    catalog.add("export", "parquet", f"{exports}.parquet:ParquetExport", "a row for each reply")
    catalog.add("export", "art", f"{exports}.art:ArtExport", "trajectory groups, for ART")
    catalog.add(
        "backend", "policy", "trainers.opponents:policy", "policy:STEP, only within `arena train`"
    )
    for name, target, summary in (
        ("embedded", "embedded:embedded_host", "in this process, on a CPU or CUDA"),
        ("local", "local:local_host", "ART's LocalBackend: a GPU, vLLM, LoRA"),
        ("serverless", "serverless:serverless_host", "ART's ServerlessBackend: W&B trains"),
    ):
        catalog.add("host", name, f"trainers.hosts.{target}", summary)
