"""Replies given in advance."""

from __future__ import annotations

import asyncio
from itertools import cycle
from pathlib import Path

import pytest
from scripted_table import ASK, quick

from arena.core.errors import BackendError, UsageError
from arena.llm.backend import Choice, Completion, Message, Request, Usage
from backends.scripted import ScriptedBackend, scripted


def test_replies_from_a_file(tmp_path: Path) -> None:
    lines = ['"plain"', "", '{"text": "x", "reasoning": "hm", "finish_reason": "length"}']
    (tmp_path / "lines").write_text("\n".join(lines))
    backend = scripted(str(tmp_path / "lines"), quick())

    async def run() -> list[Completion]:
        return [await backend.complete(ASK), await backend.complete(ASK)]

    plain, full = asyncio.run(run())
    assert plain.choice == Choice("plain")
    assert full.choice == Choice("x", "length", "hm")
    assert full.usage == Usage(10, 0)
    with pytest.raises(BackendError, match="all 2 replies") as raised:
        asyncio.run(backend.complete(ASK))
    assert raised.value.cause == "bad_request" and not raised.value.retryable


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "has no replies"),
        ('"a"\n{', ":2: Invalid JSON"),
        ('"a"\n7', ":2: "),
        ('{"txt": "a"}', ":1: txt: "),
        ('{"error": "flat tyre"}', ":1: error: "),
    ],
)
def test_bad_files_of_replies_are_refused(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "replies").write_text(text)
    with pytest.raises(UsageError, match=fault):
        scripted(str(tmp_path / "replies"), quick())
    with pytest.raises(UsageError, match="cannot be read"):
        scripted(str(tmp_path / "none"), quick())
    with pytest.raises(UsageError, match="scripted:FILE"):
        scripted("", quick())


def test_replies_that_repeat_or_answer() -> None:
    again = ScriptedBackend(cycle(["a", "b"]))
    echo = ScriptedBackend(lambda request: request.messages[-1].content.upper())

    async def run() -> str:
        three = [(await again.complete(ASK)).text for _ in range(3)]
        assert (await echo.complete(Request((Message("user", "hey"),)))).text == "HEY"
        return "".join(three)

    assert asyncio.run(run()) == "aba"
