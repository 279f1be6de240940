"""Response bodies in the format of OpenAI, complete and in chunks.

Beside OpenAI's fields: `sampled_logprob` with each logprob (the log-probability of the token under
the sampling distribution), and vLLM's `token_ids`, `prompt_token_ids` and `prompt_logprobs`.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pydantic import JsonValue

    from backends.embedded.sampler import GeneratedToken, PromptLogprob
    from backends.server.generation import GenerationJob

    JsonObject = dict[str, JsonValue]

MIN_LOGPROB = -9999.0
"""Replaces minus infinity, which JSON does not have; the value is vLLM's."""

TokenText = Callable[[int], str]
"""Returns the representation of a token id in lists of log-probabilities."""


@dataclass(kw_only=True)
class ResponseBuilder(ABC):
    """Builds the complete response of a job, or its chunks, which share id and time.

    Subclasses define the format of one endpoint.
    """

    id_prefix: ClassVar[str]
    object_name: ClassVar[str]
    """The field `object` of a complete response."""
    chunk_object_name: ClassVar[str]
    """The field `object` of a chunk."""
    prompt_in_choice: ClassVar[bool]
    """vLLM puts `prompt_…` fields into each choice, or beside the choices."""

    job: GenerationJob
    token_text: TokenText
    """Representation of tokens in lists of log-probabilities."""
    has_logprobs: bool = False
    has_token_ids: bool = False
    """Add the token ids of prompts and answers."""
    prompt_logprobs: int | None = None
    """Add this many most probable tokens of each position of the prompt, and its own token."""
    _id: str = field(init=False)
    _created: int = field(init=False, default_factory=lambda: int(time.time()))
    _generated: int = field(init=False, default=0)  # Sampled tokens of all choices.
    # By choice: cached prompt tokens, and log-probabilities of the prompt.
    _cached: dict[int, int] = field(init=False, default_factory=dict)
    _scored: dict[int, tuple[PromptLogprob, ...]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._id = f"{self.id_prefix}-{uuid.uuid4().hex}"

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
        for index, tokens in enumerate(choices):
            self._begin(index, tokens[0])
        body = self._head(self.object_name) | self._prompt(0, in_choice=False)
        body["choices"] = [
            self._choice(index, tokens) | self._prompt(index, in_choice=True)
            for index, tokens in enumerate(choices)
        ]
        return body | {"usage": self._usage()}

    def chunk(self, index: int, token: GeneratedToken) -> JsonObject:
        """Return the chunk for the next token of a choice."""
        is_first = index not in self._cached
        if is_first:
            self._begin(index, token)
        self._generated += 1
        choice = self._delta(index, token, is_first=is_first)
        body = self._head(self.chunk_object_name)
        if is_first:
            choice |= self._prompt(index, in_choice=True)
            body |= self._prompt(index, in_choice=False)
        return body | {"choices": [choice]}

    def usage_chunk(self) -> JsonObject:
        """Return the last chunk, which has the usage and no choice."""
        return self._head(self.chunk_object_name) | {"choices": [], "usage": self._usage()}

    def _begin(self, index: int, first: GeneratedToken) -> None:
        """Record what the first token of a choice reports about its prompt."""
        self._cached[index] = first.cached_tokens
        self._scored[index] = first.prompt_logprobs

    def _head(self, object_name: str) -> JsonObject:
        return {
            "id": self._id,
            "object": object_name,
            "created": self._created,
            "model": self.job.model,
            "system_fingerprint": self.job.engine,
        }

    def _prompt(self, index: int, *, in_choice: bool) -> JsonObject:
        """Return the fields about the prompt of a choice."""
        fields: JsonObject = {}
        if in_choice != self.prompt_in_choice:
            return fields
        if self.has_token_ids:
            fields["prompt_token_ids"] = [*self.job.choices[index].prompt_ids]
        if self.prompt_logprobs is not None:
            # Nothing precedes the first token, so it has no probability.
            fields["prompt_logprobs"] = [None, *map(self._ranked, self._scores(index))]
        return fields

    def _scores(self, index: int) -> Sequence[PromptLogprob]:
        """Return the log-probabilities of the prompt; the first choice of a prompt has them."""
        return self._scored[index - index % self.job.choices_per_prompt]

    def _ranked(self, scored: PromptLogprob) -> JsonObject:
        """Return vLLM's form: the prompt's own token, then the most probable ones."""
        entries = [(scored.id, scored.text, scored.logprob, scored.rank)]
        for rank, top in enumerate(scored.top[: self.prompt_logprobs], 1):
            entries.append((top.id, top.text, top.logprob, rank))
        ranked: JsonObject = {}
        for token, text, logprob, rank in entries:
            entry: JsonObject = {"logprob": finite_logprob(logprob), "rank": rank}
            # The prompt's own token may be among the most probable ones.
            ranked.setdefault(str(token), entry | {"decoded_token": text})
        return ranked

    def _token_ids(self, tokens: Sequence[GeneratedToken]) -> JsonObject:
        return {"token_ids": [token.id for token in tokens]} if self.has_token_ids else {}

    def _usage(self) -> JsonObject:
        # Only the first choice of each prompt counts: the others find its prompt in the cache.
        first_choices = range(0, len(self.job.choices), self.job.choices_per_prompt)
        prompt_tokens = sum(len(self.job.choices[index].prompt_ids) for index in first_choices)
        cached_tokens = sum(self._cached[index] for index in first_choices)
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": self._generated,
            "total_tokens": prompt_tokens + self._generated,
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
        }


