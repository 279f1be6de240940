"""The circuit breaker: outages that end, and outages that do not."""

from __future__ import annotations

import asyncio
import time

import pytest
from misbehaving import Misbehaving
from scripted_table import GONE, SPEC, Busy, check_sums, count_errors, quick, settle, table

from arena.core.errors import BackendError, FailureCause, StopPlaying
from arena.llm.backend import Completion, Message, Request, Sampling
from arena.llm.limits import ANSWERED
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from backends.scripted import ScriptedReply

pytestmark = pytest.mark.timed


def test_a_short_outage_pauses_everybody_and_costs_nobody_a_call() -> None:
    outage = time.monotonic() + 0.4

    def reply(_: Request) -> str | ScriptedReply:
        return GONE if time.monotonic() < outage else "yes"

    play = table(reply, breaker_failures=3, max_retries=1)
    results = asyncio.run(play.ask_many(3))
    assert results == ["yes"] * 3
    opened, closed = play.said
    assert opened == (
        "scripted: no answer (connection refused); waiting up to 2 s for it to come back"
    )
    assert closed == "scripted is back after 0 s"
    check_sums(play.tally)


def test_while_a_backend_is_down_one_probe_at_a_time_goes_through() -> None:
    llm = LLMService(quick(breaker_failures=5, patience=0.5, max_retries=9), notify=lambda _: None)
    # A probe takes 0.01 s of back-off and this time: at most 17 of them fit into the patience.
    backend = Busy(lambda _: ScriptedReply(error="server_error", seconds=0.02))
    llm.add(SPEC, backend)

    async def run() -> list[Completion | BaseException]:
        async with asyncio.TaskGroup() as group:
            crowd = [group.create_task(settle(llm)) for _ in range(5)]
            await asyncio.sleep(0.1)
            backend.most = 0
            crowd += [group.create_task(settle(llm)) for _ in range(40)]
        return [task.result() for task in crowd]

    results = asyncio.run(run())
    assert backend.most == 1
    assert count_errors(results, StopPlaying) == 45
    assert len(backend.requests) < 30
    check_sums(llm.ledger.tallies[SPEC])


def test_a_backend_that_stays_down_ends_the_run_with_one_message() -> None:
    play = table(lambda _: GONE, breaker_failures=4, patience=0.3)

    async def run() -> list[str | BaseException]:
        results = await play.ask_many(20)
        tries = len(play.backend.requests)
        results += await play.ask_many(3)
        assert len(play.backend.requests) == tries
        return results

    started = time.monotonic()
    results = asyncio.run(run())
    assert 0.3 <= time.monotonic() - started < 5
    assert count_errors(results, StopPlaying) == 23
    assert {str(error) for error in results} == {
        "scripted: no answer for 0.3 s (last: connection refused); finished games are kept"
    }
    assert len(play.said) == 1
    assert play.tally.failures == {"stopped": 23}
    assert play.tally.attempts == len(play.backend.requests)
    check_sums(play.tally)


def test_without_patience_a_backend_that_is_down_ends_the_run_at_once() -> None:
    play = table(lambda _: GONE, breaker_failures=1, patience=0, max_retries=0)
    started = time.monotonic()
    results = asyncio.run(play.ask_many(4))
    assert time.monotonic() - started < 1.5
    assert count_errors(results, StopPlaying) == 4


def test_a_probe_that_hangs_does_not_outlast_patience() -> None:
    answers = iter([GONE, GONE])
    play = table(
        lambda _: next(answers, ScriptedReply(seconds=60)),
        breaker_failures=2,
        patience=0.3,
        concurrency=2,
    )
    started = time.monotonic()
    results = asyncio.run(play.ask_many(4))
    assert time.monotonic() - started < 5
    assert count_errors(results, StopPlaying) == 4
    # The probe was cut short: its own error would not say why the backend is down.
    assert {str(error) for error in results} == {
        "scripted: no answer for 0.3 s (last: connection refused); finished games are kept"
    }


def test_who_sleeps_before_a_retry_is_woken_when_the_run_ends() -> None:
    answers = iter([ScriptedReply(error="rate_limit", retry_after=1.9)])
    wrong_key = ScriptedReply(error="authentication", seconds=0.05)
    play = table(lambda _: next(answers, wrong_key), breaker_failures=2)
    started = time.monotonic()
    results = asyncio.run(play.ask_many(3))
    assert time.monotonic() - started < 1.5
    assert count_errors(results, StopPlaying) == 3


@pytest.mark.parametrize("refusal", sorted(ANSWERED))
def test_a_refusal_is_a_sign_of_life(refusal: FailureCause) -> None:
    """The probe is refused, and no answer follows that could close the breaker instead."""
    replies = [GONE, GONE, ScriptedReply(error=refusal), ScriptedReply("never", seconds=60)]
    play = table(replies, breaker_failures=2)

    async def run() -> None:
        call = asyncio.create_task(play.ask())
        while len(play.said) < 2:
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), 1.5))  # Shorter than `patience`.
    assert play.said[1].startswith("scripted is back")
    assert len(play.backend.requests) <= 4


