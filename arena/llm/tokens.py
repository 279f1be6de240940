"""Estimated tokens of requests, and how many of a chat's prompts a provider's cache holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import takewhile

from arena.llm.backend import Completion, Request, Usage

CHARACTERS_PER_TOKEN = 4
"""Mean of English text."""


def estimate_prompt(request: Request) -> int:
    """Return the tokens of the prompt.

    An estimate, not a bound: text that is not English takes more tokens for its characters.
    """
    functions = sum(len(t.name + t.description + json.dumps(t.parameters)) for t in request.tools)
    return tokens_of(functions + sum(len(message.content) for message in request.messages))


def tokens_of(characters: int) -> int:
    """Return the estimated tokens of a text with so many characters, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def estimate_usage(request: Request, completion: Completion) -> Usage:
    """Return the estimated tokens of a call, for providers that do not count them."""
    characters = len(completion.choice.reasoning) + len(completion.choice.text)
    return Usage(estimate_prompt(request), tokens_of(characters))


def count_prompts(requests: Sequence[Request], shortest: int | None) -> Usage:
    """Estimate the tokens of one chat's requests, and those that a cache of prompts should hold.

    The cache holds what the messages that are marked as repeated have in common with those of the
    request before, if these are at least `shortest` tokens; None if there is no cache.
    """
    total, cached, before = 0, 0, ""
    for request in requests:
        functions = [t.name + t.description + json.dumps(t.parameters) for t in request.tools]
        repeated = request.messages[: request.repeated]
        text = "".join([*functions, *(message.content for message in repeated)])
        common = common_prefix_length(before, text) // CHARACTERS_PER_TOKEN
        cached += common if shortest is not None and common >= shortest else 0
        total += estimate_prompt(request)
        before = text
    return Usage(total, cached_tokens=cached)


def common_prefix_length(first: Iterable[object], second: Iterable[object]) -> int:
    """Return the length of the common prefix."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
