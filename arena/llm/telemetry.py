"""Spans of model calls for OpenTelemetry, by its semantic conventions for generative AI.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317 opentelemetry-instrument arena eval …

A process that has not loaded OpenTelemetry makes no spans. A span is one try of a call, without the
time that it waited for a slot. Prompts and replies are not in it: the replay has them.
Names: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from arena.core.spec import Spec
from arena.core.version import __version__
from arena.llm.backend import Completion, Request
from arena.llm.ledger import failure_word

PROVIDERS = {"gemini": "gcp.gemini"}
"""Providers by the prefix of a SPEC, where the conventions have another name for them."""


@contextmanager
def call_span(spec: str, model: str, request: Request) -> Iterator[Callable[[Completion], None]]:
    """Trace the block as one call; the function that it gets takes the answer."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield lambda _: None
        return
    with trace.get_tracer("arena", __version__).start_as_current_span(
        f"chat {model}", kind=trace.SpanKind.CLIENT, attributes=_asked(spec, model, request)
    ) as span:
        try:
            yield partial(_answered, span)
        except BaseException as error:
            span.set_attribute("error.type", failure_word(error))
            raise


def _asked(spec: str, model: str, request: Request) -> dict[str, Any]:
    prefix, sampling = Spec.parse(spec).prefix, request.sampling
    fields = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "stop_sequences": sampling.stop or None,
        "seed": sampling.seed,
        "choice.count": sampling.n if sampling.n > 1 else None,
    }
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": PROVIDERS.get(prefix, prefix),
        "gen_ai.request.model": model,
    } | {f"gen_ai.request.{name}": value for name, value in fields.items() if value is not None}


def _answered(span: Any, completion: Completion) -> None:
    usage = completion.usage
    fields = {
        "gen_ai.response.model": completion.model,
        "gen_ai.response.id": completion.id or None,
        "gen_ai.response.finish_reasons": [each.finish_reason for each in completion.choices],
        "gen_ai.response.time_to_first_chunk": completion.seconds_to_first_token,
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "arena.cost": completion.cost,
    }
    span.set_attributes({name: value for name, value in fields.items() if value is not None})
