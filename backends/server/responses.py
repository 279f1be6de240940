"""Response bodies in the format of OpenAI, complete and in chunks.

Beside OpenAI's fields: `sampled_logprob` with each logprob (the log-probability of the token under
the sampling distribution), and vLLM's `token_ids` and `prompt_token_ids`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from pydantic import JsonValue

    from backends.embedded.sampler import GeneratedToken
    from backends.server.generation import GenerationJob

    JsonObject = dict[str, JsonValue]

MIN_LOGPROB = -9999.0
"""Replaces minus infinity, which JSON does not have; the value is vLLM's."""

TokenText = Callable[[int], str]
"""Returns the representation of a token id in lists of log-probabilities."""


class ResponseFormatter(Protocol):
    """Format of one endpoint."""

    id_prefix: ClassVar[str]
    object_name: ClassVar[str]
    """The field `object` of a complete response."""
    chunk_object_name: ClassVar[str]
    """The field `object` of a chunk."""
    prompt_ids_in_choice: ClassVar[bool]
    """vLLM puts `prompt_token_ids` into each choice, or beside the choices."""

    def choice(self, index: int, tokens: Sequence[GeneratedToken]) -> JsonObject:
        """Return a complete choice."""

    def delta(self, index: int, token: GeneratedToken, *, is_first: bool) -> JsonObject:
        """Return the choice of a chunk, for one token."""


@dataclass(frozen=True, slots=True)
class ChatFormatter:
    """Format of `/v1/chat/completions`."""

    id_prefix: ClassVar[str] = "chatcmpl"
    object_name: ClassVar[str] = "chat.completion"
    chunk_object_name: ClassVar[str] = "chat.completion.chunk"
    prompt_ids_in_choice: ClassVar[bool] = False

    token_text: TokenText
    logprobs: bool
    token_ids: bool

    def choice(self, index: int, tokens: Sequence[GeneratedToken]) -> JsonObject:
        message: JsonObject = {
            "role": "assistant",
            "content": join_text(tokens),
            "refusal": None,
        }
        choice: JsonObject = {"index": index, "message": message}
        return choice | self._details(tokens)

    def delta(self, index: int, token: GeneratedToken, *, is_first: bool) -> JsonObject:
        # OpenAI sends the role in the first chunk of a choice only.
        delta: JsonObject = {"role": "assistant"} if is_first else {}
        choice: JsonObject = {"index": index, "delta": delta | {"content": token.text}}
        return choice | self._details([token])

    def _details(self, tokens: Sequence[GeneratedToken]) -> JsonObject:
        content: list[JsonValue] = [self._logprob(token) for token in tokens]
        details: JsonObject = {
            "logprobs": {"content": content, "refusal": None} if self.logprobs else None,
            "finish_reason": tokens[-1].finish_reason,
        }
        return details | _token_ids(tokens, self.token_ids)

    def _logprob(self, token: GeneratedToken) -> JsonObject:
        top: list[JsonValue] = [self._entry(other.id, other.logprob) for other in token.top]
        return self._entry(token.id, token.logprob) | {
            "sampled_logprob": finite_logprob(token.sampled_logprob),
            "top_logprobs": top,
        }

    def _entry(self, token: int, logprob: float) -> JsonObject:
        text = self.token_text(token)
        return {"token": text, "logprob": finite_logprob(logprob), "bytes": [*text.encode()]}


