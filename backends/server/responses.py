"""Response bodies in the format of OpenAI, complete and in chunks.

Beside OpenAI's fields: `sampled_logprob` with each logprob (the log-probability of the token under
the sampling distribution), and vLLM's `token_ids` and `prompt_token_ids`.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pydantic import JsonValue

    from backends.embedded.sampler import GeneratedToken
    from backends.server.generation import GenerationJob

    JsonObject = dict[str, JsonValue]

MIN_LOGPROB = -9999.0
"""Replaces minus infinity, which JSON does not have; the value is vLLM's."""

TokenText = Callable[[int], str]
"""Returns the representation of a token id in lists of log-probabilities."""


class ResponseBuilder(ABC):
    """Builds the complete response of a job, or its chunks, which share id and time.

    Subclasses define the format of one endpoint.

    Args:
        job: The choices of the response.
        token_text: Representation of tokens in lists of log-probabilities.
        logprobs: Add log-probabilities.
        token_ids: Add the token ids of prompts and answers.
    """

    id_prefix: ClassVar[str]
    object_name: ClassVar[str]
    """The field `object` of a complete response."""
    chunk_object_name: ClassVar[str]
    """The field `object` of a chunk."""
    prompt_ids_in_choice: ClassVar[bool]
    """vLLM puts `prompt_token_ids` into each choice, or beside the choices."""

    def __init__(
        self, job: GenerationJob, token_text: TokenText, logprobs: bool, token_ids: bool
    ) -> None:
        self._job = job
        self._token_text = token_text
        self._has_logprobs = logprobs
        self._has_token_ids = token_ids
        self._id = f"{self.id_prefix}-{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._generated = 0  # Sampled tokens of all choices.
        self._cached: dict[int, int] = {}  # By choice: cached prompt tokens.

    @abstractmethod
    def _choice(self, index: int, tokens: Sequence[GeneratedToken]) -> JsonObject:
        """Return a complete choice."""

    @abstractmethod
    def _delta(self, index: int, token: GeneratedToken, *, is_first: bool) -> JsonObject:
        """Return the choice of a chunk, for one token."""

    def complete(self, choices: Sequence[Sequence[GeneratedToken]]) -> JsonObject:
        """Return the whole response."""
        self._generated = sum(map(len, choices))
        # Each choice has at least one token: the one with its finish reason.
        self._cached = {index: tokens[0].cached_tokens for index, tokens in enumerate(choices)}
        body = self._head(self.object_name) | self._prompt_ids(0, in_choice=False)
        body["choices"] = [
            self._choice(index, tokens) | self._prompt_ids(index, in_choice=True)
            for index, tokens in enumerate(choices)
        ]
        return body | {"usage": self._usage()}

    def chunk(self, index: int, token: GeneratedToken) -> JsonObject:
        """Return the chunk for the next token of a choice."""
        is_first = index not in self._cached
        self._cached.setdefault(index, token.cached_tokens)
        self._generated += 1
        choice = self._delta(index, token, is_first=is_first)
        body = self._head(self.chunk_object_name)
        if is_first:
            choice |= self._prompt_ids(index, in_choice=True)
            body |= self._prompt_ids(index, in_choice=False)
        return body | {"choices": [choice]}

    def usage_chunk(self) -> JsonObject:
        """Return the last chunk, which has the usage and no choice."""
        return self._head(self.chunk_object_name) | {"choices": [], "usage": self._usage()}

    def _head(self, object_name: str) -> JsonObject:
        return {
            "id": self._id,
            "object": object_name,
            "created": self._created,
            "model": self._job.model,
        }

    def _prompt_ids(self, index: int, *, in_choice: bool) -> JsonObject:
        if not self._has_token_ids or in_choice != self.prompt_ids_in_choice:
            return {}
        return {"prompt_token_ids": [*self._job.choices[index].prompt_ids]}

    def _token_ids(self, tokens: Sequence[GeneratedToken]) -> JsonObject:
        return {"token_ids": [token.id for token in tokens]} if self._has_token_ids else {}

    def _usage(self) -> JsonObject:
        # Only the first choice of each prompt counts: the others find its prompt in the cache.
        first_choices = range(0, len(self._job.choices), self._job.choices_per_prompt)
        prompt_tokens = sum(len(self._job.choices[index].prompt_ids) for index in first_choices)
        cached_tokens = sum(self._cached[index] for index in first_choices)
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": self._generated,
            "total_tokens": prompt_tokens + self._generated,
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
        }


