"""Backends: whatever answers a chat request. Each is registered in the catalog like a plugin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


@dataclass(frozen=True, slots=True)
class Provider:
    """A hosted provider: litellm's name, and the variables with its key and its address."""

    title: str
    route: str
    default_model: str = ""
    """Model of a SPEC without one: small and cheap."""
    keys: tuple[str, ...] = ()
    """Variables, of the environment or `.env`; the first that is set counts. Empty if no key is
    needed."""
    addresses: tuple[str, ...] = ()
    """Variables with another base URL, under litellm's names."""


PROVIDERS = {
    "openrouter": Provider(
        "OpenRouter",
        "openrouter",
        "openai/gpt-4o-mini",
        ("OPENROUTER_API_KEY",),
        ("OPENROUTER_API_BASE",),
    ),
    "cohere": Provider(
        "Cohere",
        "cohere_chat",
        "command-r7b-12-2024",
        ("COHERE_API_KEY", "CO_API_KEY"),
        ("COHERE_API_BASE",),
    ),
    "openai": Provider(
        "OpenAI",
        "openai",
        "gpt-4o-mini",
        ("OPENAI_API_KEY",),
        ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    ),
    "anthropic": Provider(
        "Anthropic",
        "anthropic",
        "claude-haiku-4-5",
        ("ANTHROPIC_API_KEY",),
        ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
    ),
    "gemini": Provider(
        "Google Gemini",
        "gemini",
        "gemini-2.5-flash",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ("GEMINI_API_BASE",),
    ),
    "ollama": Provider("a local Ollama", "ollama_chat", "llama3.2", (), ("OLLAMA_API_BASE",)),
}
"""Providers by prefix of a SPEC."""

BACKENDS = {
    **{
        name: (f"litellm:{name}", f"{name}:MODEL, a model of {provider.title}")
        for name, provider in PROVIDERS.items()
    },
    "litellm": ("litellm:any_provider", "litellm:MODEL, any model under litellm's name"),
    "http": ("openai_http:http_backend", "http://HOST:PORT/v1#MODEL, any OpenAI-compatible server"),
    "https": ("openai_http:https_backend", "https://HOST:PORT/v1#MODEL, the same"),
    "art": ("openai_http:art", "art[:MODEL], a model of `arena serve` or of an ART backend"),
    "embedded": ("embedded:embedded", "embedded[:NAME or FOLDER], a model in this process"),
    "scripted": ("scripted:scripted", "scripted:FILE, prepared replies"),
}
"""Module and name of the factory, and the meaning of the SPEC, by prefix."""


def register(catalog: Catalog) -> None:
    """Add the backends to the catalog."""
    for name, (target, summary) in BACKENDS.items():
        catalog.add("backend", name, f"backends.{target}", summary)
