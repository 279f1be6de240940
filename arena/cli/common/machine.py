"""Facts about this machine for `arena doctor`: keys of providers and the device for models."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

KEYS = {
    "openrouter:MODEL": ("OPENROUTER_API_KEY",),
    "openai:MODEL": ("OPENAI_API_KEY",),
    "anthropic:MODEL": ("ANTHROPIC_API_KEY",),
    "gemini:MODEL": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "cohere:MODEL": ("COHERE_API_KEY", "CO_API_KEY"),
}
"""By SPEC, the variables of which one holds the provider's key."""


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a provider. The key itself is never kept or shown."""

    spec: str
    variable: str
    is_set: bool


def find_keys() -> list[Key]:
    """Return which keys are set, in the environment or in `.env`."""
    from arena.llm.settings import Settings

    settings = Settings.load()
    return [
        Key(spec, names[0], settings.secret(*names) is not None) for spec, names in KEYS.items()
    ]


@dataclass(frozen=True, slots=True)
class Device:
    """The device on which models in this process run."""

    name: str
    """In words: "NVIDIA H200, 140 GB", "CPU, 16 threads"; "" without torch."""
    is_gpu: bool = False


def find_device() -> Device:
    """Return the first CUDA device that torch finds, else the CPU. It imports torch: seconds."""
    if find_spec("torch") is None:
        return Device("")
    import torch

    if not torch.cuda.is_available():
        return Device(f"CPU, {torch.get_num_threads()} threads; torch finds no CUDA device")
    properties = torch.cuda.get_device_properties(0)
    return Device(f"{properties.name}, {properties.total_memory / 1e9:.0f} GB", is_gpu=True)
