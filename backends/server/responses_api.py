"""OpenAI's Responses API, for texts: `/v1/responses`, complete or as a stream of named events.

The server keeps no responses, so each request has the whole conversation as its input.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field
from starlette.responses import JSONResponse, Response

from arena.core.errors import ArenaError
from arena.llm.backend import Message
from backends.embedded.sampler import SamplingParams
from backends.server.access import ApiError, to_api_error
from backends.server.constraints import JsonSchema
from backends.server.generation import (
    ChoiceRequest,
    ChoiceToken,
    Generation,
    event_response,
    format_event,
)
from backends.server.messages import ChatMessage, EndpointBody, NeutralValues, join_text_parts

if TYPE_CHECKING:
    from pydantic import JsonValue
    from starlette.requests import Request

    from backends.embedded.sampler import GeneratedToken
    from backends.server.generation import GenerationJob
    from backends.server.tokenization import Tokenizing

    JsonObject = dict[str, JsonValue]


def _as_items(value: object) -> object:
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


class InputMessage(EndpointBody):
    """A message of the input, or of an earlier output."""

    fields_without_effect = frozenset({"id", "status", "phase"})

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(join_text_parts)]

    @property
    def message(self) -> Message:
        return ChatMessage(role=self.role, content=self.content).message


class TextFormat(EndpointBody):
    """Format of the answer."""

    fields_without_effect = frozenset({"name", "description", "strict"})

    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: Annotated[JsonSchema | None, Field(validation_alias="schema")] = None

    @property
    def answer_schema(self) -> dict[str, JsonValue] | None:
        """Return the schema of the answer, if any. Raises ApiError if it is missing."""
        if self.type == "json_schema" and self.json_schema is None:
            param = "text.format.schema"
            raise ApiError(400, f"{param}: Field required", param=param)
        return {"type": "object"} if self.type == "json_object" else self.json_schema


class TextConfig(EndpointBody):
    """The field `text`."""

    neutral_values: ClassVar[NeutralValues] = {"verbosity": ("medium",)}

    format: TextFormat = TextFormat()


class Reasoning(EndpointBody):
    """The field `reasoning`."""

    neutral_values: ClassVar[NeutralValues] = {"effort": ("none",)}

    effort: Literal["none"] | None = None


class ResponsesBody(EndpointBody):
    """Body of `/v1/responses`."""

    neutral_values: ClassVar[NeutralValues] = {
        "tools": ([],),
        "tool_choice": ("auto", "none"),
        "include": ([],),
        "top_logprobs": (0,),
        "truncation": ("disabled",),
        "background": (False,),
        "store": (False,),
        "stream_options": ({}, {"include_obfuscation": False}),
        "context_management": ([],),
        **dict.fromkeys(
            ("conversation", "max_tool_calls", "moderation", "previous_response_id", "prompt"), ()
        ),
    }
    remedies: ClassVar[Mapping[str, str]] = {
        "store": "it keeps no responses; omit it, or send false",
        "previous_response_id": "it keeps no responses; send the whole conversation as `input`",
        "tools": "use /v1/chat/completions",
    }
    fields_without_effect = frozenset({
        "user", "safety_identifier", "service_tier", "prompt_cache_key", "prompt_cache_retention",
        "parallel_tool_calls",
    })  # fmt: skip

    model: str = ""
    input: Annotated[tuple[InputMessage, ...], BeforeValidator(_as_items), Field(min_length=1)]
    instructions: str = ""
    max_output_tokens: int | None = Field(None, ge=1)
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    stream: bool = False
    text: TextConfig = TextConfig()
    reasoning: Reasoning = Reasoning()
    metadata: dict[str, str] = Field(default_factory=dict)

    @property
    def chat(self) -> list[Message]:
        system = [Message("system", self.instructions)] if self.instructions else []
        return [*system, *(item.message for item in self.input)]


@dataclass(kw_only=True)
class TextResponse:
    """The response of one request while its tokens arrive."""

    body: ResponsesBody
    job: GenerationJob
    _id: str = field(init=False, default_factory=lambda: f"resp_{uuid.uuid4().hex}")
    _item_id: str = field(init=False, default_factory=lambda: f"msg_{uuid.uuid4().hex}")
    _created: int = field(init=False, default_factory=lambda: int(time.time()))
    _tokens: list[GeneratedToken] = field(init=False, default_factory=list)
    _sent: int = field(init=False, default=0)  # Events.

    def complete(self, tokens: list[GeneratedToken]) -> JsonObject:
        """Return the whole response."""
        self._tokens = tokens
        return self._response(self._status)

    def start(self) -> Iterator[str]:
        """Yield the events before the first token."""
        response = self._response("in_progress")
        yield self._event("response.created", response=response)
        yield self._event("response.in_progress", response=response)
        item = self._item("in_progress") | {"content": []}
        yield self._event("response.output_item.added", output_index=0, item=item)
        yield self._text_event("response.content_part.added", part=_text_part(""))

    def add(self, token: GeneratedToken) -> str:
        """Return the event of the next token."""
        self._tokens.append(token)
        return self._text_event("response.output_text.delta", delta=token.text, logprobs=[])

    def end(self) -> Iterator[str]:
        """Yield the events after the last token."""
        status, text = self._status, self._text
        yield self._text_event("response.output_text.done", text=text, logprobs=[])
        yield self._text_event("response.content_part.done", part=_text_part(text))
        item = self._item(status)
        yield self._event("response.output_item.done", output_index=0, item=item)
        yield self._event(f"response.{status}", response=self._response(status))

    def fail(self, error: ApiError) -> str:
        """Return the event of an error after the start."""
        fault: JsonValue = {"code": "server_error", "message": error.detail}
        return self._event("response.failed", response=self._response("failed") | {"error": fault})

    @property
    def _status(self) -> str:
        return "incomplete" if self._tokens[-1].finish_reason == "length" else "completed"

    @property
    def _text(self) -> str:
        return "".join(token.text for token in self._tokens)

    def _event(self, name: str, **fields: JsonValue) -> str:
        number, self._sent = self._sent, self._sent + 1
        return format_event({"type": name, "sequence_number": number, **fields}, name)

    def _text_event(self, name: str, **fields: JsonValue) -> str:
        return self._event(name, item_id=self._item_id, output_index=0, content_index=0, **fields)

    def _item(self, status: str) -> JsonObject:
        return {
            "type": "message",
            "id": self._item_id,
            "role": "assistant",
            "status": status,
            "content": [_text_part(self._text)],
        }

    def _response(self, status: str) -> JsonObject:
        body = self.body
        is_over = status in {"completed", "incomplete"}
        reason: JsonValue = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": reason,
            "model": self.job.model,
            "output": [self._item(status)] if is_over else [],
            "usage": self._usage() if is_over else None,
            "instructions": body.instructions or None,
            "max_output_tokens": body.max_output_tokens,
            "temperature": body.temperature,
            "top_p": body.top_p,
            "text": {"format": {"type": body.text.format.type}},
            "metadata": {**body.metadata},
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "truncation": "disabled",
            "store": False,
        }

    def _usage(self) -> JsonObject:
        read, written = len(self.job.choices[0].prompt_ids), len(self._tokens)
        return {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": self._tokens[0].cached_tokens},
            "output_tokens": written,
            # Thinking is text like any other for this server.
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + written,
        }


def _text_part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


@dataclass(frozen=True, slots=True)
class ResponsesEndpoint:
    """The endpoint of the Responses API."""

    generation: Generation
    tokenizing: Tokenizing

    async def create(self, request: Request, body: ResponsesBody) -> Response:
        """Answer a conversation with a text."""
        template = {"enable_thinking": False} if body.reasoning.effort == "none" else {}
        prompt = await self.tokenizing.encode_chat(body.chat, **template)
        params = SamplingParams(
            temperature=body.temperature,
            top_p=body.top_p,
            max_tokens=self.generation.limit_tokens(prompt, body.max_output_tokens, "input"),
            guided_json=body.text.format.answer_schema,
        )
        job = self.generation.job(request, body.model, [ChoiceRequest(prompt, params)])
        response = TextResponse(body=body, job=job)
        if body.stream:
            return event_response(_events(response, await self.generation.stream(request, job)))
        [tokens] = await self.generation.collect(request, job)
        return JSONResponse(response.complete(tokens))


async def _events(
    response: TextResponse, tokens: AsyncGenerator[ChoiceToken, None]
) -> AsyncIterator[str]:
    """Yield the response as server-sent events; a later error becomes an event too."""
    for event in response.start():
        yield event
    async with aclosing(tokens):  # Also when the client leaves: stops the sampling.
        try:
            async for item in tokens:
                yield response.add(item.token)
        except ArenaError as error:
            yield response.fail(to_api_error(error))
            return
    for event in response.end():
        yield event
