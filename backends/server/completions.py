"""The endpoint for chat completions: from a checked body to the response.

The choices of a request are generated concurrently and merged into one stream of tokens; the
response is complete, or a stream of server-sent events.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from jinja2 import TemplateError
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse

from arena.core.errors import ArenaError
from backends.embedded.sampler import SamplingParams
from backends.server.wire import (
    ChatBody,
    GenerationJob,
    ResponseBuilder,
    invalid_value,
    to_api_error,
)

if TYPE_CHECKING:
    from pydantic import JsonValue
    from starlette.requests import Request

    from backends.embedded.sampler import GeneratedToken, Sampler
    from backends.server.models import ModelEndpoints

Result = TypeVar("Result")
ChoiceToken = tuple[int, "GeneratedToken"]
"""A token, after the index of its choice."""
SAMPLING_FIELDS = ("temperature", "top_p", "min_tokens", "stop", "top_logprobs")
"""Fields of a body that the sampler has under the same name."""
LONG_TEXT = 20_000
"""Characters; a text of this length is tokenized within a few milliseconds."""


class ChatEndpoint:
    """The endpoint that completes chats.

    With `tokens_as_ids` tokens are represented as "token_id:123" unless a request chooses.
    """

    def __init__(
        self, sampler: Sampler, models: ModelEndpoints, tokens_as_ids: bool = False
    ) -> None:
        self._sampler = sampler
        self._models = models
        self._tokens_as_ids = tokens_as_ids
        self._tokenizing = asyncio.Lock()

    async def chat(self, request: Request, body: ChatBody) -> Response:
        """Generate the choices; return them as one response or as a stream of events."""
        if body.top_logprobs and not body.logprobs:
            raise invalid_value("top_logprobs", "top_logprobs: needs logprobs: true")
        # Noted for the log of requests.
        request.state.job = job = self._job(body, await self._encode(body))
        as_ids = body.return_tokens_as_token_ids
        as_ids = self._tokens_as_ids if as_ids is None else as_ids
        builder = ResponseBuilder(
            job=job,
            token_text="token_id:{}".format if as_ids else self._sampler.chat_tokenizer.token_text,
            token_bytes=self._sampler.chat_tokenizer.tokenizer.token_bytes,
            has_logprobs=body.logprobs,
            has_token_ids=body.return_token_ids,
        )
        if not body.stream:
            return JSONResponse(builder.complete(await self._collect(request, job)))
        stream = _stream_tokens(self._sampler, job)
        # Before the head of the response is sent, an error can still change its status.
        first = await _cancel_on_disconnect(request, anext(stream))
        events = _events(builder, first, stream, body.stream_options.include_usage)
        headers = {"Cache-Control": "no-cache"}
        return StreamingResponse(events, headers=headers, media_type="text/event-stream")

    def _job(self, body: ChatBody, prompt: list[int]) -> GenerationJob:
        """Return the job with the `n` choices of a body. Choice i has the seed plus i, as in vLLM.

        Raises ApiError if the model is not served.
        """
        name = self._models.resolve(body.model)
        # OpenAI's newer name has priority.
        max_tokens = body.max_completion_tokens or body.max_tokens
        params = partial(
            SamplingParams,
            **{name: getattr(body, name) for name in SAMPLING_FIELDS},
            guided_choice=body.structured_outputs.choice,
            max_tokens=max_tokens or max(1, self._sampler.context_length - len(prompt)),
        )
        seeds = [None if body.seed is None else body.seed + number for number in range(body.n)]
        choices = tuple(params(seed=seed) for seed in seeds)
        adapter = None if name == self._sampler.name else name
        return GenerationJob(name, self._sampler.engine, adapter, prompt, choices)

    async def _collect(self, request: Request, job: GenerationJob) -> list[list[GeneratedToken]]:
        """Return all tokens of each choice. Raises ArenaError, ClientDisconnect."""
        collected: list[list[GeneratedToken]] = [[] for _ in job.choices]

        async def read() -> list[list[GeneratedToken]]:
            async for index, token in stream:
                collected[index].append(token)
            return collected

        async with aclosing(_stream_tokens(self._sampler, job)) as stream:
            return await _cancel_on_disconnect(request, read())

    async def _encode(self, body: ChatBody) -> list[int]:
        """Return the prompt tokens. Raises ApiError if the chat template refuses the chat.

        A long text is tokenized in a thread, one at a time: 2 MB take seconds.
        """
        chat = [message.plain for message in body.messages]
        # Templates without a variable for thinking ignore it: their models do not think.
        template = {"enable_thinking": False} if body.reasoning_effort == "none" else {}
        encode = partial(self._sampler.chat_tokenizer.encode, chat, **template)
        try:
            if sum(len(message.content) for message in chat) <= LONG_TEXT:
                return encode()
            # The tokenizer releases the GIL, so other requests go on in the event loop.
            async with self._tokenizing:
                return await asyncio.to_thread(encode)
        except TemplateError as error:
            message = f"messages: the model's chat template refuses them: {error}"
            raise invalid_value("messages", message) from error


async def _events(
    builder: ResponseBuilder,
    first: ChoiceToken,
    rest: AsyncGenerator[ChoiceToken, None],
    include_usage: bool,
) -> AsyncIterator[str]:
    """Yield the response as server-sent events; a later error becomes an event too."""
    async with aclosing(rest):  # Also when the client leaves: stops the sampling.
        yield _event(builder.chunk(*first))
        try:
            async for item in rest:
                yield _event(builder.chunk(*item))
            if include_usage:
                yield _event(builder.usage_chunk())
        except ArenaError as error:
            yield _event(to_api_error(error).body)
    # OpenAI's end mark, also after an error, so that no client waits for more.
    yield "data: [DONE]\n\n"


def _event(data: dict[str, JsonValue]) -> str:
    """Return a server-sent event."""
    return f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"


async def _stream_tokens(sampler: Sampler, job: GenerationJob) -> AsyncGenerator[ChoiceToken, None]:
    """Yield the tokens of all choices in the order of sampling.

    The first tokens are held back until every choice has one: after this point the sampler refuses
    none of the choices, so a response can start. Closing the iterator stops the sampling.
    """
    queue: asyncio.Queue[ChoiceToken | Exception] = asyncio.Queue()

    async def generate(index: int, params: SamplingParams) -> None:
        try:
            async for token in sampler.generate(job.prompt_ids, params, job.adapter):
                queue.put_nowait((index, token))
        except Exception as error:  # Raised again by the loop that reads the queue.
            queue.put_nowait(error)

    # One task per choice; the sampler batches them. The queue merges their tokens.
    tasks = [asyncio.create_task(generate(n, choice)) for n, choice in enumerate(job.choices)]
    running = len(tasks)
    started: set[int] = set()
    held_back: list[ChoiceToken] = []
    try:
        while running:
            item = await queue.get()
            if isinstance(item, Exception):
                raise item
            job.generated += 1
            started.add(item[0])
            held_back.append(item)
            running -= item[1].finish_reason is not None  # The last token of its choice.
            if len(started) == len(tasks):
                for ready in held_back:
                    yield ready
                held_back.clear()
    finally:  # Also when the client has disconnected: frees the slots of the sampler.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _cancel_on_disconnect(request: Request, work: Awaitable[Result]) -> Result:
    """Return the result of the work; cancel it and raise ClientDisconnect if the client leaves."""

    async def wait_for_disconnect() -> None:
        # After the body, the only message that `receive` can return is the disconnect.
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(wait_for_disconnect())
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)
