"""The calls of Atropos' trainer and environments: `/generate`, and the adapter that answers it.

The formats are those of `vllm_api_server.py` in atroposlib 0.4.0. Its requests name no model: the
adapter that was loaded last answers, through whichever endpoint it was loaded. The trainer tries
vLLM's `/v1/load_lora_adapter` first, and `/lora/load` if that one fails.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, field_validator
from starlette.responses import JSONResponse, Response

from backends.embedded.architecture import read_json_object
from backends.server.completions import CompletionEndpoints, check_scores
from backends.server.messages import EndpointBody, NeutralValues
from backends.server.models import ADAPTER_CONFIG, ModelEndpoints
from backends.server.responses import finite_logprob, join_text
from backends.server.schemas import MAX_TOP_LOGPROBS, SamplingBody

if TYPE_CHECKING:
    from pydantic import JsonValue
    from starlette.requests import Request

    from backends.embedded.sampler import GeneratedToken, PromptLogprob


class EnginePrompt(EndpointBody):
    """A prompt of vLLM's engine: token ids, or else a text."""

    prompt: str = ""
    prompt_token_ids: list[Annotated[int, Field(ge=0)]] = Field(default_factory=list)


class GenerateBody(SamplingBody):
    """Body of `/generate`: a prompt and vLLM's sampling parameters."""

    neutral_values: ClassVar[NeutralValues] = {
        **SamplingBody.neutral_values,
        "stream": (False,),
        "detokenize": (True,),
    }

    prompt: EnginePrompt
    logprobs: int | None = Field(None, ge=0, le=MAX_TOP_LOGPROBS)
    max_tokens: int | None = Field(16, ge=1)

    @field_validator("prompt", mode="before")
    @classmethod
    def _as_object(cls, prompt: object) -> object:
        """Return the longest of the three forms: an object, a text, or a list of token ids."""
        if isinstance(prompt, str):
            return {"prompt": prompt}
        return {"prompt_token_ids": prompt} if isinstance(prompt, list) else prompt


class LoadNewestBody(EndpointBody):
    """Body of `/lora/load`."""

    adapter_path: str = Field(min_length=1, max_length=4096)
    adapter_name: str = Field("", max_length=200)


class UnloadNewestBody(EndpointBody):
    """Body of `/lora/unload`: no field, or nothing at all."""


@dataclass(frozen=True, slots=True)
class AtroposEndpoints:
    """The endpoints in the formats of Atropos' own server."""

    completions: CompletionEndpoints
    models: ModelEndpoints

    async def generate(self, request: Request, body: GenerateBody) -> Response:
        """Complete a prompt with the adapter that was loaded last, or with the base model."""
        tokenizing, generation = self.completions.tokenizing, self.completions.generation
        ids = await tokenizing.encode_prompt(body.prompt.prompt_token_ids or body.prompt.prompt)
        check_scores(len(ids), body.prompt_logprobs)
        choices = self.completions.choices(
            body, ids, body.max_tokens, body.logprobs or 0, body.prompt_logprobs
        )
        job = generation.job(request, body.model or self.models.newest_name, choices, body.n)
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

    async def load(self, _request: Request, body: LoadNewestBody) -> Response:
        """Load an adapter, or replace the one of that name, and let it answer `/generate`."""
        name = body.adapter_name or f"adapter_{self.models.loads}"
        adapter = await self.models.load(name, body.adapter_path, replaces=True, fields="adapter")
        config = read_json_object(adapter.folder / ADAPTER_CONFIG)
        return JSONResponse(
            {
                "status": "ok",
                "adapter_path": adapter.path,
                "adapter_name": adapter.name,
                "adapter_id": adapter.number,
                "load_count": self.models.loads,
                "adapter_config": {
                    "r": config.get("r"),
                    "lora_alpha": config.get("lora_alpha"),
                    "target_modules": config.get("target_modules"),
                    "base_model": config.get("base_model_name_or_path"),
                },
            }
        )

    async def unload(self, _request: Request, _body: UnloadNewestBody) -> Response:
        """Unload the adapter that was loaded last; the base model answers `/generate` again."""
        self.models.require_root()
        newest = self.models.newest
        if newest is not None:
            await self.models.unload(newest.name)
        return JSONResponse(
            {
                "status": "ok",
                "previous_adapter": newest.path if newest else None,
                "previous_name": newest.name if newest else None,
            }
        )

    async def status(self, _request: Request) -> Response:
        """Report the adapter that answers `/generate`, and those that could be loaded."""
        newest = self.models.newest
        # In a thread: a long run has thousands of folders.
        available = await asyncio.to_thread(self.models.available)
        return JSONResponse(
            {
                "lora_available": available is not None,
                "active_adapter_path": newest.path if newest else None,
                "active_adapter_name": newest.name if newest else None,
                "active_adapter_id": newest.number if newest else None,
                "load_count": self.models.loads,
                "available_adapters": available or [],
            }
        )


def _scores(token: GeneratedToken | PromptLogprob, count: int) -> dict[str, JsonValue]:
    """Return log-probabilities by id: the token's own, then those of the `count` most probable."""
    scores: dict[str, JsonValue] = {str(token.id): finite_logprob(token.logprob)}
    for top in token.top[:count]:
        # The token itself may be among them; clients take the first entry for its own.
        scores.setdefault(str(top.id), finite_logprob(top.logprob))
    return scores
