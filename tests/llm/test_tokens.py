"""Prompt tokens, the part that providers cache, and what both cost."""

from __future__ import annotations

import pytest

from arena.llm.backend import Message, Price, PromptCache, Request, Role, Tool, traits_of
from arena.llm.settings import KeylessSettings
from arena.llm.tokens import PromptTokens, count_prompts

OPENAI = PromptCache(0.5, 1.0)
CLAUDE = PromptCache(0.1, 1.25, shortest=1024, step=1, is_marked=True)


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
        ((900, 124), (900, 124, 10, 10), 1024),
        ((900, 280), (900, 280, 10, 10), 1152),  # 1,180 tokens, in steps of 128.
        ((900, 500), (900, 400), 1280),  # Two messages that differ may begin alike.
    ],
)
def test_openai_caches_the_common_prefix_of_a_request_and_the_one_before_it(
    first: tuple[int, ...], then: tuple[int, ...], cached: int
) -> None:
    requests = [chat(*first), chat(*then)]
    tokens = count_prompts(requests, OPENAI)
    assert tokens == PromptTokens(sum(first) + sum(then), cached, 0)
    assert count_prompts(requests, None) == PromptTokens(sum(first) + sum(then))
    full = sum(first) + sum(then) - cached
    assert tokens.cost(Price(1.0, 9.0), OPENAI) == full + cached / 2


def test_claude_caches_what_is_marked_and_bills_what_it_writes() -> None:
    # Each request marks all of its messages, and finds those of the one before it.
    growing = [chat(900, 300), chat(900, 300, 50, 150), chat(900, 300, 50, 150, 50, 250)]
    tokens = count_prompts(growing, CLAUDE)
    assert tokens == PromptTokens(1200 + 1400 + 1700, 1200 + 1400, 1200 + 200 + 300)
    assert tokens.cost(Price(1.0, 9.0), CLAUDE) == pytest.approx(2600 * 0.1 + 1700 * 1.25)
    # Only the first message is marked, and it is too short; then it is long enough.
    assert count_prompts([chat(900, 300, repeated=1)] * 2, CLAUDE) == PromptTokens(2400)
    long = count_prompts([chat(2000, 300, repeated=1), chat(2000, 200, repeated=1)], CLAUDE)
    assert long == PromptTokens(4500, 2000, 2000)


def test_functions_count_as_the_start_of_the_prompt() -> None:
    tool = Tool("Bid", "x" * 4000, {})
    request = Request((Message("user", "y" * 400),), tools=(tool,))
    # 3 + 4,000 + 2 characters of the function, and 400 of the message.
    assert count_prompts([request, request], OPENAI) == PromptTokens(2 * 1102, 1024)


def test_the_table_of_models_gives_the_cache_of_a_provider() -> None:
    # Here, so that the processes that run other tests need not import openai and aiohttp.
    from backends.litellm import any_provider, openai, openrouter

    settings = KeylessSettings.load()
    mini = traits_of(openai("gpt-4o-mini", settings)).prompt_cache
    assert mini == PromptCache(7.5e-8, 1.5e-7) and (mini.shortest, mini.step) == (1024, 128)
    haiku = traits_of(any_provider("anthropic/claude-haiku-4-5", settings)).prompt_cache
    assert haiku == PromptCache(1e-7, 1.25e-6, shortest=4096, step=1, is_marked=True)
    sonnet = traits_of(openrouter("anthropic/claude-sonnet-4.5", settings)).prompt_cache
    assert sonnet == PromptCache(3e-7, 3.75e-6, shortest=1024, step=1, is_marked=True)
    unknown = traits_of(openai("never-heard-of", settings))
    assert unknown.prompt_cache is None and unknown.price is None
