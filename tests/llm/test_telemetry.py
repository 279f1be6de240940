"""Spans of model calls, with OpenTelemetry's own SDK."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted_table import quick

from arena.core.errors import BackendError
from arena.llm.backend import Message, Request, Sampling
from arena.llm.service import LLMService
from backends.scripted import ScriptedBackend, ScriptedReply

pytestmark = pytest.mark.trackers
REASON = "OpenTelemetry is not installed: make test-trackers"
SECRET = "the cards of another player"


@pytest.fixture
def finished() -> Iterator[Any]:
    """The exporter of a tracer provider, which a process can have only once."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason=REASON)
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, sdk.TracerProvider):
        provider = sdk.TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield exporter
    exporter.shutdown()


def ask(*replies: ScriptedReply, **limits: Any) -> None:
    request = Request((Message("user", SECRET),), Sampling(0.5, max_tokens=9, stop=("x",), seed=3))

    async def call() -> None:
        async with LLMService(quick(**limits), notify=lambda _: None) as llm:
            llm.add("gemini:flash", ScriptedBackend(replies, model="flash"))
            await llm.complete("gemini:flash", request)

    asyncio.run(call())


def test_a_span_for_each_try_has_the_names_of_the_conventions(finished: Any) -> None:
    answer = ScriptedReply(SECRET, prompt_tokens=12, completion_tokens=4, cost=0.25)
    ask(ScriptedReply(error="rate_limit"), answer, max_retries=1)
    refused, span = finished.get_finished_spans()
    assert (span.name, span.kind.name) == ("chat flash", "CLIENT")
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": "flash",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.stop_sequences": ("x",),
        "gen_ai.request.seed": 3,
        "gen_ai.response.model": "flash",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 0,
        "arena.cost": 0.25,
    }
    known = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    names = {value for name, value in vars(known).items() if name.startswith("GEN_AI")}
    assert {name for name in span.attributes if name.startswith("gen_ai.")} <= names
    assert refused.attributes["error.type"] == "rate_limit"
    assert refused.status.status_code.name == "ERROR"
    assert SECRET not in span.to_json() + refused.to_json()


def test_a_call_that_fails_for_good_is_an_error(finished: Any) -> None:
    with pytest.raises(BackendError):
        ask(replace(ScriptedReply(), error="bad_request"))
    [span] = finished.get_finished_spans()
    assert span.attributes["error.type"] == "bad_request"


def test_the_command_of_opentelemetry_traces_a_game(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.distro", reason=REASON)
    (tmp_path / "replies.json").write_text(json.dumps(["Action: pass"] * 9))
    words = "play kuhn_poker --seat 0=scripted:replies.json --seat 1=bot:random --seed 1 --json"
    done = subprocess.run(
        [
            Path(sys.executable).with_name("opentelemetry-instrument"),
            *(sys.executable, "-m", "arena", *words.split()),
        ],
        cwd=tmp_path,
        env=os.environ | {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"gen_ai.provider.name": "scripted"' in done.stdout
