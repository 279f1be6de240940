"""Whatever answers a chat request. Each is reached through the catalog, like any third party's."""

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
    "litellm": ("litellm:anything", "litellm:MODEL, whatever litellm reaches, as it names it"),
    "http": ("openai_http:http_backend", "http://HOST:PORT/v1#MODEL, any OpenAI-compatible server"),
    "https": ("openai_http:https_backend", "https://HOST:PORT/v1#MODEL, the same"),
    "art": ("openai_http:art", "art[:MODEL], what `arena serve` or an ART backend hosts"),
    "embedded": ("embedded:embedded", "embedded[:NAME or FOLDER], a model in this process"),
    "scripted": ("scripted:scripted", "scripted:FILE, replies given in advance"),
    "recorded": ("recorded:recorded", "recorded:REPLAY, what models said in that game"),
}
"""By prefix: where the factory is, and what the SPEC means."""


def register(catalog: Catalog) -> None:
    for name, (target, summary) in BACKENDS.items():
        catalog.add("backend", name, f"backends.{target}", summary)
