"""`/v1/chat/completions` and `/v1/completions`: from a checked body to the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from jinja2 import TemplateError
from starlette.responses import JSONResponse, Response, StreamingResponse

from arena.core.errors import ArenaError
from backends.embedded.sampler import Draw
from backends.server.answers import Answer, ChatFormat, TextFormat, new_id, usage_of
from backends.server.errors import ApiError
from backends.server.generation import (
    Ask,
    Job,
    Piece,
    begun,
    collected,
    pieces,
    refusal,
    unless_gone,
)
from backends.server.schemas import MOST_CHOICES, ChatBody, SampledBody, TextBody

if TYPE_CHECKING:
    from starlette.requests import Request

    from arena.core.json import Json
    from arena.llm.backend import Message
    from backends.embedded.sampler import Sampler
    from backends.server.answers import Spelling
    from backends.server.metrics import Metrics


LONG_TEXT = 20_000
"""Characters; up to so many are encoded in a few milliseconds."""


@dataclass(frozen=True, slots=True)
class Completions:
    """Answers requests for one sampler and its adapters."""

    sampler: Sampler
    metrics: Metrics
    tokens_as_ids: bool = False
    """Spell tokens as "token_id:123" unless a request says otherwise."""
    encoding: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def chat(self, request: Request, body: ChatBody) -> Response:
        if body.top_logprobs and not body.logprobs:
            message = "top_logprobs: needs logprobs: true"
            raise ApiError(400, message, param="top_logprobs", code="invalid_value")
        prompt = await self.encode_chat([message.message for message in body.messages])
        asks = self._asks(body, prompt, body.most_tokens, body.top_logprobs)
        format_ = ChatFormat(self._spelling(body), body.logprobs, body.return_token_ids)
        job = self.job(body.model, asks, len(prompt))
        answer = Answer(format_, job, body.return_token_ids, new_id(format_.words.id_prefix))
        return await self._respond(request, body, answer)

    async def text(self, request: Request, body: TextBody) -> Response:
        prompts = [await self._encode_text(prompt) for prompt in body.prompts]
        if not 1 <= len(prompts) * body.n <= MOST_CHOICES:
            message = f"prompt: prompts times n must be 1 to {MOST_CHOICES}"
            raise ApiError(400, message, param="prompt", code="invalid_value")
        asks = tuple(
            ask
            for prompt in prompts
            for ask in self._asks(body, prompt, body.max_tokens, body.logprobs or 0)
        )
        format_ = TextFormat(self._spelling(body), body.logprobs is not None, body.return_token_ids)
        job = self.job(body.model, asks, sum(map(len, prompts)))
        answer = Answer(format_, job, body.return_token_ids, new_id(format_.words.id_prefix))
        return await self._respond(request, body, answer)

    def job(self, model: str, asks: Sequence[Ask], prompt_tokens: int) -> Job:
        """The asks, and who answers them. Raises ApiError for a model that is not served."""
        name = model or self.sampler.name
        if name != self.sampler.name and name not in self.sampler.adapters:
            message = f"The model `{name}` does not exist."
            raise ApiError(404, message, param="model", code="model_not_found")
        adapter = None if name == self.sampler.name else name
        return Job(name, adapter, tuple(asks), prompt_tokens)

    def room(self, prompt: Sequence[int], most_tokens: int | None, param: str = "messages") -> int:
        """How many tokens the answer may have: what is asked for, or what the context leaves.

        Raises ApiError if not even one token fits behind the prompt.
        """
        limit = self.sampler.context_length
        left = limit - len(prompt)
        if left < 1:
            message = (
                f"This model's maximum context length is {limit} tokens, the answer included, and "
                f"your prompt has {len(prompt)}. Shorten it."
            )
            raise ApiError(400, message, param=param, code="context_length_exceeded")
        return min(most_tokens or left, left)

    async def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """The prompt's tokens. Raises ApiError for a chat that the model's template refuses."""
        length = sum(len(message.content) for message in messages)
        try:
            return await self._aside(length, partial(self.sampler.encode, messages))
        except TemplateError as error:
            message = f"messages: the model's chat template refuses them: {error}"
            raise ApiError(400, message, param="messages", code="invalid_value") from error

    async def _encode_text(self, prompt: str | list[int]) -> list[int]:
        tokenizer = self.sampler.tokenizer
        if isinstance(prompt, str):
            ids = await self._aside(len(prompt), partial(tokenizer.encode, prompt))
        else:
            ids = prompt
        if not ids or not all(0 <= token < len(tokenizer) for token in ids):
            message = "prompt: give at least one token, and only tokens of the vocabulary"
            raise ApiError(400, message, param="prompt", code="invalid_value")
        return ids

    async def _aside(self, length: int, encode: Callable[[], list[int]]) -> list[int]:
        """Encode long texts, one at a time, where they hold nobody up: 2 MB take seconds."""
        if length <= LONG_TEXT:
            return encode()
        async with self.encoding:
            return await asyncio.to_thread(encode)

    def _asks(
        self, body: SampledBody, prompt: list[int], most_tokens: int | None, top_logprobs: int
    ) -> tuple[Ask, ...]:
        """The `n` answers; each counts its seed up, as vLLM does, so that they differ."""
        guide = body.guide
        room = self.room(
            prompt, most_tokens, "prompt" if isinstance(body, TextBody) else "messages"
        )

        def draw(number: int) -> Draw:
            return Draw(
                temperature=body.temperature,
                top_p=body.top_p,
                max_tokens=room,
                stop=body.stop,
                seed=None if body.seed is None else body.seed + number,
                guided_choice=guide.choice,
                guided_regex=guide.regex,
                guided_json=guide.json_schema,
                top_logprobs=top_logprobs,
            )

        return tuple(Ask(prompt, draw(number)) for number in range(body.n))

    def _spelling(self, body: SampledBody) -> Spelling:
        as_ids = body.return_tokens_as_token_ids
        if self.tokens_as_ids if as_ids is None else as_ids:
            return "token_id:{}".format
        return self.sampler.chat.text

    async def _respond(self, request: Request, body: SampledBody, answer: Answer) -> Response:
        running = pieces(self.sampler, answer.job, self.metrics)
        answers = len(answer.job.asks)
        try:
            if not body.stream:
                async with aclosing(running):
                    drawn = await unless_gone(request, collected(running, answers))
                cached = {index: tokens[0].cached_tokens for index, tokens in enumerate(drawn)}
                usage = usage_of(answer.job, sum(map(len, drawn)), cached)
                return JSONResponse(answer.whole(drawn, usage))
            early = await unless_gone(request, begun(running, answers))
        except ArenaError as error:
            raise refusal(error) from error
        events = self._events(answer, early, running, body.stream_options.include_usage)
        no_cache = {"Cache-Control": "no-cache"}
        return StreamingResponse(events, headers=no_cache, media_type="text/event-stream")

    async def _events(
        self,
        answer: Answer,
        early: Sequence[Piece],
        running: AsyncGenerator[Piece, None],
        include_usage: bool,
    ) -> AsyncIterator[str]:
        """The answer as server-sent events. A fault in the middle becomes an event too."""
        cached: dict[int, int] = {}
        generated = 0
        async with aclosing(_chained(early, running)) as both:
            try:
                async for piece in both:
                    first = piece.index not in cached
                    cached.setdefault(piece.index, piece.drawn.cached_tokens)
                    generated += 1
                    yield _event(answer.chunk(piece.index, piece.drawn, first=first))
                if include_usage:
                    yield _event(answer.usage_chunk(usage_of(answer.job, generated, cached)))
            except ArenaError as error:
                yield _event(refusal(error).body)
        yield "data: [DONE]\n\n"


async def _chained(
    early: Sequence[Piece], running: AsyncGenerator[Piece, None]
) -> AsyncGenerator[Piece, None]:
    async with aclosing(running):
        for piece in early:
            yield piece
        async for piece in running:
            yield piece


def _event(data: dict[str, Json]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"
