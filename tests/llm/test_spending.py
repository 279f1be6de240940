"""The budget of a run stops before it is exceeded."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from misbehaving import Misbehaving
from scripted_table import ASK, SPEC, Busy, Table, check_sums, quick, settle, table

from arena.core.errors import BackendError, BudgetSpent, UsageError
from arena.llm.backend import Completion, Price, traits_of
from arena.llm.config import SettingsLayer
from arena.llm.ledger import Tally
from arena.llm.service import LLMService
from arena.llm.settings import RunLimits
from backends.scripted import ScriptedBackend, ScriptedReply


def test_dollars_stop_before_they_are_exceeded_whatever_is_in_flight() -> None:
    llm = LLMService(quick(concurrency=50), RunLimits(max_cost=0.10))
    backend = Busy(
        lambda _: ScriptedReply(
            "y", prompt_tokens=20, completion_tokens=80, cost=0.007, seconds=0.005
        )
    )
    llm.add(SPEC, backend)

    async def run() -> list[Completion | BaseException]:
        return list(await asyncio.gather(*(settle(llm) for _ in range(40))))

    results = asyncio.run(asyncio.wait_for(run(), 60))
    tally = llm.ledger.tallies[SPEC]
    assert tally.answered == 14
    assert tally.cost == pytest.approx(0.098)
    # The one that found out the price goes alone; $0.0078 is set aside for each of the others,
    # since nobody knows how much more a reply's token costs than a prompt's.
    assert 2 <= backend.alone <= 3
    assert backend.most == 11
    assert any("--max-cost 0.1" in str(error) for error in results)


def test_a_failed_first_call_leaves_the_price_to_the_next() -> None:
    answers = iter([ScriptedReply(error="bad_request")])
    play = table(lambda _: next(answers, ScriptedReply("yes", cost=0.001)), max_cost=1)
    results = asyncio.run(play.ask_many(3))
    assert results[1:] == ["yes", "yes"]


def test_a_model_without_a_price_is_refused_after_one_answer() -> None:
    play = table(lambda _: "yes", max_cost=0.01)
    first, *refused = asyncio.run(play.ask_many(5))
    # The one that found it out is answered, and counted once.
    assert first == "yes"
    check_sums(play.tally)
    assert {str(error) for error in refused} == {
        "scripted: its price is unknown, so --max-cost cannot limit it; add to arena.toml the "
        'table [models."scripted"] with two lines, price_in = … and price_out = … (US dollars per '
        "million tokens); finished games are kept"
    }
    assert len(play.backend.requests) == 1


def test_a_stated_price_limits_from_the_first_call_on() -> None:
    """A call has 10 and 40 tokens at $1 and $10 per million: $0.00041, at most $0.00091."""
    reply = ScriptedReply("yes", prompt_tokens=10, completion_tokens=40, seconds=0.002)
    play = table(lambda _: reply, max_cost=0.005, price=Price(1e-6, 1e-5), concurrency=50)
    results = asyncio.run(play.ask_many(50))
    assert results.count("yes") == 12
    assert play.tally.cost == pytest.approx(12 * 0.00041)
    refused = table(lambda _: reply, max_cost=0.0009, price=Price(1e-6, 1e-5))
    assert isinstance(asyncio.run(refused.ask_many(1))[0], BudgetSpent)
    assert not refused.backend.requests


def test_cached_tokens_of_a_prompt_have_a_price_of_their_own() -> None:
    """1,000 tokens of a prompt, 800 of them cached, and 10 of the reply."""

    async def cost(limits: RunLimits) -> float:
        cached = {"prompt_tokens_details": {"cached_tokens": 800}}
        usage = {"prompt_tokens": 1000, "completion_tokens": 10, **cached}
        with Misbehaving(usage_of=usage) as server:
            async with LLMService(quick(), limits) as llm:
                await llm.complete(f"{server.openai_url}#tiny", ASK)
                return llm.ledger.total().cost

    stated = RunLimits(price_in=10, price_out=100)
    assert asyncio.run(cost(stated)) == pytest.approx((200 * 10 + 800 * 1 + 10 * 100) / 1e6)
    stated = RunLimits(price_in=10, price_out=100, price_cached=5)
    assert asyncio.run(cost(stated)) == pytest.approx((200 * 10 + 800 * 5 + 10 * 100) / 1e6)
    with pytest.raises(UsageError, match="belong together"):
        _ = RunLimits(price_cached=5).price


def test_without_money_no_paid_call_is_made_and_free_ones_are() -> None:
    play = table(lambda _: ScriptedReply("yes", cost=0.001), max_cost=0)
    (error,) = asyncio.run(play.ask_many(1))
    assert "more than --max-cost 0 leaves" in str(error)
    assert not play.backend.requests
    free = table(lambda _: "yes", max_cost=0, price=Price(0, 0))
    assert asyncio.run(free.ask_many(3)) == ["yes"] * 3


def test_what_was_set_aside_is_released_by_answers_failures_and_cancellation() -> None:
    """Each call sets more aside than is left beside three others."""
    replies = [
        ScriptedReply("yes", prompt_tokens=20, completion_tokens=80, cost=0.001),
        ScriptedReply(error="bad_request"),
        ScriptedReply("never", seconds=60),
    ]
    play = table(lambda _: replies[len(play.backend.requests) % 3], max_cost=0.012)

    async def run() -> None:
        for number in range(30):
            call = asyncio.ensure_future(play.ask())
            if number % 3 == 1:  # The one without an answer.
                while play.tally.attempts <= number:
                    await asyncio.sleep(0)
                call.cancel()
            with suppress(BackendError, asyncio.CancelledError):
                await call

    asyncio.run(asyncio.wait_for(run(), 60))
    assert play.tally.attempts == 30 and play.tally.answered == 10


def test_a_cost_that_becomes_known_later_limits_the_calls_after_it() -> None:
    answers = iter([ScriptedReply("free", cost=0.0)] * 5)
    paid = ScriptedReply("paid", prompt_tokens=10, completion_tokens=90, cost=0.004, seconds=0.001)
    play = table(lambda _: next(answers, paid), max_cost=0.01, concurrency=50)

    async def run() -> list[str | BaseException]:
        return [*await play.ask_many(5), *await play.ask_many(1), *await play.ask_many(20)]

    results = asyncio.run(run())
    assert results[:6] == ["free"] * 5 + ["paid"]
    assert play.tally.cost <= 0.01 + 0.004
    assert isinstance(results[-1], BudgetSpent)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 90)), min_size=60, max_size=60),
    st.floats(1, 10),
    st.integers(2, 60),
)
def test_the_budget_is_exceeded_by_one_reply_at_most(
    sizes: list[tuple[int, int]], ratio: float, concurrency: int
) -> None:
    """Whatever the lengths and the ratio of the prices, if a prompt has the estimated tokens."""
    calls = iter(sizes)

    def reply(_: object) -> ScriptedReply:
        milliseconds, tokens = next(calls)
        cost = 1e-4 * (10 + ratio * tokens)
        return ScriptedReply("y", "", "stop", "", None, None, milliseconds / 1e4, 10, tokens, cost)

    play = table(reply, max_cost=0.3, concurrency=concurrency)
    asyncio.run(play.ask_many(60))
    assert play.tally.cost <= 0.3 + 1e-4 * (10 + ratio * 90)


def test_answers_without_usage_are_counted_and_priced_by_an_estimate_that_is_said_once() -> None:
    said: list[str] = []
    with Misbehaving(lambda _: "suggest " * 10, usage=False) as server:
        spec = f"{server.openai_url}#tiny"

        async def run() -> Tally:
            limits = RunLimits(max_cost=1, price_in=1, price_out=10)
            async with LLMService(quick(), limits, notify=said.append) as llm:
                for _ in range(3):
                    await llm.complete(spec, ASK)
                return llm.ledger.tallies[spec]

        tally = asyncio.run(run())
    assert said == [
        f"{spec}: its answers state no usage; tokens are estimated, one for 4 characters"
    ]
    # 40 characters were asked, 80 answered.
    assert (tally.prompt_tokens, tally.completion_tokens, tally.unknown_cost) == (30, 60, 0)
    assert tally.cost == pytest.approx(3 * (10 * 1e-6 + 20 * 1e-5))


def test_a_hosted_model_without_a_price_is_refused_before_any_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-no")
    with pytest.raises(UsageError, match=r"openai:never-heard-of: its price.*price_in"):
        LLMService(quick(), RunLimits(max_cost=1)).backend("openai:never-heard-of")
    free = RunLimits(max_cost=1, price_in=0, price_out=0)
    LLMService(quick(), free).backend("openai:never-heard-of")
    LLMService(quick()).backend("openai:never-heard-of")
    llm = LLMService(quick(), RunLimits(max_cost=1))
    assert traits_of(llm.backend("openai:gpt-4o-mini")).price == Price(1.5e-7, 6e-7, 7.5e-8)


def test_one_budget_for_all_backends() -> None:
    reply = ScriptedReply("yes", prompt_tokens=10, completion_tokens=40, cost=0.05)
    play = table(lambda _: reply, max_cost=0.19)
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
        RunLimits.of_layers([SettingsLayer("flag", {"max_cost": -1})])


CALL = ScriptedReply("yes", prompt_tokens=10, completion_tokens=40, cost=0.003, seconds=0.001)


async def play_games(play: Table, lengths: list[int]) -> tuple[list[int], list[int]]:
    """Play games of so many calls side by side; return the calls of finished and of other games."""
    made = [0] * len(lengths)

    async def one(number: int) -> None:
        async with play.llm.game([SPEC, "bot:novice"]):
            for _ in range(lengths[number]):
                await play.llm.complete(SPEC, ASK)
                made[number] += 1

    tasks = [asyncio.ensure_future(one(number)) for number in range(len(lengths))]
    _, running = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in running:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    finished = [count for count, result in zip(made, results, strict=True) if result is None]
    return finished, [n for n, result in zip(made, results, strict=True) if result and n]


def test_games_are_finished_rather_than_started() -> None:
    rng = random.Random(3)
    lengths = [rng.randint(12, 24) for _ in range(40)]
    play = table(lambda _: CALL, max_cost=0.6, concurrency=50)
    finished, cut = asyncio.run(play_games(play, lengths))
    assert not cut
    # 200 calls are paid for: 11 games of 18 on average, and a cautious rest.
    assert 150 <= sum(finished) <= 200 and len(finished) >= 8


def test_the_first_game_of_a_model_runs_alone_and_an_ample_budget_fills_the_table() -> None:
    most: list[int] = []

    def reply(_: object) -> ScriptedReply:
        budget = play.llm._budget
        assert budget is not None
        most.append(budget._running)
        return CALL

    play = table(reply, max_cost=100, concurrency=50)
    finished, _ = asyncio.run(play_games(play, [5] * 30))
    assert len(finished) == 30
    assert most[:5] == [1] * 5 and max(most) > 10


def test_games_much_longer_than_those_before_do_not_exceed_the_budget() -> None:
    play = table(lambda _: CALL, max_cost=0.285, concurrency=50)
    finished, cut = asyncio.run(play_games(play, [5, 5, 5, 5, 40, 40, 40, 40]))
    assert finished == [5, 5, 5, 5] and cut
    assert play.tally.cost <= 0.285 + 0.003


def test_a_game_that_cannot_be_covered_is_refused_before_it_starts() -> None:
    play = table(lambda _: CALL, max_cost=0.05)

    async def run() -> str:
        async with play.llm.game([SPEC]):
            for _ in range(10):
                await play.ask()
        with pytest.raises(BudgetSpent) as refused:
            async with play.llm.game([SPEC]):
                raise AssertionError("it was started")
        return str(refused.value)

    # The next game is taken to need twice as much.
    assert asyncio.run(run()) == (
        "the budget is spent: $0.030000 so far, and one more game may need $0.060000, more than "
        "--max-cost 0.05 leaves; finished games are kept"
    )


def test_after_a_refused_call_a_game_that_waits_is_refused() -> None:
    """Two calls of $0.003 leave less than a third may need."""
    play = table(lambda _: CALL, max_cost=0.008)

    async def one() -> None:
        async with play.llm.game([SPEC]):
            for _ in range(3):
                await play.ask()

    async def run() -> list[BaseException | None]:
        return list(await asyncio.gather(one(), one(), return_exceptions=True))

    assert all("--max-cost 0.008 leaves" in str(error) for error in asyncio.run(run()))


def test_a_cancelled_game_makes_room_and_what_it_has_used_counts() -> None:
    play = table(lambda _: CALL, max_cost=0.0301)
    entered: list[int] = []

    async def run() -> None:
        asked = asyncio.Event()

        async def one(number: int) -> None:
            async with play.llm.game([SPEC]):
                entered.append(number)
                if number == 0:
                    await play.ask_many(3)
                    asked.set()
                    await asyncio.Event().wait()

        playing, waiting, third = (asyncio.ensure_future(one(number)) for number in range(3))
        await asked.wait()
        for task in (waiting, playing):
            task.cancel()
        # Of $0.0301 $0.009 is used; a game is taken to need twice as much.
        await third
        await play.ask_many(2)
        with pytest.raises(BudgetSpent, match="one more game may need \\$0.030000"):
            await one(3)

    asyncio.run(run())
    assert entered == [0, 2]


def test_games_of_bots_need_no_money() -> None:
    play = table(lambda _: CALL, max_cost=0.01)
    play.llm.add_spent(0.02)

    async def start(*specs: str) -> bool:
        async with play.llm.game(specs):
            return True

    assert asyncio.run(start("bot:novice", "bot:random"))
    with pytest.raises(BudgetSpent):
        asyncio.run(start(SPEC, "bot:random"))
