"""Calls of hosted models and of URLs that a server of the test answers."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import pytest
from misbehaving import Misbehaving

from arena.core.errors import BackendError
from arena.llm.backend import Backend, Completion, Message, Request, Sampling
from arena.llm.settings import Settings
from backends import PROVIDERS
from backends import litellm as backends_litellm
from backends.litellm import LiteLLMBackend

KEY = "sk-planted-0123456789abcdef"
PATIENCE = 60
"""Seconds for an answer that comes."""
ASK = Request((Message("user", "who has the rope"),), Sampling(max_tokens=20))


def serve_providers(server: Misbehaving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every provider a key and the address of this server."""
    for provider in PROVIDERS.values():
        for name in provider.keys:
            monkeypatch.setenv(name, KEY)
        for name in provider.addresses:
            monkeypatch.setenv(name, server.openai_url)
    monkeypatch.setenv("COHERE_API_BASE", server.cohere_url)
    monkeypatch.setenv("ANTHROPIC_API_BASE", server.url)
    monkeypatch.setenv("GEMINI_API_BASE", server.url)


def settings(**limits: Any) -> Settings:
    return Settings.load(service={"read_timeout": PATIENCE, "call_timeout": PATIENCE} | limits)


def backend_of(prefix: str, model: str = "", **limits: Any) -> LiteLLMBackend:
    made: LiteLLMBackend = getattr(backends_litellm, prefix)(model, settings(**limits))
    return made


def answer(backend: Backend, request: Request = ASK) -> Completion:
    """Return the answer to one request, after which the backend is closed."""

    async def once() -> Completion:
        try:
            return await backend.complete(request)
        finally:
            await backend.close()

    return asyncio.run(once())


def fault(backend: Backend) -> BackendError:
    """Return the error of one request: a line without causes that could tell the key."""
    with pytest.raises(BackendError) as caught:
        answer(backend)
    error: BaseException = caught.value
    assert error.__context__ is None and error.__cause__ is None
    assert KEY[:8] not in "".join(traceback.format_exception(error)) + repr(error)
    assert "\n" not in str(error) and len(str(error)) < 500
    return caught.value
