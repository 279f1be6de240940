"""Training of models by playing games: GRPO, rewards, hosts of weights, pretraining, export."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    """Add the bundled rewards, prompts, exports and hosts to the catalog."""
    for kind, name, target, summary in (
        ("reward", "win", "rewards.terms:WIN", "the seat's return"),
        ("reward", "information", "rewards.terms:INFORMATION", "entropy removed"),
        ("reward", "format", "rewards.terms:FORMAT", "legal replies"),
        ("prompt", "rules", "prompts:rules", "rules and notation"),
        ("prompt", "reason", "prompts:reason", "rules, and a request to think first"),
        ("prompt", "brief", "prompts:brief", "notation only, for trained models"),
        ("export", "chat", "export.json_lines:ChatExport", "conversations, for fine-tuning"),
        ("export", "parquet", "export.parquet:ParquetExport", "a row for each reply"),
        ("export", "art", "export.art:ArtExport", "trajectory groups, for ART"),
        ("export", "verifiers", "export.verifiers:VerifiersExport", "episodes, for verifiers"),
        ("export", "openenv", "export.json_lines:OpenEnvExport", "training traces, for OpenEnv"),
        ("backend", "policy", "opponents:policy", "policy:STEP, only within `arena train`"),
        ("host", "embedded", "hosts.embedded:EmbeddedHost", "in this process, on a CPU or CUDA"),
        ("host", "local", "hosts.art.local:LocalHost", "ART's LocalBackend: a GPU, vLLM, LoRA"),
        (
            "host",
            "serverless",
            "hosts.art.serverless:ServerlessHost",
            "ART's ServerlessBackend: W&B trains",
        ),
    ):
        catalog.add(kind, name, f"trainers.{target}", summary)
