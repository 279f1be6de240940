"""The endpoints for chat and text completions: from a checked body to the response."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response, StreamingResponse

from arena.core.errors import ArenaError
from arena.http.access import invalid_value, to_api_error
from backends.embedded.sampler import SamplingParams
from backends.server.generation import ChoiceRequest, ChoiceToken, Generation, format_event
from backends.server.messages import parse_calls
from backends.server.responses import (
    ChatResponseBuilder,
    ResponseBuilder,
    TextResponseBuilder,
    finite_logprob,
    join_text,
)
from backends.server.schemas import (
    MAX_CHOICES,
    ChatBody,
    GenerateBody,
    LegacyBody,
    SamplingBody,
    TextBody,
)

if TYPE_CHECKING:
    from pydantic import JsonValue
    from starlette.requests import Request

    from backends.embedded.sampler import GeneratedToken, PromptLogprob
    from backends.server.tokenization import Tokenizing

SAMPLING_FIELDS = (
    "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
    "repetition_penalty", "logit_bias", "min_tokens", "stop",
)  # fmt: skip
"""Fields of a body that the sampler has under the same name."""
MAX_SCORES = 200_000
"""Log-probabilities of prompts in one response: they take up to 200 bytes each."""


@dataclass(frozen=True, slots=True)
class CompletionEndpoints:
    """The endpoints that complete chats and texts."""

    generation: Generation
    tokenizing: Tokenizing
    tokens_as_ids: bool = False
    """Represent tokens as "token_id:123" unless a request chooses."""

    async def chat(self, request: Request, body: ChatBody) -> Response:
        """Answer a chat."""
        if body.top_logprobs and not body.logprobs:
            raise invalid_value("top_logprobs", "top_logprobs: needs logprobs: true")
        tools = body.usable_tools
        # Templates without a variable for thinking ignore it: their models do not think.
        template = {"enable_thinking": False} if body.reasoning_effort == "none" else {}
        prompt = await self.tokenizing.encode_chat(body.messages, tools, **template)
        _check_scores(len(prompt), body.prompt_logprobs)
        # OpenAI's newer name has priority.
        max_tokens = body.max_completion_tokens or body.max_tokens
        choices = self.choices(body, prompt, max_tokens, body.top_logprobs, body.prompt_logprobs)
        parse = partial(
            parse_calls, tools=tools, required=body.must_call, parallel=body.parallel_tool_calls
        )
        make_builder = partial(
            ChatResponseBuilder, has_logprobs=body.logprobs, parse=parse if tools else None
        )
        return await self._respond(request, body, make_builder, choices)

    async def text(self, request: Request, body: TextBody) -> Response:
        """Complete one or several texts."""
        prompts = [await self.tokenizing.encode_prompt(prompt) for prompt in body.prompts]
        # Each field is within its limits, but the product decides how much is sampled.
        if not 1 <= len(prompts) * body.n <= MAX_CHOICES:
            raise invalid_value("prompt", f"prompt: prompts times n must be 1 to {MAX_CHOICES}")
        # With `echo` the log-probabilities of the prompt precede those of the answer.
        counts = (body.prompt_logprobs, body.logprobs if body.echo else None)
        scored = max((count for count in counts if count is not None), default=None)
        _check_scores(sum(map(len, prompts)), scored)
        choices = [
            choice
            for prompt in prompts
            for choice in self.choices(body, prompt, body.max_tokens, body.logprobs or 0, scored)
        ]
        make_builder = partial(
            TextResponseBuilder,
            has_logprobs=body.logprobs is not None,
            echoes=[await self.tokenizing.split(prompt) for prompt in prompts if body.echo],
        )
        return await self._respond(request, body, make_builder, choices)

    async def legacy(self, request: Request, body: LegacyBody) -> Response:
        """Answer a request of an earlier Cluedo arena with one text."""
        prompt = await self.tokenizing.encode_chat(body.chat)
        params = SamplingParams(
            temperature=body.temperature,
            max_tokens=self.generation.limit_tokens(prompt, body.max_tokens, "messages"),
            seed=body.seed,
        )
        job = self.generation.job(request, body.model, [ChoiceRequest(prompt, params)])
        [tokens] = await self.generation.collect(request, job)
        return JSONResponse({"request_id": str(uuid.uuid4()), "content": join_text(tokens)})

    async def generate(self, request: Request, body: GenerateBody) -> Response:
        """Complete a prompt in the format of Atropos' server.

        Its requests name no model: the adapter that was loaded last answers, through whichever
        endpoint it was loaded, or else the base model.
        """
        tokenizing, generation = self.tokenizing, self.generation
        ids = await tokenizing.encode_prompt(body.prompt.prompt_token_ids or body.prompt.prompt)
        _check_scores(len(ids), body.prompt_logprobs)
        choices = self.choices(body, ids, body.max_tokens, body.logprobs or 0, body.prompt_logprobs)
        job = generation.job(request, body.model or generation.models.newest_name, choices, body.n)
        answers = await generation.collect(request, job)
        answer: dict[str, JsonValue] = {
            "text": [join_text(tokens) for tokens in answers],
            "prompt": body.prompt.prompt or await tokenizing.decode(ids),
            "finish_reasons": [tokens[-1].finish_reason for tokens in answers],
        }
        if body.logprobs is not None:
            answer |= {
                "logprobs": [
                    [[_scores(token, body.logprobs)] for token in tokens] for tokens in answers
                ],
                "prompt_token_ids": [*ids],
                "token_ids": [[token.id for token in tokens] for tokens in answers],
            }
        if body.prompt_logprobs is not None:
            # Nothing precedes the first token, so it has no probability.
            answer["prompt_logprobs"] = [
                None,
                *(_scores(token, body.prompt_logprobs) for token in answers[0][0].prompt_logprobs),
            ]
        return JSONResponse(answer)

    def choices(
        self,
        body: SamplingBody,
        prompt: list[int],
        max_tokens: int | None,
        top_logprobs: int,
        prompt_logprobs: int | None,
    ) -> list[ChoiceRequest]:
        """Return the `n` choices of a prompt. Choice i has the seed plus i, as in vLLM."""
        constraint = body.constraint
        param = "messages" if isinstance(body, ChatBody) else "prompt"
        params = partial(
            SamplingParams,
            **{name: getattr(body, name) for name in SAMPLING_FIELDS},
            max_tokens=self.generation.limit_tokens(prompt, max_tokens, param),
            guided_choice=constraint.choice,
            guided_regex=constraint.regex,
            guided_json=constraint.json_schema,
            guided_grammar=constraint.grammar,
            top_logprobs=top_logprobs,
        )
        # The first choice scores the prompt for all; the others find it in the cache.
        return [
            ChoiceRequest(
                prompt,
                params(
                    seed=None if body.seed is None else body.seed + number,
                    prompt_logprobs=None if number else prompt_logprobs,
                ),
            )
            for number in range(body.n)
        ]

    async def _respond(
        self,
        request: Request,
        body: SamplingBody,
        make_builder: Callable[..., ResponseBuilder],
        choices: Sequence[ChoiceRequest],
    ) -> Response:
        """Generate the choices; return them as one response or as a stream of events."""
        if body.stream and body.prompt_logprobs is not None:
            message = "prompt_logprobs: not available with stream: true"
            raise invalid_value("prompt_logprobs", message)
        as_ids = body.return_tokens_as_token_ids
        as_ids = self.tokens_as_ids if as_ids is None else as_ids
        decode = self.generation.sampler.chat_tokenizer.token_text
        job = self.generation.job(request, body.model, choices, body.n)
        builder = make_builder(
            job=job,
            token_text="token_id:{}".format if as_ids else decode,
            has_token_ids=body.return_token_ids,
            prompt_logprobs=body.prompt_logprobs,
        )
        if not body.stream:
            return JSONResponse(builder.complete(await self.generation.collect(request, job)))
        tokens = await self.generation.stream(request, job)
        events = _events(builder, tokens, body.stream_options.include_usage)
        headers = {"Cache-Control": "no-cache"}
        return StreamingResponse(events, headers=headers, media_type="text/event-stream")


def _scores(token: GeneratedToken | PromptLogprob, count: int) -> dict[str, JsonValue]:
    """Return log-probabilities by id: the token's own, then those of the `count` most probable."""
    scores: dict[str, JsonValue] = {str(token.id): finite_logprob(token.logprob)}
    for top in token.top[:count]:
        # The token itself may be among them; clients take the first entry for its own.
        scores.setdefault(str(top.id), finite_logprob(top.logprob))
    return scores


def _check_scores(tokens: int, alternatives: int | None) -> None:
    """Raise ApiError if a response had too many log-probabilities of prompts."""
    if alternatives is not None and tokens * (1 + alternatives) > MAX_SCORES:
        raise invalid_value(
            "prompt_logprobs",
            f"prompt_logprobs, echo: {tokens} prompt tokens with {alternatives} alternatives each "
            f"are more than {MAX_SCORES} log-probabilities; send fewer or shorter prompts",
        )


async def _events(
    builder: ResponseBuilder, tokens: AsyncGenerator[ChoiceToken, None], include_usage: bool
) -> AsyncIterator[str]:
    """Yield the response as server-sent events; a later error becomes an event too."""
    async with aclosing(tokens):  # Also when the client leaves: stops the sampling.
        try:
            async for item in tokens:
                yield format_event(builder.chunk(item.index, item.token))
            if include_usage:
                yield format_event(builder.usage_chunk())
        except ArenaError as error:
            yield format_event(to_api_error(error).body)
    # OpenAI's end mark, also after an error, so that no client waits for more.
    yield "data: [DONE]\n\n"