@dataclass(kw_only=True)
class ChatResponseBuilder(ResponseBuilder):
    """Format of `/v1/chat/completions`."""

    id_prefix = "chatcmpl"
    object_name = "chat.completion"
    chunk_object_name = "chat.completion.chunk"
    prompt_in_choice = False

    parse: Callable[[str], tuple[str, list[JsonObject]]] | None = None
    """Parser of tool calls, if there are tools."""
    # By choice: the text that may hold a tool call.
    _texts: dict[int, str] = field(init=False, default_factory=dict)

    def _choice(self, index: int, tokens: Sequence[GeneratedToken]) -> JsonObject:
        message: JsonObject = {"role": "assistant", "refusal": None}
        answer, end = self._answer(join_text(tokens))
        return {"index": index, "message": message | answer, **self._details(tokens), **end}

    def _delta(self, index: int, token: GeneratedToken, *, is_first: bool) -> JsonObject:
        # OpenAI sends the role in the first chunk of a choice only.
        delta: JsonObject = {"role": "assistant"} if is_first else {}
        answer: JsonObject = {"content": token.text}
        end: JsonObject = {}
        if self.parse is not None:
            # Whether a text is a call is known at its end only, so the last chunk has all of it.
            self._texts[index] = text = self._texts.get(index, "") + token.text
            answer = {"content": ""}
            if token.finish_reason is not None:
                answer, end = self._answer(text)
        return {"index": index, "delta": delta | answer, **self._details([token]), **end}

    def _answer(self, text: str) -> tuple[JsonObject, JsonObject]:
        """Return content and tool calls, and the finish reason if there are calls."""
        if self.parse is None:
            return {"content": text}, {}
        content, calls = self.parse(text)
        if not calls:
            return {"content": content}, {}
        numbered: list[JsonValue] = [{"index": n, **call} for n, call in enumerate(calls)]
        return {"content": content or None, "tool_calls": numbered}, {"finish_reason": "tool_calls"}

    def _details(self, tokens: Sequence[GeneratedToken]) -> JsonObject:
        content: list[JsonValue] = [self._logprob(token) for token in tokens]
        return {
            "logprobs": {"content": content, "refusal": None} if self.has_logprobs else None,
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
        text = self.token_text(token)
        return {"token": text, "logprob": finite_logprob(logprob), "bytes": [*text.encode()]}


@dataclass(kw_only=True)
class TextResponseBuilder(ResponseBuilder):
    """Format of `/v1/completions`."""

    id_prefix = "cmpl"
    object_name = chunk_object_name = "text_completion"
    prompt_in_choice = True

    echoes: Sequence[Sequence[str]] = ()
    """By prompt: the texts of its tokens, which precede each answer; empty for none."""
    # By choice: the characters that were sent in chunks.
    _lengths: dict[int, int] = field(init=False, default_factory=dict)

    def _choice(self, index: int, tokens: Sequence[GeneratedToken]) -> JsonObject:
        return self._format(index, tokens, self._echo(index), 0)

    def _delta(self, index: int, token: GeneratedToken, *, is_first: bool) -> JsonObject:
        echo = self._echo(index) if is_first else ()
        start = self._lengths.get(index, 0)
        self._lengths[index] = start + sum(map(len, echo)) + len(token.text)
        return self._format(index, [token], echo, start)

    def _echo(self, index: int) -> Sequence[str]:
        return self.echoes[index // self.job.choices_per_prompt] if self.echoes else ()

    def _format(
        self, index: int, tokens: Sequence[GeneratedToken], echo: Sequence[str], start: int
    ) -> JsonObject:
        """Return the choice of a response or of a chunk, whose text starts at `start`."""
        logprobs = self._logprobs(index, tokens, echo, start) if self.has_logprobs else None
        return {
            "index": index,
            "text": "".join(echo) + join_text(tokens),
            "logprobs": logprobs,
            "finish_reason": tokens[-1].finish_reason,
            **self._token_ids(tokens),
        }

    def _logprobs(
        self, index: int, tokens: Sequence[GeneratedToken], echo: Sequence[str], start: int
    ) -> JsonObject:
        choice = self.job.choices[index]
        prompt_ids = choice.prompt_ids if echo else []
        scores = self._scores(index) if echo else ()
        # The first token of a text has no probability: nothing precedes it.
        first: list[JsonValue] = [None] if echo else []
        tops = [score.top[: choice.params.top_logprobs] for score in scores]
        tops += [token.top for token in tokens]
        text = self.token_text
        texts = [*echo, *(token.text for token in tokens)]
        return {
            "tokens": [text(token) for token in (*prompt_ids, *(token.id for token in tokens))],
            "token_logprobs": first + [finite_logprob(t.logprob) for t in (*scores, *tokens)],
            "sampled_logprobs": [None for _ in prompt_ids]
            + [finite_logprob(token.sampled_logprob) for token in tokens],
            "top_logprobs": first
            + [{text(other.id): finite_logprob(other.logprob) for other in top} for top in tops],
            # The position of each token in the text of the choice.
            "text_offset": [*accumulate(map(len, texts[:-1]), initial=start)],
        }


def join_text(tokens: Sequence[GeneratedToken]) -> str:
    return "".join(token.text for token in tokens)


def finite_logprob(logprob: float) -> float:
    return max(logprob, MIN_LOGPROB)
