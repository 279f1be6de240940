"""Prompt tokens, the part that providers cache, and what both cost."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from arena.llm.backend import Message, Price, Request, Role, Tool, Usage, count_prompts, traits_of
from arena.llm.settings import KeylessSettings


def chat(*tokens: int, repeated: int | None = None) -> Request:
    """A request of messages with so many tokens; messages of different places differ."""
    roles: tuple[Role, ...] = ("system", "user", "assistant")
    messages = tuple(
        Message(roles[min(place, 1 + (place % 2 == 0))], chr(ord("a") + place) * 4 * number)
        for place, number in enumerate(tokens)
    )
    return Request(messages, repeated=len(messages) if repeated is None else repeated)


@pytest.mark.parametrize(
    ("first", "then", "cached"),
    [
        ((900, 100), (900, 100, 10, 10), 0),  # 1,000 tokens are too few.
        ((900, 280), (900, 280, 10, 10), 1180),
        ((900, 500), (900, 400), 1300),  # Two messages that differ may begin alike.
    ],
)
def test_a_request_finds_in_the_cache_what_it_has_in_common_with_the_one_before_it(
    first: tuple[int, ...], then: tuple[int, ...], cached: int
) -> None:
    requests = [chat(*first), chat(*then)]
    tokens = count_prompts(requests, 1024)
    assert tokens == Usage(sum(first) + sum(then), 0, cached)
    assert count_prompts(requests, None) == Usage(sum(first) + sum(then))
    full = sum(first) + sum(then) - cached
    assert Price(1.0, 9.0, 0.5).cost_of(tokens) == full + cached / 2


def test_only_messages_that_are_repeated_are_cached() -> None:
    growing = [chat(900, 300), chat(900, 300, 50, 150), chat(900, 300, 50, 150, 50, 250)]
    assert count_prompts(growing, 1024) == Usage(1200 + 1400 + 1700, 0, 1200 + 1400)
    # Only the first message is marked, and it is too short; then it is long enough.
    assert count_prompts([chat(900, 300, repeated=1)] * 2, 1024) == Usage(2400)
    long = count_prompts([chat(2000, 300, repeated=1), chat(2000, 200, repeated=1)], 1024)
    assert long == Usage(4500, 0, 2000)


def test_functions_count_as_the_start_of_the_prompt() -> None:
    tool = Tool("Bid", "x" * 4000, {})
    request = Request((Message("user", "y" * 400),), tools=(tool,), repeated=1)
    # 3 + 4,000 + 2 characters of the function, and 400 of the message.
    assert count_prompts([request, request], 1024) == Usage(2 * 1102, 0, 1101)


def test_the_table_of_models_gives_the_shortest_prefix_that_a_provider_caches() -> None:
    # Here, so that the processes that run other tests need not import openai and aiohttp.
    from backends.litellm import any_provider, openai, openrouter

    settings = KeylessSettings.load()
    assert traits_of(openai("gpt-4o-mini", settings)).cached_prefix == 1024
    haiku = traits_of(any_provider("anthropic/claude-haiku-4-5", settings))
    # The table of ART's litellm does not state it.
    assert haiku.cached_prefix == (1024 if version("litellm").startswith("1.82.") else 4096)
    assert haiku.price is not None and haiku.price.cached == pytest.approx(1e-7)
    assert traits_of(openrouter("anthropic/claude-sonnet-4.5", settings)).cached_prefix == 1024
    unknown = traits_of(openai("never-heard-of", settings))
    assert unknown.cached_prefix is None and unknown.price is None
