"""Answers kept on disk: found again, shared, spoilt, and free of secrets."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from preloaded import python_command
from scripted_table import ASK, GONE, SPEC, Table, check_sums, quick, table

from arena.cli.terminal import write_ledger
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import redacted
from arena.llm.backend import Choice, Completion, Message, Request, Sampling, Token, Usage
from arena.llm.response_cache import ResponseCache, key_of
from arena.llm.service import LLMService
from backends.scripted import ScriptedBackend

FULL = Completion(
    choice=Choice("Ünïcode 🂡", "length", "hm", "no", (Token(7, "a", float("-inf"), -0.5),)),
    model="m",
    usage=Usage(3, 4, 1),
    cost=0.5,
    policy_version=2,
    prompt_token_ids=(1, 2),
    seconds=0.1,
)


def test_the_same_request_is_answered_from_the_cache(tmp_path: Path) -> None:
    cache = tmp_path / "new" / "answers.cache"
    for run in range(2):
        play = table(["first", "second"], cache=cache, token_limit=1000)

        async def ask(play: Table = play) -> list[Completion]:
            async with play.llm as llm:
                other = Request(ASK.messages, Sampling(max_tokens=90, seed=1))
                return [await llm.complete(SPEC, request) for request in (ASK, ASK, other)]

        answers = asyncio.run(ask())
        assert [answer.text for answer in answers] == ["first", "first", "second"]
        assert [answer.cached for answer in answers] == [run == 1, True, run == 1]
        assert play.tally.cached == (1, 3)[run]
        assert len(play.backend.requests) == (2, 0)[run]
        budget = play.llm._budget
        assert budget is not None
        assert budget.spent[1] == play.tally.prompt_tokens + play.tally.completion_tokens
        check_sums(play.tally)


def test_a_completion_comes_back_whole(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "c", print)
    cache.put(SPEC, ASK, FULL)
    found = cache.get(SPEC, ASK)
    assert found == FULL
    assert found is not None and found.cached
    half = Choice("half a pair: \ud83d")  # It can be written, but not read: a miss.
    cache.put(SPEC, ASK, replace(FULL, choice=half))
    assert cache.get(SPEC, ASK) is None
    cache.close()


def test_whatever_matters_is_in_the_key() -> None:
    messages = ASK.messages
    requests = [
        ASK,
        Request(()),
        Request(messages, Sampling(temperature=0.5)),
        Request(messages, guided_choice=("a",)),
        Request(messages, guided_json={"a": 1}),
        Request(messages, policy_version=1),
        Request(messages, logprobs=True),
    ]
    keys = {key_of(spec, request) for request in requests for spec in ("a", "b")}
    assert len(keys) == 2 * len(requests)
    one, two = Request((), guided_json={"a": 1, "b": 2}), Request((), guided_json={"b": 2, "a": 1})
    assert key_of(SPEC, one) == key_of(SPEC, two)


def test_a_file_that_is_no_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("dear diary " * 100)
    with pytest.raises(ArenaError, match=r"notes.txt: its first line is not"):
        table([], cache=tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "dear diary " * 100
    with pytest.raises(ArenaError, match="response cache"):
        table([], cache=tmp_path)


def test_a_cache_that_fails_meanwhile_costs_a_line_and_no_call(tmp_path: Path) -> None:
    play = table(lambda _: "yes", cache=tmp_path / "c")

    async def run() -> list[str]:
        async with play.llm:
            texts = [await play.ask()]
            assert play.llm._cache is not None
            play.llm._cache._file.close()
            other = Request((Message("user", "z"),))
            with Path("/dev/full").open("ab", buffering=0) as play.llm._cache._file:
                return [*texts, await play.ask(other), await play.ask(other)]

    assert asyncio.run(run()) == ["yes"] * 3
    assert len(play.said) == 1 and "No space left on device" in play.said[0]


def test_a_spoilt_entry_is_a_miss(tmp_path: Path) -> None:
    """A session is killed in a line; the next one goes on below it."""
    cache = ResponseCache(tmp_path / "c", print)
    cache.put(SPEC, ASK, FULL)
    cache.close()
    whole = (tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(whole[:-40])
    for found in (None, FULL):
        cache = ResponseCache(tmp_path / "c", print)
        assert cache.get(SPEC, ASK) == found
        cache.put(SPEC, ASK, FULL)
        assert cache.get(SPEC, ASK) == FULL
        cache.close()


WRITER = """
import sys
from pathlib import Path
from arena.llm.backend import Choice, Completion, Message, Request
from arena.llm.response_cache import ResponseCache
cache = ResponseCache(Path(sys.argv[1]), lambda line: sys.exit(line))
for number in range(200):
    request = Request((Message("user", str(number)),))
    cache.put("s", request, Completion(Choice(str(number)), "m"))
    assert cache.get("s", request).text == str(number)
"""


def test_several_processes_share_a_cache(tmp_path: Path) -> None:
    command = [*python_command(), "-c", WRITER, str(tmp_path / "c")]
    root = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    writers = [subprocess.Popen(command, env=root, stderr=subprocess.PIPE) for _ in range(4)]
    for writer in writers:
        assert writer.communicate(timeout=300)[1].decode() == ""
        assert writer.returncode == 0
    cache = ResponseCache(tmp_path / "c", print)
    for number in range(200):
        found = cache.get("s", Request((Message("user", str(number)),)))
        assert found is not None and found.text == str(number)
    cache.close()


def test_no_secret_is_written(tmp_path: Path) -> None:
    secret = "hunter2-and-more"
    spec = f"scripted://user:{secret}@host:1/v1#model@3"
    assert redacted(spec) == "scripted://host:1/v1#model@3"
    assert redacted("http://host/v1#a@3") == "http://host/v1#a@3"
    said: list[str] = []
    llm = LLMService(quick(breaker_failures=1), cache=tmp_path / "c", notify=said.append)
    llm.add(spec, ScriptedBackend([GONE, "yes"]))
    with pytest.raises(UsageError) as refused:
        llm.add(spec, ScriptedBackend([]))

    async def run() -> None:
        async with llm:
            await llm.complete(spec, ASK)
            write_ledger(llm.ledger, tmp_path / "ledger.json")

    asyncio.run(run())
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"yes" in written
    assert secret.encode() not in written
    assert secret not in " ".join(said) + str(refused.value)
