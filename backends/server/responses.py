"""Response bodies in the format of OpenAI, complete and in chunks.

Beside OpenAI's fields: `sampled_logprob` with each logprob (the log-probability of the token under
the sampling distribution), and vLLM's `token_ids` and `prompt_token_ids`.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from starlette.exceptions import HTTPException

from arena.core.errors import BackendError, ContextOverflow, MissingDependency, UsageError
from arena.http.access import RETRY_LATER, ApiError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from backends.embedded.sampler import GeneratedToken, SamplingParams

    JsonObject = dict[str, JsonValue]

MIN_LOGPROB = -9999.0
"""Replaces minus infinity, which JSON does not have; the value is vLLM's."""


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
class ResponseBuilder(ABC):
    """Builds the complete response of a job, or its chunks, which share id and time.

    Subclasses define the format of one endpoint.
    """

    id_prefix: ClassVar[str]
    object_name: ClassVar[str]
    """The field `object` of a complete response."""
    prompt_in_choice: ClassVar[bool]
    """vLLM puts `prompt_token_ids` into each choice, or beside the choices."""

    job: GenerationJob
    token_text: Callable[[int], str]
    token_bytes: Callable[[int], bytes]
    """Returns the representation of a token id in lists of log-probabilities."""
    has_logprobs: bool = False
    has_token_ids: bool = False
    """Add the token ids of prompts and answers."""
    _id: str = field(init=False, default_factory=lambda: uuid.uuid4().hex)
    _created: int = field(init=False, default_factory=lambda: int(time.time()))
    # By choice: cached prompt tokens.
    _cached: dict[int, int] = field(init=False, default_factory=dict)

    @abstractmethod
    def _choice(
        self, index: int, tokens: Sequence[GeneratedToken], *, is_first: bool, is_chunk: bool
    ) -> JsonObject:
        """Return a complete choice, or the part of it that a chunk has."""

    def complete(self, choices: Sequence[Sequence[GeneratedToken]]) -> JsonObject:
        """Return the whole response."""
        body = self._head()
        body["choices"] = [
            self._part(body, index, tokens, is_chunk=False) for index, tokens in enumerate(choices)
        ]
        return body | {"usage": self._usage()}

    def chunk(self, index: int, token: GeneratedToken) -> JsonObject:
        """Return the chunk for the next token of a choice."""
        body = self._head(".chunk")
        body["choices"] = [self._part(body, index, [token], is_chunk=True)]
        return body

    def usage_chunk(self) -> JsonObject:
        """Return the last chunk, which has the usage and no choice."""
        return self._head(".chunk") | {"choices": [], "usage": self._usage()}

    def _head(self, suffix: str = "") -> JsonObject:
        # Text completions have one name for both.
        name = self.object_name if self.prompt_in_choice else self.object_name + suffix
        return {
            "id": f"{self.id_prefix}-{self._id}",
            "object": name,
            "created": self._created,
            "model": self.job.model,
            "system_fingerprint": self.job.engine,
        }

    def _part(
        self, body: JsonObject, index: int, tokens: Sequence[GeneratedToken], *, is_chunk: bool
    ) -> JsonObject:
        """Return a choice or a part of it."""
        is_first = index not in self._cached
        # Each choice has at least one token: the one with its finish reason.
        self._cached.setdefault(index, tokens[0].cached_tokens)
        choice = self._choice(index, tokens, is_first=is_first, is_chunk=is_chunk)
        choice |= {"index": index}
        if self.has_token_ids:
            choice["token_ids"] = [token.id for token in tokens]
            if is_first:
                place = choice if self.prompt_in_choice else body
                place["prompt_token_ids"] = [*self.job.prompt_ids]
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


@dataclass(kw_only=True)
class ChatResponseBuilder(ResponseBuilder):
    """Format of `/v1/chat/completions`."""

    id_prefix = "chatcmpl"
    object_name = "chat.completion"
    prompt_in_choice = False

    parse: Callable[[str], tuple[str, list[JsonObject]]] | None = None
    """Parser of tool calls, if there are tools."""
    # By choice: the text that may hold a tool call.
    _texts: dict[int, str] = field(init=False, default_factory=dict)

    def _choice(
        self, index: int, tokens: Sequence[GeneratedToken], *, is_first: bool, is_chunk: bool
    ) -> JsonObject:
        # OpenAI sends the role in the first chunk of a choice only.
        message: JsonObject = {"role": "assistant", "refusal": None} if is_first else {}
        finish_reason: str | None = tokens[-1].finish_reason
        message["content"] = text = join_text(tokens)
        if self.parse is not None:
            # Whether a text is a call is known at its end only, so the last chunk has all of it.
            self._texts[index] = text = self._texts.get(index, "") + text
            content, calls = self.parse(text) if finish_reason else ("", [])
            message["content"] = content
            if calls:
                numbered: list[JsonValue] = [{"index": n, **call} for n, call in enumerate(calls)]
                message |= {"content": content or None, "tool_calls": numbered}
                finish_reason = "tool_calls"
        logprobs: JsonObject | None = None
        if self.has_logprobs:
            logprobs = {"content": [self._logprob(token) for token in tokens], "refusal": None}
        return {
            "delta" if is_chunk else "message": message,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
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


@dataclass(kw_only=True)
class TextResponseBuilder(ResponseBuilder):
    """Format of `/v1/completions`."""

    id_prefix = "cmpl"
    object_name = "text_completion"
    prompt_in_choice = True

    # By choice: the characters that were sent in chunks.
    _lengths: dict[int, int] = field(init=False, default_factory=dict)

    def _choice(
        self, index: int, tokens: Sequence[GeneratedToken], *, is_first: bool, is_chunk: bool
    ) -> JsonObject:
        start, text = self._lengths.get(index, 0), join_text(tokens)
        self._lengths[index] = start + len(text)
        return {
            "text": text,
            "logprobs": self._logprobs(tokens, start) if self.has_logprobs else None,
            "finish_reason": tokens[-1].finish_reason,
        }

    def _logprobs(self, tokens: Sequence[GeneratedToken], start: int) -> JsonObject:
        text = self._token_name
        return {
            "tokens": [text(token.id) for token in tokens],
            "token_logprobs": [finite_logprob(token.logprob) for token in tokens],
            "sampled_logprobs": [finite_logprob(token.sampled_logprob) for token in tokens],
            "top_logprobs": [
                {text(other.id): finite_logprob(other.logprob) for other in token.top}
                for token in tokens
            ],
            # The position of each token in the text of the choice.
            "text_offset": [*accumulate((len(t.text) for t in tokens[:-1]), initial=start)],
        }

    def _token_name(self, token: int) -> str:
        """Return the text of a token; OpenAI's form of bytes for a part of a character."""
        text = self.token_text(token)
        if "\ufffd" not in text:
            return text
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in self.token_bytes(token))


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
        case MissingDependency():
            return ApiError(501, str(error))
        case BackendError():
            # The queue is full, or the sampler is being closed.
            status, code = (429, "queue_full") if error.cause == "rate_limit" else (503, None)
            return ApiError(status, str(error), code=code, headers=RETRY_LATER)
    raise error
