"""The endpoints that generate text: from a checked request body to the response."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from jinja2 import TemplateError
from starlette.responses import JSONResponse, Response, StreamingResponse

from arena.core.errors import ArenaError
from backends.embedded.sampler import SamplingParams
from backends.server.access import ApiError, invalid_value, to_api_error, unknown_model
from backends.server.generation import (
    ChoiceRequest,
    ChoiceToken,
    GenerationJob,
    cancel_on_disconnect,
    collect_choices,
    stream_tokens,
)
from backends.server.messages import parse_calls, render_chat
from backends.server.responses import (
    ChatResponseBuilder,
    ResponseBuilder,
    TextResponseBuilder,
    join_text,
)
from backends.server.schemas import MAX_CHOICES, ChatBody, LegacyBody, SamplingBody, TextBody

if TYPE_CHECKING:
    from pydantic import JsonValue
    from starlette.requests import Request

    from arena.llm.backend import Message
    from backends.embedded.sampler import GeneratedToken, Sampler
    from backends.server.metrics import ServerMetrics

LONG_TEXT = 20_000
"""Characters; a text of this length is tokenized within a few milliseconds."""


@dataclass(frozen=True, slots=True)
class CompletionEndpoints:
    """The generating endpoints of one sampler and its adapters."""

    sampler: Sampler
    metrics: ServerMetrics
    tokens_as_ids: bool = False
    """Represent tokens as "token_id:123" unless a request chooses."""
    tokenizing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def chat(self, request: Request, body: ChatBody) -> Response:
        """Answer `/v1/chat/completions`."""
        if body.top_logprobs and not body.logprobs:
            raise invalid_value("top_logprobs", "top_logprobs: needs logprobs: true")
        tools = body.usable_tools
        prompt = await self._encode_chat(render_chat(body.messages, tools))
        # OpenAI's newer name has priority.
        max_tokens = body.max_completion_tokens or body.max_tokens
        choices = self._choices(body, prompt, max_tokens, body.top_logprobs)
        parse = partial(parse_calls, tools=tools, required=body.must_call) if tools else None
        make_builder = partial(ChatResponseBuilder, parse=parse)
        return await self._respond(request, body, make_builder, choices, body.logprobs)

    async def text(self, request: Request, body: TextBody) -> Response:
        """Answer `/v1/completions`."""
        prompts = [await self._encode_text(prompt) for prompt in body.prompts]
        # Each field is within its limits, but the product decides how much is sampled.
        if not 1 <= len(prompts) * body.n <= MAX_CHOICES:
            raise invalid_value("prompt", f"prompt: prompts times n must be 1 to {MAX_CHOICES}")
        choices = [
            choice
            for prompt in prompts
            for choice in self._choices(body, prompt, body.max_tokens, body.logprobs or 0)
        ]
        has_logprobs = body.logprobs is not None
        decode = self.sampler.tokenizer.decode
        echoed = choices if body.echo else []
        echoes = {number: str(decode(choice.prompt_ids)) for number, choice in enumerate(echoed)}
        make_builder = partial(TextResponseBuilder, echoes=echoes)
        return await self._respond(request, body, make_builder, choices, has_logprobs)

    async def legacy(self, request: Request, body: LegacyBody) -> Response:
        """Answer `/llm_request` with one text."""
        prompt = await self._encode_chat(body.chat)
        params = SamplingParams(
            temperature=body.temperature,
            max_tokens=self._limit_tokens(prompt, body.max_tokens, "messages"),
            seed=body.seed,
        )
        job = self._job(body.model, [ChoiceRequest(prompt, params)], 1)
        [tokens] = await self._generate(request, job)
        return JSONResponse({"request_id": str(uuid.uuid4()), "content": join_text(tokens)})

    def _job(self, model: str, choices: Sequence[ChoiceRequest], per_prompt: int) -> GenerationJob:
        """Return the job for a model or adapter. Raises ApiError if it is not served."""
        name = model or self.sampler.name
        if name != self.sampler.name and name not in self.sampler.adapters:
            raise unknown_model(name)
        adapter = None if name == self.sampler.name else name
        return GenerationJob(name, adapter, tuple(choices), per_prompt)

    def _choices(
        self, body: SamplingBody, prompt: list[int], max_tokens: int | None, top_logprobs: int
    ) -> list[ChoiceRequest]:
        """Return the `n` choices of a prompt. Choice i has the seed plus i, as in vLLM."""
        constraint = body.constraint
        param = "prompt" if isinstance(body, TextBody) else "messages"
        params = partial(
            SamplingParams,
            temperature=body.temperature,
            top_p=body.top_p,
            max_tokens=self._limit_tokens(prompt, max_tokens, param),
            stop=body.stop,
            guided_choice=constraint.choice,
            guided_regex=constraint.regex,
            guided_json=constraint.json_schema,
            guided_grammar=constraint.grammar,
            top_k=body.top_k,
            min_p=body.min_p,
            presence_penalty=body.presence_penalty,
            frequency_penalty=body.frequency_penalty,
            repetition_penalty=body.repetition_penalty,
            logit_bias=body.logit_bias,
            min_tokens=body.min_tokens,
            top_logprobs=top_logprobs,
        )
        seeds = [None if body.seed is None else body.seed + number for number in range(body.n)]
        return [ChoiceRequest(prompt, params(seed=seed)) for seed in seeds]

    def _limit_tokens(self, prompt: Sequence[int], max_tokens: int | None, param: str) -> int:
        """Return the maximal length of the answer: as requested, or the rest of the context.

        Raises ApiError, for the field `param`, if not even one token fits after the prompt.
        """
        context = self.sampler.context_length
        available = context - len(prompt)
        if available < 1:
            message = (
                f"This model's maximum context length is {context} tokens, including the answer, "
                f"and your prompt has {len(prompt)}. Shorten it."
            )
            raise ApiError(400, message, param=param, code="context_length_exceeded")
        return min(max_tokens or available, available)

    async def _encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Return the prompt tokens. Raises ApiError if the chat template refuses the chat."""
        length = sum(len(message.content) for message in messages)
        try:
            return await self._tokenize(length, partial(self.sampler.encode, messages))
        except TemplateError as error:
            message = f"messages: the model's chat template refuses them: {error}"
            raise invalid_value("messages", message) from error

    async def _encode_text(self, prompt: str | list[int]) -> list[int]:
        tokenizer = self.sampler.tokenizer
        if isinstance(prompt, str):
            ids = await self._tokenize(len(prompt), partial(tokenizer.encode, prompt))
        else:
            ids = prompt
        # Token ids of a client may be outside the vocabulary.
        if not ids or not all(0 <= token < len(tokenizer) for token in ids):
            message = "prompt: send at least one token, and only tokens of the vocabulary"
            raise invalid_value("prompt", message)
        return ids

    async def _tokenize(self, length: int, encode: Callable[[], list[int]]) -> list[int]:
        """Tokenize a long text in a thread, one at a time: 2 MB take seconds."""
        if length <= LONG_TEXT:
            return encode()
        # The tokenizer releases the GIL, so other requests go on in the event loop.
        async with self.tokenizing:
            return await asyncio.to_thread(encode)

    async def _generate(self, request: Request, job: GenerationJob) -> list[list[GeneratedToken]]:
        """Return all tokens of each choice. Raises ArenaError, ClientDisconnect."""
        async with aclosing(stream_tokens(self.sampler, job, self.metrics)) as stream:
            return await cancel_on_disconnect(request, collect_choices(stream, len(job.choices)))

    async def _respond(
        self,
        request: Request,
        body: SamplingBody,
        make_builder: Callable[..., ResponseBuilder],
        choices: Sequence[ChoiceRequest],
        logprobs: bool,
    ) -> Response:
        """Generate the choices; return them as one response or as a stream of events."""
        as_ids = body.return_tokens_as_token_ids
        as_ids = self.tokens_as_ids if as_ids is None else as_ids
        token_text = "token_id:{}".format if as_ids else self.sampler.chat_tokenizer.token_text
        job = self._job(body.model, choices, body.n)
        builder = make_builder(job, token_text, logprobs, body.return_token_ids)
        if not body.stream:
            return JSONResponse(builder.complete(await self._generate(request, job)))
        stream = stream_tokens(self.sampler, job, self.metrics)
        # Before the head of the response is sent, an error can still change its status.
        first = await cancel_on_disconnect(request, anext(stream))
        events = _events(builder, first, stream, body.stream_options.include_usage)
        headers = {"Cache-Control": "no-cache"}
        return StreamingResponse(events, headers=headers, media_type="text/event-stream")


async def _events(
    builder: ResponseBuilder,
    first: ChoiceToken,
    stream: AsyncGenerator[ChoiceToken, None],
    include_usage: bool,
) -> AsyncIterator[str]:
    """Yield the response as server-sent events; a later error becomes an event too."""
    async with aclosing(stream):
        try:
            item: ChoiceToken | None = first
            while item is not None:
                yield _event(builder.chunk(item.index, item.token))
                item = await anext(stream, None)
            if include_usage:
                yield _event(builder.usage_chunk())
        except ArenaError as error:
            yield _event(to_api_error(error).body)
    # OpenAI's end mark, also after an error, so that no client waits for more.
    yield "data: [DONE]\n\n"


def _event(data: dict[str, JsonValue]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"
