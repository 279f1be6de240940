"""Answers kept on disk: found again, shared, spoilt, and free of secrets."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_table import ASK, GONE, SPEC, Table, check_sums, quick, table

from arena.cli.terminal import write_ledger
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import redacted
from arena.llm.backend import Choice, Completion, Message, Request, Sampling, Token, Usage
from arena.llm.budget import TOKENS
from arena.llm.response_cache import ResponseCache, key_of
from arena.llm.service import LLMService
from backends.scripted import ScriptedBackend

FULL = Completion(
    choices=(Choice("Ünïcode 🂡", "length", "hm", "no", (Token(7, "a", float("-inf"), -0.5),)),),
    model="m",
    usage=Usage(3, 4, 1),
    cost=0.5,
    policy_version=2,
    prompt_token_ids=(1, 2),
    seconds=0.1,
    seconds_to_first_token=0.05,
)


def test_the_same_request_is_answered_from_the_cache(tmp_path: Path) -> None:
    cache = tmp_path / "new" / "answers.sqlite"
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
        assert budget.spent[TOKENS] == play.tally.prompt_tokens + play.tally.completion_tokens
        check_sums(play.tally)


def test_a_completion_comes_back_whole(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "c", print)
    cache.put(SPEC, ASK, FULL)
    found = cache.get(SPEC, ASK)
    assert found == FULL
    assert found is not None and found.cached
    half = Choice("half a pair: \ud83d")  # It can be written, but not read: a miss.
    cache.put(SPEC, ASK, replace(FULL, choices=(half,)))
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
    with pytest.raises(ArenaError, match="notes.txt"):
        table([], cache=tmp_path / "notes.txt")
    with pytest.raises(ArenaError, match="response cache"):
        table([], cache=tmp_path)
    other = sqlite3.connect(tmp_path / "other")
    other.execute("CREATE TABLE completions (id INTEGER)")
    other.close()
    with pytest.raises(ArenaError, match="no such column"):
        table([], cache=tmp_path / "other")


def test_a_cache_that_fails_meanwhile_costs_a_line_and_no_call(tmp_path: Path) -> None:
    play = table(lambda _: "yes", cache=tmp_path / "c")

    async def run() -> list[str]:
        async with play.llm:
            texts = [await play.ask()]
            assert play.llm._cache is not None
            play.llm._cache._database.execute("PRAGMA max_page_count = 1")  # The disk is full.
            big = Request((Message("user", "z"),))
            play.backend._reply_to = lambda _: "y" * 100_000
            texts += [await play.ask(big), await play.ask(big)]
            return texts

    texts = asyncio.run(run())
    assert [len(text) for text in texts] == [3, 100_000, 100_000]
    assert len(play.said) == 1
    assert "full" in play.said[0]


def test_a_spoilt_entry_is_a_miss(tmp_path: Path) -> None:
    play = table(["first", "second"], cache=tmp_path / "c")

    async def run() -> list[str]:
        async with play.llm:
            texts = [await play.ask()]
            assert play.llm._cache is not None
            play.llm._cache._database.execute("UPDATE completions SET completion = '{'")
            return [*texts, await play.ask(), await play.ask()]

    assert asyncio.run(run()) == ["first", "second", "second"]


WRITER = """
import sys
from pathlib import Path
from arena.llm.backend import Choice, Completion, Message, Request
from arena.llm import response_cache
from arena.llm.response_cache import ResponseCache
response_cache.PATIENCE = 60  # On a busy machine another process may hold the lock for long.
cache = ResponseCache(Path(sys.argv[1]), lambda line: sys.exit(line))
for number in range(200):
    request = Request((Message("user", str(number)),))
    cache.put("s", request, Completion((Choice(str(number)),), "m"))
    assert cache.get("s", request).text == str(number)
"""


def test_several_processes_share_a_cache(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "c")]
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


NO_MAPS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
static int refused(int flags, int fd) { return (flags & MAP_SHARED) && fd >= 0; }
#define WITHOUT_MAPS(name) \
  void *name(void *a, size_t n, int p, int f, int fd, off_t o) { \
    if (refused(f, fd)) { errno = ENODEV; return MAP_FAILED; } \
    void *(*real)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, #name); \
    return real(a, n, p, f, fd, o); }
WITHOUT_MAPS(mmap)
WITHOUT_MAPS(mmap64)
"""
"""Source of a library that refuses to map files into shared memory, as network file systems do."""


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
@pytest.mark.parametrize("before", ["nothing", "a cache of another machine"])
def test_a_file_system_without_maps_of_shared_memory(before: str, tmp_path: Path) -> None:
    (tmp_path / "shim.c").write_text(NO_MAPS)
    library = tmp_path / "shim.so"
    build = ["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "shim.c"), "-ldl"]
    subprocess.run(build, check=True)
    if before != "nothing":
        ResponseCache(tmp_path / "c", print).close()
    command = [sys.executable, "-c", WRITER, str(tmp_path / "c")]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "LD_PRELOAD": str(library)}
    subprocess.run(command, env=environment, check=True, timeout=300)
    cache = ResponseCache(tmp_path / "c", print)
    assert cache.get("s", Request((Message("user", "199"),))) is not None
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
