"""Other names of settings: former names of arena, and the names that Atropos has for them."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

OLD_NAMES = {
    "host": "trainer_host",
    "answer_tokens": "max_tokens",
    "stop_legality": "stop_legal_rate",
}
"""Former names of fields. They are still read from files, the environment and old run folders."""
HASHED_NAMES = {new: old for old, new in OLD_NAMES.items()}
"""Names under which `config_hash` counts renamed fields, so that old runs keep their hash."""
HASHED_IF_CHANGED = frozenset({"async_steps", "sync_every"})
"""Later fields, which `config_hash` counts only if changed, so that old runs keep their hash."""

ATROPOS_NAMES = {
    "weight_bridge_mode": "weight_sync",
    "vllm_restart_interval": "sync_every",
    "training_steps": "steps",
    "save_path": "log_dir",
}
"""Names of atroposlib 0.4.0 (atropos-grpo) for settings with the same meaning."""
ALIASES = OLD_NAMES | ATROPOS_NAMES
"""All other names that are accepted wherever a setting is read."""

REFUSED_FLAGS = {
    "--batch-size": "arena counts games: a batch is --groups-per-step times --rollouts-per-group "
    "of them, and --tokens-per-batch bounds the memory",
    "--gradient-accumulation-steps": "arena accumulates by tokens: --tokens-per-batch bounds a "
    "forward pass, and --minibatches is the number of optimizer steps",
    "--vllm-config-path": "arena exchanges the addresses of shared weights with the server itself; "
    "leave it out",
}
"""Flags of atropos-grpo without an equivalent, and the remedy."""


def with_new_names(values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the values under the names of fields. A field's own name overrides its other names."""
    return {
        new: value
        for name, value in values.items()
        if (new := ALIASES.get(name, name)) == name or new not in values
    }
