"""Bodies of requests and responses, in the formats of OpenAI and of vLLM.

A parameter that this server does not support is refused, never ignored. Exceptions are fields that
cannot change an answer, and a neutral value. A field with the value null counts as absent.

Responses have, beside OpenAI's fields, `sampled_logprob` with each logprob (the log-probability of
the token under the sampling distribution), and vLLM's `token_ids` and `prompt_token_ids`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)
from starlette.exceptions import HTTPException

from arena.core.errors import BackendError, ContextOverflow, UsageError
from arena.core.text import first_fault
from arena.http.access import RETRY_LATER, ApiError
from arena.llm.backend import Message

if TYPE_CHECKING:
    from arena.llm.backend import Role
    from backends.embedded.sampler import GeneratedToken, SamplingParams

JsonObject = dict[str, JsonValue]
MAX_CHOICES = 64
MAX_TOP_LOGPROBS = 20
MAX_STOP_STRINGS = 16
_INT64 = 2**63
MIN_LOGPROB = -9999.0
"""Replaces minus infinity, which JSON does not have; the value is vLLM's."""


def invalid_value(param: str | None, message: str) -> ApiError:
    """Return the error for a field whose value cannot be used."""
    return ApiError(400, message, param=param, code="invalid_value")


def join_text_parts(content: object) -> object:
    """Return the content of a message as one string; it may be a list of text parts."""
    if not isinstance(content, list):
        return content
    if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        raise ValueError("only parts with text are supported")
    texts = [part.get("text") for part in content]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("each part needs a 'text'")
    return "".join(texts)


class RequestBody(BaseModel):
    """Base of all bodies: unknown fields and nulls are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}


class ChatMessage(RequestBody):
    """A message of a chat; the role "developer" is OpenAI's newer name of "system"."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(join_text_parts)] = ""

    @property
    def plain(self) -> Message:
        role: Role = "system" if self.role == "developer" else self.role
        return Message(role, self.content)


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Strings = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_as_list)]


ARENA_FLAGS = dict.fromkeys(("tools", "json"), "use --answers text")
"""Advice to users of arena, for fields whose flag has another name."""


class EndpointBody(RequestBody):
    """Base of the bodies of endpoints, which refuse fields that are not supported."""

    neutral_values: ClassVar[dict[str, JsonValue]] = {}
    """The only accepted value of some fields."""
    fields_without_effect: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _refuse_unsupported(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        own = (info.validation_alias or name for name, info in cls.model_fields.items())
        known = {*own, *cls.fields_without_effect}
        for name, value in fields.items():
            is_listed = name in cls.neutral_values
            is_accepted = cls.neutral_values[name] == value if is_listed else name in known
            if value is not None and not is_accepted:
                # Ignoring it would answer with another distribution than the client asked for.
                advice = ARENA_FLAGS.get(name, "the flag or setting of this name")
                raise ApiError(
                    400,
                    f"{name[:100]}: this server does not support it; omit it (arena: {advice})",
                    param=name[:100],
                    code="unsupported_parameter",
                )
        return fields


class StructuredOutputs(EndpointBody):
    """vLLM's limits of an answer: one of some texts."""

    fields_without_effect = frozenset({"disable_fallback"})  # There is one engine.

    choice: Strings = ()


class StreamOptions(EndpointBody):
    """OpenAI's `stream_options`."""

    neutral_values: ClassVar[dict[str, JsonValue]] = {"continuous_usage_stats": False}
    fields_without_effect = frozenset({"include_obfuscation"})  # Padding of the events.

    include_usage: bool = False


class ChatBody(EndpointBody):
    """Body of `/v1/chat/completions`."""

    neutral_values: ClassVar[dict[str, JsonValue]] = {
        **dict.fromkeys(("skip_special_tokens", "spaces_between_special_tokens"), True),
        **dict.fromkeys(("ignore_eos", "use_beam_search", "echo"), False),
        **dict.fromkeys(("include_stop_str_in_output", "continue_final_message"), False),
        **{name: [] for name in ("allowed_token_ids", "bad_words", "stop_token_ids")},
        **{"functions": [], "tools": [], "tool_choice": "none", "reasoning_effort": "none"},
        **dict.fromkeys(("presence_penalty", "frequency_penalty", "thinking_token_budget"), 0),
        **dict.fromkeys(("length_penalty", "repetition_penalty", "best_of"), 1),
        **{"logit_bias": {}, "chat_template_kwargs": {}, "modalities": ["text"], "suffix": ""},
        **{"top_k": -1, "min_p": 0},
        **{"add_generation_prompt": True, "function_call": "none"},
        "response_format": {"type": "text"},
    }
    fields_without_effect = frozenset({
        "user", "metadata", "store", "safety_identifier", "service_tier", "request_id", "priority",
        "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention",
    })  # fmt: skip

    messages: list[ChatMessage] = Field(min_length=1)
    model: str = ""
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    min_tokens: int = Field(0, ge=0)
    n: int = Field(1, ge=1, le=MAX_CHOICES)
    seed: int | None = Field(None, ge=-_INT64, lt=_INT64)
    stop: Annotated[Strings, Field(max_length=MAX_STOP_STRINGS)] = ()
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=MAX_TOP_LOGPROBS)
    reasoning_effort: str = ""
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool | None = None
    structured_outputs: StructuredOutputs = StructuredOutputs()


AnyBody = TypeVar("AnyBody", bound=RequestBody)


