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
from misbehaving import Misbehaving
from scripted_table import ASK, SPEC, Busy, check_sums, quick, table

from arena.core.errors import BackendError, FailureCause, StopPlaying, UsageError
from arena.llm.attempts import REMEDIES
from arena.llm.attempts import backoff as seconds_of_backoff
from arena.llm.backend import BackendTraits, Completion, Message, Request, Sampling
from arena.llm.ledger import Tally
from arena.llm.service import LLMService
from arena.llm.settings import Limits, ServiceSettings, Settings
from arena.llm.tokens import estimate_tokens
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
    assert play.tally.tries == len(play.backend.requests)
    check_sums(play.tally)


def test_after_the_last_retry_the_error_comes_out() -> None:
    play = table(
        [ScriptedReply(error="server_error", text=f"try {n}") for n in range(9)], max_retries=3
    )
    with pytest.raises(BackendError, match="try 3") as raised:
        asyncio.run(play.ask())
    assert raised.value.cause == "server_error"
    assert (play.tally.tries, play.tally.failures) == (4, {"server_error": 1})


def test_a_rate_limit_is_waited_out_however_often_it_is_met_within_patience() -> None:
    busy = [ScriptedReply(error="rate_limit")] * 6
    play = table([*busy, "yes"], max_retries=2)
    assert asyncio.run(play.ask()) == "yes" and play.tally.tries == 7
    impatient = table([*busy, "never"], max_retries=2, patience=0)
    with pytest.raises(BackendError):
        asyncio.run(impatient.ask())
    assert impatient.tally.tries == 3


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
    assert play.tally.tries == 1


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


@pytest.mark.parametrize(
    ("limit", "per_minute"), [("requests_per_minute", 1200.0), ("tokens_per_minute", 120_000.0)]
)
def test_rates(limit: str, per_minute: float) -> None:
    """20 calls a second, either way, and a second's worth may go at once."""
    play = table(lambda _: "yes", **{"concurrency": 100, limit: per_minute})  # type: ignore[arg-type]
    started = time.monotonic()
    asyncio.run(play.ask_many(40))
    assert 0.95 <= time.monotonic() - started < 2.5


def test_a_request_above_the_limit_of_a_minute_passes() -> None:
    play = table(["yes"], tokens_per_minute=60)
    assert estimate_tokens(ASK) == 100
    with pytest.raises(TimeoutError):  # It waits for a minute's share; a test does not.
        asyncio.run(asyncio.wait_for(play.ask(), 0.05))
    big = table(["yes"], tokens_per_minute=6000)
    small = Request((Message("user", "y" * 800_000),), Sampling(max_tokens=1))
    assert estimate_tokens(small) == 200_001
    limiter = big.llm._shared_limits[SPEC].tokens
    assert limiter is not None
    limiter._per_minute = 20  # As if a minute were so short.
    assert asyncio.run(big.ask(small)) == "yes"


# The check before many games


class Remote(ScriptedBackend):
    traits = BackendTraits(is_remote=True)


def test_one_short_question_checks_a_provider_and_is_counted() -> None:
    with Misbehaving() as server:
        spec = f"{server.openai_url}#m"

        async def run() -> Tally:
            async with LLMService(quick()) as llm:
                await llm.probe(spec)
                return llm.ledger.tallies[spec]

        tally, counted = asyncio.run(run()), server.ledger
    assert (tally.calls, tally.answered, counted.requests) == (1, 1, 1)
    assert tally.prompt_tokens == counted.prompt_tokens
    assert tally.completion_tokens <= 20


def test_a_question_that_checks_a_model_leaves_room_for_its_thoughts() -> None:
    plain, thinker = Remote(["ok"]), Remote(["ok"])
    thinker.traits = BackendTraits(is_remote=True, always_thinks=True)
    for backend in (plain, thinker):
        llm = LLMService(quick())
        llm.add(SPEC, backend)
        asyncio.run(llm.probe(SPEC))
        (request,) = backend.requests
        assert [message.role for message in request.messages] == ["user"]
        assert request.messages[0].content
    assert plain.requests[0].sampling.max_tokens <= 100
    assert thinker.requests[0].sampling.max_tokens >= 200


def test_a_check_that_meets_thoughts_names_the_setting_that_gives_them_room() -> None:
    hints: list[str] = []
    for known in (False, True):
        backend = Remote([ScriptedReply("ok", reasoning="hm")])
        backend.traits = BackendTraits(is_remote=True, always_thinks=known)
        llm = LLMService(quick(), notify=hints.append)
        llm.add(SPEC, backend)
        asyncio.run(llm.probe(SPEC))
    (hint,) = hints
    assert hint.startswith("scripted thinks") and '[models."scripted"]' in hint


def test_a_model_in_this_process_is_not_checked() -> None:
    llm, backend = LLMService(quick()), ScriptedBackend([])
    llm.add(SPEC, backend)
    asyncio.run(llm.probe(SPEC))
    assert not backend.requests


def test_a_failed_check_ends_the_run_with_the_reason_and_the_way_without_it() -> None:
    llm = LLMService(quick())
    llm.add(SPEC, Remote([ScriptedReply(error="bad_request", text="no such parameter")]))
    with pytest.raises(StopPlaying, match="^scripted: .*no such parameter.*--set probe=false"):
        asyncio.run(llm.probe(SPEC))


class Slow(Remote):
    """Takes the question and never answers, or fails after a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__([ScriptedReply(error="server_error")] * 9)
        self.seconds = seconds
        self.calls = 0

    async def complete(self, request: Request) -> Completion:
        self.calls += 1
        await asyncio.sleep(self.seconds)
        return await super().complete(request)


@pytest.mark.parametrize(("seconds", "calls"), [(60.0, 1), (0.15, 3)])
def test_the_check_of_a_slow_server_ends_within_one_call_timeout(
    seconds: float, calls: int
) -> None:
    slow = Slow(seconds)
    llm = LLMService(quick(call_timeout=0.3, max_retries=5, patience=60, breaker_failures=8))
    llm.add(SPEC, slow)
    started = time.monotonic()
    with pytest.raises(StopPlaying, match="the check before the games failed"):
        asyncio.run(llm.probe(SPEC))
    # The last try may begin just before the time is over.
    assert time.monotonic() - started < 2 * 0.3 + 0.3
    assert slow.calls <= calls


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
