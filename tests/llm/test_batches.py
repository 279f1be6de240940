"""Batches: real litellm against a loopback server with the batch formats of two providers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer

from arena.core.errors import ArenaError, BackendError, StopPlaying, UsageError
from arena.llm.backend import BackendTraits, Completion, Message, Request, Sampling
from arena.llm.batches import PRICE_SHARE, BatchedBackend, BatchJournal, StoredBatch
from arena.llm.service import LLMService
from arena.llm.settings import RunLimits, Settings
from backends.litellm_client import READ_ONLY_REMARK, halves_price, load_litellm

pytestmark = pytest.mark.filterwarnings(f"ignore:{READ_ONLY_REMARK}:UserWarning")

KEY = "sk-planted-0123456789abcdef"
SPECS = ("openai:gpt-4o-mini", "anthropic:claude-haiku-4-5")
both = pytest.mark.parametrize("spec", SPECS)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    with BatchServer(lambda _: "Action: pass") as running:
        for name in ("OPENAI", "ANTHROPIC"):
            monkeypatch.setenv(f"{name}_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", running.openai_url)
        monkeypatch.setenv("ANTHROPIC_API_BASE", running.url)
        yield running


def requests(number: int, first: int = 0) -> list[Request]:
    """Requests that differ in their seeds only, which not all providers get."""
    text = (Message("user", "who has the rope"),)
    seeds = range(first, first + number)
    return [Request(text, Sampling(max_tokens=20, seed=seed)) for seed in seeds]


def service(
    notes: list[str] | None = None, max_cost: float | None = None, **limits: Any
) -> LLMService:
    quick = {"batch_seconds": 0.1, "backoff": 0.01, "read_timeout": 5.0, **limits}
    settings = Settings.load(service=quick)
    noted = notes.append if notes is not None else lambda _: None
    return LLMService(settings, RunLimits(max_cost=max_cost), batches=True, notify=noted)


async def ask(
    llm: LLMService, folder: Path, spec: str, asked: Sequence[Request]
) -> list[Completion | BaseException]:
    async with llm:
        llm.backend(spec)
        llm.keep_batches(folder)
        return list(
            await asyncio.gather(
                *(llm.complete(spec, each) for each in asked), return_exceptions=True
            )
        )


def answers(folder: Path, spec: str, asked: Sequence[Request], **limits: Any) -> list[Completion]:
    found = asyncio.run(ask(service(**limits), folder, spec, asked))
    assert all(isinstance(each, Completion) for each in found), found
    return [each for each in found if isinstance(each, Completion)]


@both
def test_requests_that_wait_together_are_one_batch_at_half_the_price(
    server: BatchServer, spec: str, tmp_path: Path
) -> None:
    notes: list[str] = []
    llm = service(notes, max_cost=1.0)
    found = asyncio.run(ask(llm, tmp_path, spec, requests(20)))
    assert [len(batch) for batch in server.batches.values()] == [20]
    assert not server.direct and len(server.paid) == 20
    prices = load_litellm().model_cost[spec.partition(":")[2]]
    for answer in found:
        assert isinstance(answer, Completion) and answer.text == "Action: pass"
        usual = (
            answer.usage.prompt_tokens * prices["input_cost_per_token"]
            + answer.usage.completion_tokens * prices["output_cost_per_token"]
        )
        assert answer.cost == pytest.approx(PRICE_SHARE * usual)
        assert not answer.cached
    total = llm.ledger.total()
    assert total.answered == 20 and total.tries == 20
    assert total.cost == pytest.approx(sum(a.cost or 0 for a in found if isinstance(a, Completion)))
    name = next(iter(server.batches))
    assert notes[0] == f"{spec}: batch {name} with 20 requests is submitted"
    # A mark costs more, and nothing comes in time to read the prefix.
    assert "cache_control" not in str(server.bodies)
    sent = server.headers[0]
    assert KEY in (sent.get("x-api-key"), sent.get("authorization", "").removeprefix("Bearer "))


def test_only_models_at_half_the_price_are_batched(monkeypatch: pytest.MonkeyPatch) -> None:
    table = load_litellm().model_cost
    listed = {
        model: entry
        for model, entry in table.items()
        if entry.get("litellm_provider") in {"openai", "anthropic"}
        and entry.get("mode") in {"chat", "responses"}
        and entry.get("input_cost_per_token_batches") is not None
    }
    assert len(listed) > 10
    # The newest table names two old models with other prices, the others are all halved.
    dearer = {model for model, entry in listed.items() if not halves_price(entry)}
    assert dearer <= {"ft:gpt-4o-2024-08-06", "gpt-3.5-turbo-1106"}
    for entry in (listed[model] for model in listed.keys() - dearer):
        assert entry["input_cost_per_token_batches"] == pytest.approx(
            PRICE_SHARE * entry["input_cost_per_token"]
        )
    monkeypatch.setitem(
        table["gpt-4o-mini"], "input_cost_per_token_batches",
        table["gpt-4o-mini"]["input_cost_per_token"],
    )  # fmt: skip
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(UsageError, match="no batch endpoint at half the price"):
        service().backend("openai:gpt-4o-mini")


@both
def test_a_request_that_fails_or_expires_is_in_another_batch(
    server: BatchServer, spec: str, tmp_path: Path
) -> None:
    server.faults.extend(["expired", "rate_limit_error" if "claude" in spec else "429", ""])
    found = answers(tmp_path, spec, requests(3), max_retries=1, breaker_failures=1)
    assert len(found) == len(server.paid) == 3
    assert sum(map(len, server.batches.values())) == 5


@both
def test_the_error_of_one_request_is_only_its_own(
    server: BatchServer, spec: str, tmp_path: Path
) -> None:
    server.faults.append("invalid_request_error" if "claude" in spec else "400")
    found = asyncio.run(ask(service(), tmp_path, spec, requests(4)))
    (error,) = (each for each in found if not isinstance(each, Completion))
    assert isinstance(error, BackendError) and error.cause == "bad_request"
    assert len(server.batches) == 1


def test_calls_that_are_cancelled_or_come_too_late(server: BatchServer, tmp_path: Path) -> None:
    async def call() -> None:
        async with service(batch_seconds=0.2) as llm:
            llm.backend(SPECS[0])
            llm.keep_batches(tmp_path)
            with suppress(TimeoutError):
                await asyncio.wait_for(llm.complete(SPECS[0], *requests(1)), 0.1)
            await llm.complete(SPECS[0], *requests(1))
            llm._route(SPECS[0]).shared.breaker.stop("over")
            with pytest.raises(StopPlaying, match="over"):
                await llm.complete(SPECS[0], *requests(1, first=1))

    asyncio.run(call())
    assert len(server.paid) == 1


def test_a_full_batch_goes_out_beside_the_next_one(
    server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arena.llm.batches.MOST_REQUESTS", 2)
    arrived, enqueue = list[str](), BatchedBackend._enqueue

    def noted(self: BatchedBackend, key: str, *rest: Any) -> StoredBatch:
        arrived.append(key)
        return enqueue(self, key, *rest)

    monkeypatch.setattr(BatchedBackend, "_enqueue", noted)

    async def fill_late() -> list[Completion]:
        async with service() as llm:
            llm.backend(SPECS[0])
            llm.keep_batches(tmp_path)
            first, *others = requests(3)
            tasks = [asyncio.create_task(llm.complete(SPECS[0], first))]
            while not arrived:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)  # Half of the wait, so that the second batch is due first.
            tasks += [asyncio.create_task(llm.complete(SPECS[0], each)) for each in others]
            return await asyncio.gather(*tasks)

    assert len(asyncio.run(fill_late())) == sum(map(len, server.batches.values())) == 3


@both
def test_a_submission_whose_answer_is_lost_is_not_repeated(
    server: BatchServer, spec: str, tmp_path: Path
) -> None:
    server.submissions.append("lost")
    assert len(answers(tmp_path, spec, requests(4))) == 4
    assert len(server.batches) == 1 and len(server.paid) == 4


@both
@pytest.mark.parametrize("submission", ["", "lost"])
def test_a_later_session_picks_up_what_was_submitted(
    server: BatchServer, spec: str, submission: str, tmp_path: Path
) -> None:
    """The first session answers two requests; it ends while two more are on their way."""
    answers(tmp_path, spec, requests(2))
    server.submissions.append(submission)
    server.looks = 10**9

    async def cut_off() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(1.5):
                # Without patience a lost answer ends the session.
                await ask(service(patience=0.0), tmp_path, spec, requests(4))

    asyncio.run(cut_off())
    assert [len(batch) for batch in server.batches.values()] == [2, 2]
    for state in server.states.values():
        state["left"] = 1
    server.looks, notes = 1, list[str]()
    # Long enough for a busy machine to put both new requests into one batch.
    llm = service(notes, batch_seconds=1.0)
    found = asyncio.run(ask(llm, tmp_path, spec, requests(6)))
    assert all(isinstance(each, Completion) and each.cost for each in found)
    # Two of the first batch, two that were picked up, and two new ones.
    assert [len(batch) for batch in server.batches.values()] == [2, 2, 2]
    assert len(server.paid) == len(set(server.paid)) == 6
    assert any("of an earlier session is picked up" in note for note in notes)
    total = llm.ledger.total()
    assert total.cached == 2 and total.answered == 4


def test_a_submission_that_never_arrived_is_made_again(server: BatchServer, tmp_path: Path) -> None:
    server.submissions.append("500")
    found = asyncio.run(ask(service(patience=0.0), tmp_path, SPECS[0], requests(2)))
    assert all(isinstance(each, StopPlaying) for each in found) and not server.batches
    assert "--resume picks them up" in str(found[0]) and "answered 500" in str(found[0])
    assert len(answers(tmp_path, SPECS[0], requests(2))) == 2
    assert len(server.paid) == 2


@both
@pytest.mark.parametrize(
    ("submission", "word"),
    [
        ("401", "answered 401"),
        ("404", "answered 404"),
        ("model_not_found", "was refused: the batch has model_not_found (model_not_found)"),
    ],
)
def test_what_stops_all_batches_is_one_error(
    server: BatchServer, spec: str, submission: str, word: str, tmp_path: Path
) -> None:
    if not submission.isdigit() and "claude" in spec:
        pytest.skip("Anthropic checks a batch before it accepts it")
    server.submissions.append(submission)
    # Long enough for a busy machine to put all requests into one batch.
    found = asyncio.run(ask(service(batch_seconds=1.0), tmp_path, spec, requests(3)))
    assert {str(each) for each in found} == {str(found[0])}
    assert isinstance(found[0], StopPlaying) and word in str(found[0])
    assert KEY[:8] not in str(found[0]) and not server.paid


def test_a_journal_that_cannot_be_written_stops_the_run(tmp_path: Path) -> None:
    journal = BatchJournal(tmp_path / "batches.journal", print)
    journal._file.close()
    full = pytest.raises(StopPlaying, match="journal of batches .*No space left on device")
    with Path("/dev/full").open("ab", buffering=0) as journal._file, full:
        journal.store(StoredBatch("batch", ["key"]))
    journal.close()


class _Remote:
    """Backend of a provider without batches."""

    model = "y"
    context_length: int | None = None
    traits = BackendTraits(is_remote=True)

    async def complete(self, request: Request) -> Completion:
        raise ArenaError("not called")

    async def close(self) -> None:
        pass


def test_models_that_cannot_be_batched(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--batch: openrouter:x/y has no batch endpoint"):
        LLMService(batches=True).add("openrouter:x/y", _Remote())
    with pytest.raises(UsageError, match="no player is a model of a provider with batches"):
        LLMService(batches=True).keep_batches(tmp_path)
    with pytest.raises(UsageError, match="exclude each other"):
        LLMService(batches=True, cache=tmp_path / "answers.cache")


def test_models_without_chat_completions_are_batched_by_the_responses_api(
    server: BatchServer, tmp_path: Path
) -> None:
    (answer,) = answers(tmp_path, "openai:o3-pro", requests(1))
    assert answer.text == "Action: pass" and answer.cost and not server.direct
    assert "input" in server.bodies[0]