def test_a_backend_that_came_back_may_be_used_after_the_patience() -> None:
    answers = iter([GONE, GONE])
    play = table(lambda _: next(answers, "yes"), breaker_failures=2, patience=0.3)

    async def run() -> list[str]:
        first = await play.ask()
        await asyncio.sleep(0.5)  # The timer of the outage would have stopped the run by now.
        return [first, await play.ask()]

    assert asyncio.run(run()) == ["yes", "yes"]


def test_a_probe_waits_as_long_as_the_backend_asks() -> None:
    answers = iter([ScriptedReply(error="server_error", retry_after=0.4)])
    play = table(lambda _: next(answers, "yes"), breaker_failures=1)
    started = time.monotonic()
    assert asyncio.run(play.ask()) == "yes"
    assert 0.4 <= time.monotonic() - started < 1.8
    assert len(play.said) == 2 and len(play.backend.requests) == 2


def test_a_success_between_failures_keeps_the_breaker_closed() -> None:
    faltering: list[str | ScriptedReply] = [GONE, "yes"]
    play = table(["yes", *faltering * 6], breaker_failures=2)

    async def run() -> None:
        for _ in range(7):
            await play.ask()

    asyncio.run(run())
    assert play.said == []


def test_who_was_never_there_is_waited_for_at_once() -> None:
    play = table([GONE, GONE, "yes", "yes"], breaker_failures=9, max_retries=0)
    assert asyncio.run(play.ask()) == "yes"
    assert "no answer" in play.said[0] and "is back" in play.said[1]


def test_a_wrong_key_ends_the_run_at_once() -> None:
    play = table([ScriptedReply(error="authentication", text="OPENROUTER_API_KEY was refused")])
    results = asyncio.run(play.ask_many(1)) + asyncio.run(play.ask_many(2))
    assert [str(error) for error in results] == [
        "scripted: OPENROUTER_API_KEY was refused; check the API key and its credit; "
        "finished games are kept"
    ] * 3
    assert len(play.backend.requests) == 1
    assert play.tally.not_sent == 2
    check_sums(play.tally)


@pytest.mark.parametrize("cause", ["authentication", "configuration", "bad_response"])
def test_a_backend_that_has_answered_may_fail_for_a_moment_but_not_refuse_the_key(
    cause: FailureCause,
) -> None:
    play = table(["yes", ScriptedReply(error=cause), "yes"], max_retries=0)
    first, second, third = (asyncio.run(play.ask_many(1))[0] for _ in range(3))
    assert first == "yes"
    if cause == "authentication":
        assert isinstance(second, StopPlaying) and isinstance(third, StopPlaying)
    else:
        assert isinstance(second, BackendError) and third == "yes"


def test_a_cancelled_probe_lets_another_one_through() -> None:
    answers = iter([GONE, GONE, ScriptedReply(seconds=60)])
    play = table(lambda _: next(answers, "yes"), breaker_failures=2)

    async def run() -> list[str | BaseException]:
        calls = [asyncio.create_task(play.ask()) for _ in range(2)]
        while len(play.backend.requests) < 3:  # Two at first, then the probe.
            await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        return await play.ask_many(2)

    assert asyncio.run(run()) == ["yes", "yes"]
    assert play.tally.failures == {"cancelled": 2}
    check_sums(play.tally)


REQUEST = Request((Message("user", "Which card?"),), Sampling(max_tokens=8))
LATENCY = 0.1


def settings(**limits: float) -> Settings:
    return Settings.load(service=limits)


def test_two_models_of_a_server_share_its_slots() -> None:
    async def go(server: Misbehaving) -> float:
        specs = [f"{server.openai_url}#{model}" for model in ("large", "small")]
        async with LLMService(settings(concurrency=2)) as llm:
            start = time.monotonic()
            await asyncio.gather(*(llm.complete(spec, REQUEST) for spec in 4 * specs))
            return time.monotonic() - start

    with Misbehaving(latency=LATENCY) as server:
        seconds = asyncio.run(go(server))
    # Eight calls, two at a time.
    assert seconds >= 4 * LATENCY


def test_servers_do_not_share() -> None:
    async def go(broken: Misbehaving, good: Misbehaving) -> str:
        async with LLMService(settings()) as llm:
            with pytest.raises(StopPlaying):
                await llm.complete(f"{broken.openai_url}#tiny", REQUEST)
            return (await llm.complete(f"{good.openai_url}#tiny", REQUEST)).text

    with Misbehaving() as broken, Misbehaving(lambda _: "Rope") as good:
        broken.script(["unauthorized"])
        assert asyncio.run(go(broken, good)) == "Rope"
