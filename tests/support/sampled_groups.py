"""Groups of token rows from a model server, as an environment would push them."""

from __future__ import annotations

import asyncio
from typing import Any

from arena.llm.backend import Completion, Message, Request, Sampling
from arena.llm.settings import Settings
from backends.openai_http import HTTPBackend

QUESTIONS = ("who had the rope in the library", "suggest a weapon", "what did green show")


def sampled_groups(url: str, count: int, size: int = 2) -> list[dict[str, Any]]:
    """Let the first model at a server answer; the scores of a group's rows are 0, 1, …"""
    return asyncio.run(_sampled(url, count, size))


async def _sampled(url: str, count: int, size: int) -> list[dict[str, Any]]:
    limits = Settings.model_validate({}).service.limits("http")
    server = HTTPBackend(f"{url}/v1", "", limits, None)
    try:
        return [
            _group([await _answer(server, number, row) for row in range(size)], number)
            for number in range(count)
        ]
    finally:
        await server.close()


async def _answer(server: HTTPBackend, number: int, row: int) -> Completion:
    question = f"{QUESTIONS[number % len(QUESTIONS)]} {number}"
    sampling = Sampling(max_tokens=4, temperature=1.0, seed=100 * number + row)
    return await server.complete(Request((Message("user", question),), sampling, logprobs=True))


def _group(answers: list[Completion], number: int) -> dict[str, Any]:
    tokens, masks, logprobs = list[list[int]](), list[list[int]](), list[list[float]]()
    for answer in answers:
        prompt = list(answer.prompt_token_ids)
        sampled = answer.choice.tokens
        ids = [token.id for token in sampled if token.id is not None]
        tokens.append([*prompt, *ids])
        masks.append([-100] * len(prompt) + ids)
        logprobs.append([1.0] * len(prompt) + [min(0.0, token.logprob) for token in sampled])
    return {
        "tokens": tokens,
        "masks": masks,
        "scores": [float(row) for row in range(len(answers))],
        "inference_logprobs": logprobs,
        "generation_params": {"temperature": 1.0},
        "group_overrides": {"arena": {"seed": number, "policy_version": 0}},
    }
