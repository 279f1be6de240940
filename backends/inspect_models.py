"""Models of inspect_ai's providers, and the model that `inspect eval` evaluates.

`inspect` is the model of the evaluation (`--model`), `inspect:openai/gpt-5` a model by its name
there, and `inspect:opponent` that of a role (`--model-role opponent=…`). inspect_ai retries, so its
errors end a game. Of the sampling only what differs from arena's defaults is sent, so that its own
flags (`--temperature`, `--max-tokens`) hold for the rest.
"""

from __future__ import annotations

import time
from typing import Any

from arena.core.errors import ContextOverflow, StopPlaying, UsageError
from arena.llm.backend import (
    BackendTraits,
    Choice,
    Completion,
    FinishReason,
    Message,
    Request,
    Sampling,
    Usage,
)
from arena.llm.settings import Settings
from arena.plugins.catalog import require

require("inspect:MODEL", ("inspect_ai",), "inspect")

from inspect_ai.model import (  # noqa: E402 - after the check that names the extra.
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentReasoning,
    GenerateConfig,
    get_model,
)

FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
}
SAMPLING_NAMES = {"stop": "stop_seqs", "n": "num_choices", "thinking_tokens": "reasoning_tokens"}
"""Fields of `Sampling` that have another name there."""


class InspectBackend:
    """A model of inspect_ai. Its calls are in the log of the sample that makes them."""

    context_length: int | None = None
    traits = BackendTraits(is_remote=True, has_known_price=False)

    def __init__(self, model: Any) -> None:
        self.model = str(model)
        self._model = model

    async def complete(self, request: Request) -> Completion:
        """Answer once. Raises ContextOverflow, and StopPlaying for every error of inspect_ai."""
        start = time.perf_counter()
        try:
            output = await self._model.generate(
                [chat_message(each) for each in request.messages], config=_config(request)
            )
        except Exception as error:  # Of any provider; limits of the sample are exceptions too.
            raise StopPlaying(f"inspect:{self.model}: {error}") from error
        if not output.choices or output.stop_reason == "model_length":
            raise ContextOverflow(f"inspect:{self.model}: {output.error or output.stop_reason}")
        usage, seconds = output.usage, time.perf_counter() - start
        return Completion(
            tuple(_choice(each) for each in output.choices),
            output.model or self.model,
            _usage(usage) if usage else Usage(),
            usage.total_cost if usage else None,
            seconds=seconds,
            id=output.response_id or "",
        )

    async def close(self) -> None:
        """Do nothing: inspect_ai shares its models among all samples and closes them."""


def inspect_model(model: str, _settings: Settings) -> InspectBackend:
    """Return the backend of `inspect:MODEL`. Raises UsageError for an unknown model."""
    try:
        return InspectBackend(get_model(model) if "/" in model else get_model(role=model or None))
    except Exception as error:  # Each provider has its own.
        raise UsageError(f"inspect:{model}: {error}") from error


def chat_message(message: Message) -> Any:
    """Return a message of arena in the form of inspect_ai; thoughts of a reply go back with it."""
    if message.role == "assistant":
        if message.provider_turn:
            return ChatMessageAssistant.model_validate(message.provider_turn)
        return ChatMessageAssistant(content=message.content)
    kind = ChatMessageSystem if message.role == "system" else ChatMessageUser
    return kind(content=message.content)


def _config(request: Request) -> Any:
    usual = Sampling().to_json()
    given = {n: v for n, v in request.sampling.to_json().items() if v != usual.get(n)}
    return GenerateConfig(
        **{SAMPLING_NAMES.get(name, name): value for name, value in given.items()}
    )


def _choice(choice: Any) -> Choice:
    message, parts = choice.message, choice.message.content
    thoughts = [] if isinstance(parts, str) else parts
    reasoning = [each.reasoning for each in thoughts if isinstance(each, ContentReasoning)]
    turn = message.model_dump(mode="json", exclude_none=True) if reasoning else None
    reason = FINISH_REASONS.get(choice.stop_reason, "unknown")
    return Choice(message.text, reason, "\n".join(reasoning), provider_turn=turn)


def _usage(usage: Any) -> Usage:
    cached = usage.input_tokens_cache_read or 0
    # There, tokens of the cache do not count as tokens of the input.
    prompt = usage.input_tokens + cached + (usage.input_tokens_cache_write or 0)
    return Usage(prompt, usage.output_tokens, cached, usage.reasoning_tokens or 0)
