"""The LLMService: retries, limits, routing, and real connections."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scripted_table import ASK, SPEC, Busy, check_sums, quick, table

from arena.core.errors import BackendError, FailureCause, StopPlaying, UsageError
from arena.llm.limits import REMEDIES
from arena.llm.limits import backoff as seconds_of_backoff
from arena.llm.service import LLMService
from arena.llm.settings import Limits, ServiceSettings, Settings
from backends.scripted import RETRYABLE, ScriptedBackend, ScriptedReply

pytestmark = pytest.mark.timed

# Retries


@pytest.mark.parametrize("cause", get_args(FailureCause))
def test_only_what_may_succeed_later_is_tried_again(cause: FailureCause) -> None:
    play = table([ScriptedReply(error=cause), ScriptedReply(error=cause), "yes"])
    if cause in RETRYABLE:
        assert asyncio.run(play.ask()) == "yes"
        assert play.tally.retries == {cause: 2}
    else:
        with pytest.raises(StopPlaying if cause in REMEDIES else BackendError):
            asyncio.run(play.ask())
        assert len(play.backend.requests) == 1
    assert play.tally.attempts == len(play.backend.requests)
    check_sums(play.tally)


def test_after_the_last_retry_the_error_comes_out() -> None:
    play = table(
        [ScriptedReply(error="server_error", text=f"try {n}") for n in range(9)], max_retries=3
    )
    with pytest.raises(BackendError, match="try 3") as raised:
        asyncio.run(play.ask())
    assert raised.value.cause == "server_error"
    assert (play.tally.attempts, play.tally.failures) == (4, {"server_error": 1})


def test_a_rate_limit_is_waited_out_however_often_it_is_met_within_patience() -> None:
    busy = [ScriptedReply(error="rate_limit")] * 6
    play = table([*busy, "yes"], max_retries=2)
    assert asyncio.run(play.ask()) == "yes" and play.tally.attempts == 7
    impatient = table([*busy, "never"], max_retries=2, patience=0)
    with pytest.raises(BackendError):
        asyncio.run(impatient.ask())
    assert impatient.tally.attempts == 3


def test_retry_after_is_waited_for() -> None:
    play = table([ScriptedReply(error="rate_limit", retry_after=0.15), "yes"])
    started = time.monotonic()
    assert asyncio.run(play.ask()) == "yes"
    assert 0.15 <= time.monotonic() - started < 1.5


def test_a_retry_after_beyond_patience_is_not_waited_for() -> None:
    play = table([ScriptedReply(error="rate_limit", retry_after=2.5), "never"], patience=2.0)
    started = time.monotonic()
    with pytest.raises(StopPlaying, match=r"asks to wait 2.5 s, and `patience` is 2 s"):
        asyncio.run(play.ask())
    assert time.monotonic() - started < 1.5
    assert play.tally.attempts == 1


@example(retry=1025, backoff=0.0, longest=1.0, retry_after=None)
@given(
    retry=st.integers(1, 900),
    backoff=st.floats(0, 10),
    longest=st.floats(0, 60),
    retry_after=st.none() | st.floats(0, 100),
)
def test_full_jitter_stays_within_its_bounds(
    retry: int, backoff: float, longest: float, retry_after: float | None
) -> None:
    limits = Limits(backoff=backoff, max_backoff=longest)  # type: ignore[call-arg]
    wait = seconds_of_backoff(limits, retry, retry_after)
    upper = min(longest, backoff * 2.0 ** min(retry - 1, 900))
    if retry_after is None:
        assert 0 <= wait <= upper
    else:
        assert retry_after <= wait <= max(upper, retry_after + backoff)


def test_jitter_uses_the_whole_window() -> None:
    limits = Limits(backoff=1.0, max_backoff=8.0)  # type: ignore[call-arg]
    drawn = sorted(seconds_of_backoff(limits, 3) for _ in range(400))
    assert drawn[0] < 0.4 and 3.6 < drawn[-1] <= 4.0


def test_limits_of_one_kind_of_backend_change_its_retries() -> None:
    service = ServiceSettings(scripted={"max_retries": 0})  # type: ignore[call-arg]
    llm = LLMService(Settings(service=service))
    llm.add(SPEC, ScriptedBackend([ScriptedReply(error="server_error"), "never"]))
    with pytest.raises(BackendError):
        asyncio.run(llm.complete(SPEC, ASK))


def test_a_call_that_takes_too_long_is_a_timeout() -> None:
    play = table([ScriptedReply("late", seconds=5), "in time"], call_timeout=0.05)
    assert asyncio.run(play.ask()) == "in time"
    assert play.tally.retries == {"timeout": 1}


# Limits


def test_no_more_calls_in_flight_than_allowed() -> None:
    llm = LLMService(quick(concurrency=5))
    backend = Busy(lambda _: ScriptedReply("yes", seconds=0.01))
    llm.add(SPEC, backend)

    async def run() -> None:
        await asyncio.gather(*(llm.complete(SPEC, ASK) for _ in range(23)))

    asyncio.run(run())
    assert backend.most == 5


def test_waiting_for_a_retry_holds_no_slot() -> None:
    replies = iter([ScriptedReply(error="rate_limit", retry_after=1.2)])
    play = table(lambda _: next(replies, "yes"), concurrency=1)

    async def run() -> float:
        first = asyncio.create_task(play.ask())
        await asyncio.sleep(0.01)
        started = time.monotonic()
        await play.ask()
        passed = time.monotonic() - started
        await first
        return passed

    assert asyncio.run(run()) < 1


def test_rates() -> None:
    """20 calls a second, and a second's worth may go at once."""
    play = table(lambda _: "yes", concurrency=100, requests_per_minute=1200.0)
    started = time.monotonic()
    asyncio.run(play.ask_many(40))
    assert 0.95 <= time.monotonic() - started < 2.5


# Routing


def test_backends_are_made_once_and_closed(tmp_path: Path) -> None:
    (tmp_path / "replies").write_text('"one"\n')
    closed: list[str] = []

    class Closing(ScriptedBackend):
        async def close(self) -> None:
            closed.append(self.model)
            if self.model == "first":
                raise OSError("cannot be closed")

    llm = LLMService(quick())  # Outside any event loop, as is the look-up.
    spec = f"scripted:{tmp_path / 'replies'}"
    assert llm.backend(spec) is llm.backend(spec)
    llm.add("mine", Closing([], model="first"))
    llm.add("yours", Closing([], model="second"))
    with pytest.raises(UsageError, match="already"):
        llm.add("mine", ScriptedBackend([]))

    async def run() -> None:
        async with llm:
            assert (await llm.complete(spec, ASK)).text == "one"

    with pytest.raises(OSError, match="cannot be closed"):
        asyncio.run(run())
    assert sorted(closed) == ["first", "second"]


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(UsageError, match="there is no backend 'opnrouter'; did you mean"):
        LLMService(quick()).backend("opnrouter:x/y")


def test_importing_arena_imports_none_of_it() -> None:
    code = (
        "import sys, arena, arena.cli;"
        "late = {'tenacity', 'aiolimiter', 'arena.llm.service', 'httpx'} & set(sys.modules);"
        "sys.exit(str(late) if late else 0)"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)
