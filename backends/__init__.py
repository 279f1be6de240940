"""Backends: whatever answers a chat request. Each is registered in the catalog like a plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


BACKENDS = {
    **{
        name: (f"litellm:{name}", f"{name}:MODEL, a model of {provider}")
        for name, provider in (
            ("openrouter", "OpenRouter"),
            ("cohere", "Cohere"),
            ("openai", "OpenAI"),
            ("anthropic", "Anthropic"),
            ("gemini", "Google Gemini"),
            ("ollama", "a local Ollama"),
        )
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