@dataclass(frozen=True, slots=True)
class TextFormatter:
    """Format of `/v1/completions`."""

    id_prefix: ClassVar[str] = "cmpl"
    object_name: ClassVar[str] = "text_completion"
    chunk_object_name: ClassVar[str] = "text_completion"
    prompt_ids_in_choice: ClassVar[bool] = True

    token_text: TokenText
    logprobs: bool
    token_ids: bool

    def choice(self, index: int, tokens: Sequence[GeneratedToken]) -> JsonObject:
        choice: JsonObject = {
            "index": index,
            "text": join_text(tokens),
            "logprobs": self._logprobs(tokens) if self.logprobs else None,
            "finish_reason": tokens[-1].finish_reason,
        }
        return choice | _token_ids(tokens, self.token_ids)

    def delta(self, index: int, token: GeneratedToken, *, is_first: bool) -> JsonObject:
        return self.choice(index, [token])

    def _logprobs(self, tokens: Sequence[GeneratedToken]) -> JsonObject:
        # The position of each token in the text of the choice.
        offsets = accumulate((len(token.text) for token in tokens[:-1]), initial=0)
        return {
            "tokens": [self.token_text(token.id) for token in tokens],
            "token_logprobs": [finite_logprob(token.logprob) for token in tokens],
            "sampled_logprobs": [finite_logprob(token.sampled_logprob) for token in tokens],
            "top_logprobs": [
                {self.token_text(other.id): finite_logprob(other.logprob) for other in token.top}
                for token in tokens
            ],
            "text_offset": [*offsets],
        }


def _token_ids(tokens: Sequence[GeneratedToken], is_requested: bool) -> JsonObject:
    return {"token_ids": [token.id for token in tokens]} if is_requested else {}


def join_text(tokens: Sequence[GeneratedToken]) -> str:
    return "".join(token.text for token in tokens)


def finite_logprob(logprob: float) -> float:
    return max(logprob, MIN_LOGPROB)


class ResponseBuilder:
    """Builds the complete response of a job, or its chunks, which share id and time."""

    def __init__(
        self, formatter: ResponseFormatter, job: GenerationJob, return_prompt_ids: bool
    ) -> None:
        self.job = job
        self._formatter = formatter
        self._return_prompt_ids = return_prompt_ids
        self._id = f"{formatter.id_prefix}-{uuid.uuid4().hex}"
        self._created = int(time.time())

    def complete(self, choices: Sequence[Sequence[GeneratedToken]]) -> JsonObject:
        """Return the whole response."""
        formatter = self._formatter
        body = self._head(formatter.object_name) | self._prompt_ids(0, in_choice=False)
        body["choices"] = [
            formatter.choice(index, tokens) | self._prompt_ids(index, in_choice=True)
            for index, tokens in enumerate(choices)
        ]
        # Each choice has at least one token: the one with its finish reason.
        cached = {index: tokens[0].cached_tokens for index, tokens in enumerate(choices)}
        return body | {"usage": self._usage(sum(map(len, choices)), cached)}

    def chunk(self, index: int, token: GeneratedToken, *, is_first: bool) -> JsonObject:
        """Return the chunk for one token of a choice."""
        choice = self._formatter.delta(index, token, is_first=is_first)
        body = self._head(self._formatter.chunk_object_name)
        if is_first:
            choice |= self._prompt_ids(index, in_choice=True)
            body |= self._prompt_ids(index, in_choice=False)
        return body | {"choices": [choice]}

    def usage_chunk(self, generated: int, cached: Mapping[int, int]) -> JsonObject:
        """Return the last chunk, which has the usage and no choice; arguments as in `_usage`."""
        usage = self._usage(generated, cached)
        return self._head(self._formatter.chunk_object_name) | {"choices": [], "usage": usage}

    def _head(self, object_name: str) -> JsonObject:
        return {
            "id": self._id,
            "object": object_name,
            "created": self._created,
            "model": self.job.model,
        }

    def _prompt_ids(self, index: int, *, in_choice: bool) -> JsonObject:
        if not self._return_prompt_ids or in_choice != self._formatter.prompt_ids_in_choice:
            return {}
        return {"prompt_token_ids": [*self.job.choices[index].prompt_ids]}

    def _usage(self, generated: int, cached: Mapping[int, int]) -> JsonObject:
        """Return the token counts.

        Args:
            generated: Sampled tokens of all choices.
            cached: Cached prompt tokens of each choice. Only the first choice of each prompt
                counts: the others find its prompt in the cache.
        """
        first_choices = range(0, len(self.job.choices), self.job.choices_per_prompt)
        prompt_tokens = sum(len(self.job.choices[index].prompt_ids) for index in first_choices)
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": generated,
            "total_tokens": prompt_tokens + generated,
            "prompt_tokens_details": {
                "cached_tokens": sum(cached[index] for index in first_choices)
            },
        }