def parse_body(kind: type[AnyBody], body: bytes) -> AnyBody:
    """Return the checked body; an empty one has no fields.

    Raises ApiError with status 400 that names the field.
    """
    try:
        return kind.model_validate_json(body or b"{}")
    except ValidationError as error:
        fault, message = error.errors()[0], first_fault(error)
        if fault["type"] == "json_invalid":
            message = f"the body is not JSON: {message}"
            raise ApiError(400, message, code="invalid_json") from None
        raise invalid_value(".".join(map(str, fault["loc"])) or None, message) from None


@dataclass(slots=True)
class GenerationJob:
    """All choices of one request, in the order of their indices."""

    model: str
    """Name of the model in the response."""
    engine: str
    """Name of the sampler, see `Sampler.engine`."""
    adapter: str | None
    prompt_ids: list[int]
    choices: tuple[SamplingParams, ...]
    generated: int = 0
    """Tokens of all choices that were sampled so far."""


@dataclass(kw_only=True)
class ResponseBuilder:
    """Builds the complete response of a job, or its chunks, which share id and time."""

    job: GenerationJob
    token_text: Callable[[int], str]
    """Returns the text of a token id in lists of log-probabilities."""
    token_bytes: Callable[[int], bytes]
    has_logprobs: bool = False
    has_token_ids: bool = False
    """Add the token ids of prompts and answers."""
    _id: str = field(init=False, default_factory=lambda: uuid.uuid4().hex)
    _created: int = field(init=False, default_factory=lambda: int(time.time()))
    # By choice: cached prompt tokens.
    _cached: dict[int, int] = field(init=False, default_factory=dict)

    def complete(self, choices: Sequence[Sequence[GeneratedToken]]) -> JsonObject:
        """Return the whole response."""
        body = self._head()
        body["choices"] = [
            self._choice(body, index, tokens, "message") for index, tokens in enumerate(choices)
        ]
        return body | {"usage": self._usage()}

    def chunk(self, index: int, token: GeneratedToken) -> JsonObject:
        """Return the chunk for the next token of a choice."""
        body = self._head(".chunk")
        body["choices"] = [self._choice(body, index, [token], "delta")]
        return body

    def usage_chunk(self) -> JsonObject:
        """Return the last chunk, which has the usage and no choice."""
        return self._head(".chunk") | {"choices": [], "usage": self._usage()}

    def _head(self, suffix: str = "") -> JsonObject:
        return {
            "id": f"chatcmpl-{self._id}",
            "object": f"chat.completion{suffix}",
            "created": self._created,
            "model": self.job.model,
            "system_fingerprint": self.job.engine,
        }

    def _choice(
        self, body: JsonObject, index: int, tokens: Sequence[GeneratedToken], name: str
    ) -> JsonObject:
        """Return a choice, or the part of it that a chunk has, with its message in field `name`."""
        is_first = index not in self._cached
        # Each choice has at least one token: the one with its finish reason.
        self._cached.setdefault(index, tokens[0].cached_tokens)
        # OpenAI sends the role in the first chunk of a choice only.
        message: JsonObject = {"role": "assistant", "refusal": None} if is_first else {}
        message["content"] = join_text(tokens)
        logprobs: JsonObject | None = None
        if self.has_logprobs:
            logprobs = {"content": [self._logprob(token) for token in tokens], "refusal": None}
        choice: JsonObject = {
            name: message,
            "logprobs": logprobs,
            "finish_reason": tokens[-1].finish_reason,
            "index": index,
        }
        if self.has_token_ids:
            choice["token_ids"] = [token.id for token in tokens]
            if is_first:  # vLLM puts the ids of the prompt beside the choices.
                body["prompt_token_ids"] = [*self.job.prompt_ids]
        return choice

    def _usage(self) -> JsonObject:
        read, generated = len(self.job.prompt_ids), self.job.generated
        return {
            "prompt_tokens": read,
            "completion_tokens": generated,
            "total_tokens": read + generated,
            # Only the first choice counts: the others find its prompt in the cache.
            "prompt_tokens_details": {"cached_tokens": self._cached[0]},
        }

    def _logprob(self, token: GeneratedToken) -> JsonObject:
        top: list[JsonValue] = [self._entry(other.id, other.logprob) for other in token.top]
        return self._entry(token.id, token.logprob) | {
            "sampled_logprob": finite_logprob(token.sampled_logprob),
            "top_logprobs": top,
        }

    def _entry(self, token: int, logprob: float) -> JsonObject:
        text = self.token_text(token)
        content = [*self.token_bytes(token)]
        return {"token": text, "logprob": finite_logprob(logprob), "bytes": content}


def join_text(tokens: Sequence[GeneratedToken]) -> str:
    return "".join(token.text for token in tokens)


def finite_logprob(logprob: float) -> float:
    return max(logprob, MIN_LOGPROB)


def to_api_error(error: Exception) -> ApiError:
    """Return the response for an error of starlette or the sampler; raise all others again."""
    match error:
        case ApiError():
            return error
        case HTTPException():  # Unknown routes and wrong methods.
            return ApiError(error.status_code, error.detail, headers=error.headers)
        case ContextOverflow():  # Before BackendError, its base class.
            return ApiError(400, str(error), param="messages", code="context_length_exceeded")
        case UsageError():
            return ApiError(400, str(error), code="invalid_value")
        case BackendError():
            # The queue is full, or the sampler is being closed.
            status, code = (429, "queue_full") if error.cause == "rate_limit" else (503, None)
            return ApiError(status, str(error), code=code, headers=RETRY_LATER)
    raise error