class ChatResponseBuilder(ResponseBuilder):
    """Format of `/v1/chat/completions`."""

    id_prefix = "chatcmpl"
    object_name = "chat.completion"
    chunk_object_name = "chat.completion.chunk"
    prompt_ids_in_choice = False

    def __init__(
        self,
        job: GenerationJob,
        token_text: TokenText,
        logprobs: bool,
        token_ids: bool,
        parse: Callable[[str], tuple[str, list[JsonObject]]] | None = None,
    ) -> None:
        """Add to the arguments of the base class a parser of tool calls, if there are tools."""
        super().__init__(job, token_text, logprobs, token_ids)
        self._parse = parse
        self._texts: dict[int, str] = {}  # By choice: the text that may hold a tool call.

    def _choice(self, index: int, tokens: Sequence[GeneratedToken]) -> JsonObject:
        message: JsonObject = {"role": "assistant", "refusal": None}
        answer, end = self._answer(join_text(tokens))
        return {"index": index, "message": message | answer, **self._details(tokens), **end}

    def _delta(self, index: int, token: GeneratedToken, *, is_first: bool) -> JsonObject:
        # OpenAI sends the role in the first chunk of a choice only.
        delta: JsonObject = {"role": "assistant"} if is_first else {}
        answer: JsonObject = {"content": token.text}
        end: JsonObject = {}
        if self._parse is not None:
            # Whether a text is a call is known at its end only, so the last chunk has all of it.
            self._texts[index] = text = self._texts.get(index, "") + token.text
            answer = {"content": ""}
            if token.finish_reason is not None:
                answer, end = self._answer(text)
        return {"index": index, "delta": delta | answer, **self._details([token]), **end}

    def _answer(self, text: str) -> tuple[JsonObject, JsonObject]:
        """Return content and tool calls, and the finish reason if there are calls."""
        if self._parse is None:
            return {"content": text}, {}
        content, calls = self._parse(text)
        if not calls:
            return {"content": content}, {}
        numbered: list[JsonValue] = [{"index": n, **call} for n, call in enumerate(calls)]
        return {"content": content or None, "tool_calls": numbered}, {"finish_reason": "tool_calls"}

    def _details(self, tokens: Sequence[GeneratedToken]) -> JsonObject:
        content: list[JsonValue] = [self._logprob(token) for token in tokens]
        return {
            "logprobs": {"content": content, "refusal": None} if self._has_logprobs else None,
            "finish_reason": tokens[-1].finish_reason,
            **self._token_ids(tokens),
        }

    def _logprob(self, token: GeneratedToken) -> JsonObject:
        top: list[JsonValue] = [self._entry(other.id, other.logprob) for other in token.top]
        return self._entry(token.id, token.logprob) | {
            "sampled_logprob": finite_logprob(token.sampled_logprob),
            "top_logprobs": top,
        }

    def _entry(self, token: int, logprob: float) -> JsonObject:
        text = self._token_text(token)
        return {"token": text, "logprob": finite_logprob(logprob), "bytes": [*text.encode()]}


class TextResponseBuilder(ResponseBuilder):
    """Format of `/v1/completions`."""

    id_prefix = "cmpl"
    object_name = chunk_object_name = "text_completion"
    prompt_ids_in_choice = True

    def __init__(
        self,
        job: GenerationJob,
        token_text: TokenText,
        logprobs: bool,
        token_ids: bool,
        echoes: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """Add to the arguments of the base class the texts that precede the answers, by choice."""
        super().__init__(job, token_text, logprobs, token_ids)
        self._echoes = echoes

    def _choice(self, index: int, tokens: Sequence[GeneratedToken]) -> JsonObject:
        return {
            "index": index,
            "text": self._echoes.get(index, "") + join_text(tokens),
            "logprobs": self._logprobs(tokens) if self._has_logprobs else None,
            "finish_reason": tokens[-1].finish_reason,
            **self._token_ids(tokens),
        }

    def _delta(self, index: int, token: GeneratedToken, *, is_first: bool) -> JsonObject:
        choice = self._choice(index, [token])
        return choice if is_first else choice | {"text": token.text}

    def _logprobs(self, tokens: Sequence[GeneratedToken]) -> JsonObject:
        # The position of each token in the text of the choice.
        offsets = accumulate((len(token.text) for token in tokens[:-1]), initial=0)
        text = self._token_text
        return {
            "tokens": [text(token.id) for token in tokens],
            "token_logprobs": [finite_logprob(token.logprob) for token in tokens],
            "sampled_logprobs": [finite_logprob(token.sampled_logprob) for token in tokens],
            "top_logprobs": [
                {text(other.id): finite_logprob(other.logprob) for other in token.top}
                for token in tokens
            ],
            "text_offset": [*offsets],
        }


def join_text(tokens: Sequence[GeneratedToken]) -> str:
    return "".join(token.text for token in tokens)


def finite_logprob(logprob: float) -> float:
    return max(logprob, MIN_LOGPROB)
