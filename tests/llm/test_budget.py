"""The budget of a run stops before it is exceeded."""

from __future__ import annotations

import asyncio

import pytest
from scripted_table import ASK, SPEC, Busy, check_sums, quick, settle, table

from arena.core.errors import BudgetSpent, UsageError
from arena.llm.backend import Completion
from arena.llm.service import LLMService
from backends.scripted import ScriptedBackend, ScriptedReply


def test_tokens_stop_before_they_are_exceeded_whatever_is_in_flight() -> None:
    reply = ScriptedReply("yes", prompt_tokens=10, completion_tokens=30, seconds=0.002)
    play = table(lambda _: reply, token_limit=1000, concurrency=50)
    results = asyncio.run(play.ask_many(50))
    spent = play.tally.prompt_tokens + play.tally.completion_tokens
    # A call may need 100 and takes 40: the last one that may go leaves less than 100.
    assert 900 < spent <= 1000
    assert results.count("yes") * 40 == spent
    spending = [error for error in results if isinstance(error, BudgetSpent)]
    assert "--token-limit 1000" in str(spending[0])
    assert "920 tokens" in str(spending[0])
    assert play.tally.failures == {"budget": len(spending)}
    check_sums(play.tally)


def test_dollars_stop_before_they_are_exceeded_whatever_is_in_flight() -> None:
    llm = LLMService(quick(concurrency=50), max_cost=0.10)
    backend = Busy(
        lambda _: ScriptedReply(
            "y", prompt_tokens=20, completion_tokens=80, cost=0.007, seconds=0.005
        )
    )
    llm.add(SPEC, backend)

    async def run() -> list[Completion | BaseException]:
        return list(await asyncio.gather(*(settle(llm) for _ in range(40))))

    results = asyncio.run(run())
    tally = llm.ledger.tallies[SPEC]
    assert tally.answered == 14
    assert tally.cost == pytest.approx(0.098)
    assert backend.alone == 2  # The one that found out the price, then the first of the crowd.
    assert backend.most == 13
    assert any("--max-cost 0.1" in str(error) for error in results)


def test_a_failed_first_call_leaves_the_price_to_the_next() -> None:
    answers = iter([ScriptedReply(error="bad_request")])
    play = table(lambda _: next(answers, ScriptedReply("yes", cost=0.001)), max_cost=1)
    results = asyncio.run(play.ask_many(3))
    assert results[1:] == ["yes", "yes"]


def test_an_unknown_cost_is_said_once_and_limits_nothing() -> None:
    play = table(lambda _: "yes", max_cost=0.01)
    assert asyncio.run(play.ask_many(5)) == ["yes"] * 5
    assert play.said == ["scripted: its provider reports no cost, so --max-cost cannot limit it"]
    assert play.tally.unknown_cost == 5


def test_one_budget_for_all_backends() -> None:
    reply = ScriptedReply("yes", prompt_tokens=10, completion_tokens=40)
    play = table(lambda _: reply, token_limit=200)
    play.llm.add("scripted:other", ScriptedBackend(lambda _: reply))

    async def run() -> int:
        for number in range(100):
            try:
                await play.llm.complete(("scripted:other", SPEC)[number % 2], ASK)
            except BudgetSpent:
                return number
        return 100

    assert asyncio.run(run()) == 3


def test_a_budget_below_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="--max-cost"):
        LLMService(quick(), max_cost=-1)
