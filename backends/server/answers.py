"""Answers as OpenAI's clients read them, whole and in chunks.

Beside OpenAI's fields: `sampled_logprob` next to each logprob (the token's log-probability under
the distribution that it was drawn from), and vLLM's `token_ids` and `prompt_token_ids`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from arena.core.json import Json
    from backends.embedded.sampler import Drawn, TopLogprob
    from backends.server.generation import Job

_LEAST_LOGPROB = -9999.0
"""JSON has no infinity; this is vLLM's stand-in."""


class Spelling(Protocol):
    """Spells a token out for a list of log-probabilities."""

    def __call__(self, token: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Words:
    """The constants of an endpoint."""

    id_prefix: str
    whole: str
    chunk: str
    prompt_in_choice: bool
    """Where vLLM puts the prompt's token ids: into each choice, or beside them."""


class Format(Protocol):
    """How one endpoint spells its answers."""

    @property
    def words(self) -> Words: ...

    def choice(self, index: int, drawn: Sequence[Drawn]) -> dict[str, Json]:
        """One whole answer."""

    def delta(self, index: int, drawn: Drawn, *, first: bool) -> dict[str, Json]:
        """One token of an answer."""


@dataclass(frozen=True, slots=True)
class ChatFormat:
    spell: Spelling
    logprobs: bool
    token_ids: bool
    words: Words = Words("chatcmpl", "chat.completion", "chat.completion.chunk", False)

    def choice(self, index: int, drawn: Sequence[Drawn]) -> dict[str, Json]:
        message = {"role": "assistant", "content": text_of(drawn), "refusal": None}
        return {"index": index, "message": message} | self._details(drawn)

    def delta(self, index: int, drawn: Drawn, *, first: bool) -> dict[str, Json]:
        delta = {"role": "assistant"} if first else {}
        return {"index": index, "delta": delta | {"content": drawn.text}} | self._details([drawn])

    def _details(self, drawn: Sequence[Drawn]) -> dict[str, Json]:
        content = [self._logprob(token) for token in drawn]
        details: dict[str, Json] = {
            "logprobs": {"content": content, "refusal": None} if self.logprobs else None,
            "finish_reason": drawn[-1].finish_reason,
        }
        return details | ({"token_ids": [token.id for token in drawn]} if self.token_ids else {})

    def _logprob(self, drawn: Drawn) -> dict[str, Json]:
        top = [self._spelled(other.id, other.logprob) for other in drawn.top]
        return self._spelled(drawn.id, drawn.logprob) | {
            "sampled_logprob": finite(drawn.sampled_logprob),
            "top_logprobs": top,
        }

    def _spelled(self, token: int, logprob: float) -> dict[str, Json]:
        text = self.spell(token)
        return {"token": text, "logprob": finite(logprob), "bytes": list(text.encode())}


@dataclass(frozen=True, slots=True)
class TextFormat:
    spell: Spelling
    logprobs: bool
    token_ids: bool
    words: Words = Words("cmpl", "text_completion", "text_completion", True)

    def choice(self, index: int, drawn: Sequence[Drawn]) -> dict[str, Json]:
        choice: dict[str, Json] = {
            "index": index,
            "text": text_of(drawn),
            "logprobs": self._logprobs(drawn) if self.logprobs else None,
            "finish_reason": drawn[-1].finish_reason,
        }
        return choice | ({"token_ids": [token.id for token in drawn]} if self.token_ids else {})

    def delta(self, index: int, drawn: Drawn, *, first: bool) -> dict[str, Json]:
        return self.choice(index, [drawn])

    def _logprobs(self, drawn: Sequence[Drawn]) -> dict[str, Json]:
        offsets = list(accumulate((len(token.text) for token in drawn[:-1]), initial=0))
        return {
            "tokens": [self.spell(token.id) for token in drawn],
            "token_logprobs": [finite(token.logprob) for token in drawn],
            "sampled_logprobs": [finite(token.sampled_logprob) for token in drawn],
            "top_logprobs": [self._top(token.top) for token in drawn],
            "text_offset": offsets,
        }

    def _top(self, top: Sequence[TopLogprob]) -> dict[str, Json]:
        return {self.spell(other.id): finite(other.logprob) for other in top}


@dataclass(frozen=True, slots=True)
class Answer:
    """What all chunks of one answer, or the whole of it, share."""

    format: Format
    job: Job
    prompt_token_ids: bool
    id: str
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, drawn: Sequence[Sequence[Drawn]], usage: dict[str, Json]) -> dict[str, Json]:
        choices = [
            self.format.choice(index, tokens) | self._prompt(index, in_choice=True)
            for index, tokens in enumerate(drawn)
        ]
        head = self._head(self.format.words.whole) | self._prompt(0, in_choice=False)
        return head | {"choices": choices, "usage": usage}

    def chunk(self, index: int, drawn: Drawn, *, first: bool) -> dict[str, Json]:
        choice = self.format.delta(index, drawn, first=first)
        head = self._head(self.format.words.chunk)
        if first:
            choice |= self._prompt(index, in_choice=True)
            head |= self._prompt(index, in_choice=False)
        return head | {"choices": [choice]}

    def usage_chunk(self, usage: dict[str, Json]) -> dict[str, Json]:
        return self._head(self.format.words.chunk) | {"choices": [], "usage": usage}

    def _head(self, kind: str) -> dict[str, Json]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.job.model}

    def _prompt(self, index: int, *, in_choice: bool) -> dict[str, Json]:
        wanted = self.prompt_token_ids and in_choice == self.format.words.prompt_in_choice
        return {"prompt_token_ids": self.job.asks[index].prompt_ids} if wanted else {}


def new_id(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex}"


def usage_of(job: Job, generated: int, cached: Mapping[int, int]) -> dict[str, Json]:
    """OpenAI's account; `cached` by answer, of which the first of each prompt counts."""
    prompts = {id(ask.prompt_ids): index for index, ask in reversed(list(enumerate(job.asks)))}
    return {
        "prompt_tokens": job.prompt_tokens,
        "completion_tokens": generated,
        "total_tokens": job.prompt_tokens + generated,
        "prompt_tokens_details": {"cached_tokens": sum(cached[i] for i in prompts.values())},
    }


def text_of(drawn: Sequence[Drawn]) -> str:
    return "".join(token.text for token in drawn)


def finite(logprob: float) -> float:
    return max(logprob, _LEAST_LOGPROB)
