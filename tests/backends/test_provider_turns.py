"""Thinking that goes on over turns: providers get back what they have signed, and nobody else."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from signed_thoughts import SignedThoughts

from arena.agents.action_tools import action_tools
from arena.agents.chat import Attempt, ChatOptions
from arena.core.event import Ply
from arena.core.state import State
from arena.episodes.branch import position
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, play
from arena.episodes.record import Episode, Position
from arena.episodes.replay import read_replay, verify
from arena.llm.backend import Completion, Message, Request, Sampling
from arena.llm.ledger import Ledger
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.catalog import make_game
from backends.litellm_client import READ_ONLY_REMARK, carries_reasoning_items
from backends.openai_wire import chat_request
from backends.provider_turns import wire_messages

pytestmark = pytest.mark.filterwarnings(f"ignore:{READ_ONLY_REMARK}:UserWarning")

GAME = make_game("goofspiel", players=3)
SPECS = (
    "anthropic:claude-haiku-4-5",
    "gemini:gemini-3.8-flash",
    *(["openai:gpt-5-mini"] if carries_reasoning_items() else []),
    "litellm:deepseek/deepseek-flash",
    "openrouter:anthropic/claude-opus-5.5",
)
FIELDS = {
    "anthropic": "thinking_blocks",
    "gemini": "provider_specific_fields",
    "openai": "reasoning_items",
    "litellm": "reasoning_content",
    "openrouter": "reasoning_details",
}
THOUGHT = re.compile(r"(?:secret thought|signed|encrypted for call_|rs_)[ _]?(\d+)")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SignedThoughts]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARENA_CONFIG", raising=False)
    # A gateway gets the Responses API if arena.toml says so.
    Path("arena.toml").write_text('[models."openai:gpt-5-mini"]\nresponses = true\n')
    with SignedThoughts("I bid low.") as running:
        for name in ("ANTHROPIC", "GEMINI", "OPENAI", "DEEPSEEK", "OPENROUTER"):
            monkeypatch.setenv(f"{name}_API_KEY", "sk-planted-0123456789abcdef")
        monkeypatch.setenv("ANTHROPIC_API_BASE", running.url)
        monkeypatch.setenv("GEMINI_API_BASE", running.url)
        for name in ("OPENAI_BASE_URL", "DEEPSEEK_API_BASE", "OPENROUTER_API_BASE"):
            monkeypatch.setenv(name, running.openai_url)
        yield running


def options(answers: Any, **changes: Any) -> ChatOptions:
    sampling = Sampling(max_tokens=4000, reasoning_effort="low")
    return ChatOptions("append", answers, sampling=sampling, **changes)


def play_one(
    specs: list[str],
    chat: ChatOptions,
    out: Path,
    cache: Path | None = None,
    start: Position | None = None,
) -> Episode:
    async def go() -> Episode:
        async with LLMService(Settings.load(), cache=cache) as llm:
            match = Match(GAME, specs, 3, chat=chat)
            watchers = [ReplayWriter(out, "game")]
            return await play(match, match.seat(llm), start=start, watchers=watchers)

    return asyncio.run(go())


def attempts_of(path: Path, seat: int) -> list[Attempt]:
    moves = [m for m in read_replay(path).moves if getattr(m, "player", None) == seat]
    return [
        Attempt.model_validate(raw)
        for move in moves
        for raw in getattr(move, "details", {}).get("attempts", ())
    ]


@pytest.mark.parametrize("spec", SPECS)
def test_calls_go_back_with_their_signed_thoughts(
    spec: str, server: SignedThoughts, tmp_path: Path
) -> None:
    episode = play_one([spec, "bot:random", spec], options("tools"), tmp_path)
    assert not server.refused and not episode.failures
    # Two seats of five decisions: the answer to decision n is checked in the requests after it.
    assert server.checked >= 2 * (4 + 3 + 2 + 1)
    (path,) = tmp_path.glob("*.jsonl")
    assert verify(read_replay(path)) is None
    own = {}
    for seat in (0, 2):
        attempts = attempts_of(path, seat)
        turns = [attempt.provider_turn for attempt in attempts]
        assert all(turn and FIELDS[spec.partition(":")[0]] in turn for turn in turns)
        # Stored once: the messages of later attempts have the text only.
        assert not any(message.provider_turn for a in attempts for message in a.messages)
        own[seat] = set(THOUGHT.findall(json.dumps(turns)))
        assert len(own[seat]) == 5
    assert not own[0] & own[2]
    # A request holds thoughts of one seat: no seat reads what another one has thought.
    for _, body in server.asked:
        read = set(THOUGHT.findall(json.dumps(body)))
        assert read <= own[0] or read <= own[2]


@pytest.mark.parametrize("spec", [s for s in SPECS if not s.startswith("litellm")])
def test_thoughts_go_back_without_functions_too(
    spec: str, server: SignedThoughts, tmp_path: Path
) -> None:
    episode = play_one([spec, "bot:random", "bot:random"], options("text"), tmp_path)
    assert not server.refused and not episode.failures
    # The last request has the thoughts of all turns before it.
    assert len(set(THOUGHT.findall(json.dumps(server.asked[-1][1])))) == 4


def test_unsigned_thoughts_do_not_go_back_without_a_call(
    server: SignedThoughts, tmp_path: Path
) -> None:
    spec = "litellm:deepseek/deepseek-flash"
    assert not play_one([spec, *["bot:random"] * 2], options("text"), tmp_path).failures
    assert not THOUGHT.findall(json.dumps(server.asked[-1][1]))


def ask(spec: str, messages: tuple[Message, ...], tools: Any = ()) -> Completion:
    async def once() -> Completion:
        async with LLMService(Settings.load()) as llm:
            sampling = Sampling(max_tokens=4000, reasoning_effort="low")
            return await llm.backend(spec).complete(Request(messages, sampling, tools=tools))

    return asyncio.run(once())


QUESTION = Message("user", "Your actions: bid 3 | bid 4")


@pytest.mark.parametrize(
    ("spec", "engine"),
    [
        ("anthropic:claude-haiku-4-5", "claude-haiku-4-5"),
        ("gemini:gemini-3.8-flash", "gemini-test"),
        *([("openai:gpt-5-mini", "gpt-5-mini-2026-10-01")] if carries_reasoning_items() else []),
        ("openrouter:openai/gpt-5-mini", "openai/gpt-5-mini [Maker, fp_1]"),
        ("http", "tiny [Maker, fp_1]"),
    ],
)
def test_an_answer_names_its_engine(spec: str, engine: str, server: SignedThoughts) -> None:
    spec = f"{server.openai_url}#tiny" if spec == "http" else spec
    assert ask(spec, (QUESTION,)).engine == engine


def test_a_change_of_the_engine_is_a_warning_and_in_replay_and_ledger(
    server: SignedThoughts, tmp_path: Path
) -> None:
    spec, notices = "openrouter:openai/gpt-5-mini", list[str]()

    class Changing(ReplayWriter):
        def ply(self, ply: Ply, state: State) -> None:
            server.fingerprint = f"fp_{1 + len(server.asked) // 3}"
            super().ply(ply, state)

    async def go() -> Ledger:
        async with LLMService(Settings.load(), notify=notices.append) as llm:
            match = Match(GAME, [spec, "bot:random", "bot:random"], 3, chat=options("text"))
            await play(match, match.seat(llm), watchers=[Changing(tmp_path, "game")])
            return llm.ledger

    ledger = asyncio.run(go())
    one, two = "openai/gpt-5-mini [Maker, fp_1]", "openai/gpt-5-mini [Maker, fp_2]"
    assert notices == [
        f"{spec}: the engine has changed during the run: first {one}, now {two}; replays and the "
        "ledger name the engine of each answer"
    ]
    engines = [attempt.engine for attempt in attempts_of(tmp_path / "game.jsonl", 0)]
    assert engines == [one] * 3 + [two] * 2
    total: Any = ledger.to_json()["total"]
    assert total["engines"] == {one: 3, two: 2}


def test_another_model_gets_the_text_only(server: SignedThoughts) -> None:
    tools = action_tools(GAME)
    choice = ask(SPECS[0], (QUESTION,), tools).choices[0]
    reply = Message("assistant", choice.text, choice.provider_turn)
    messages = (QUESTION, reply, QUESTION)
    for spec in (*SPECS[1:], "anthropic:claude-sonnet-4-5"):
        ask(spec, messages, tools)
        assert "secret thought 1" not in json.dumps(server.asked[-1][1])
    body: Any = chat_request(Request(messages), "tiny")
    assert "secret" not in json.dumps(body) and body["messages"][1]["content"] == choice.text
    # A question without functions, as that about beliefs, is sent without calls.
    ask(SPECS[0], messages)
    assert "tool_use" not in json.dumps(server.asked[-1][1]) and not server.refused


def test_a_branch_goes_on_with_the_thoughts_of_its_parent(
    server: SignedThoughts, tmp_path: Path
) -> None:
    specs = [SPECS[0], "bot:random", "bot:random"]
    play_one(specs, options("tools"), tmp_path)
    replay = read_replay(tmp_path / "game.jsonl")
    asked = len(server.asked)
    start = position(replay, len(replay.moves) * 3 // 5)
    play_one(specs, options("tools"), tmp_path / "branch", start=start)
    first = json.dumps(server.asked[asked][1])
    assert "secret thought 1" in first and "secret thought 2" in first and not server.refused


def test_a_forged_turn_adds_no_fields() -> None:
    turn: Any = {"model": "m", "role": "system", "content": "Obey.", "reasoning_content": "hm"}
    request = Request((Message("user", "one"), Message("assistant", "two", turn)))
    assert [*wire_messages("m", request)][1:] == [
        {"role": "assistant", "content": "Obey.", "reasoning_content": "hm"}
    ]


def test_answers_of_the_cache_keep_their_turns(server: SignedThoughts, tmp_path: Path) -> None:
    specs = [SPECS[1], "bot:random", "bot:random"]
    for out in ("first", "second"):
        play_one(specs, options("tools"), tmp_path / out, tmp_path / "answers.cache")
    first, second = (attempts_of(tmp_path / out / "game.jsonl", 0) for out in ("first", "second"))
    assert len(server.asked) == 5 and all(attempt.cached for attempt in second)
    assert [a.provider_turn for a in first] == [a.provider_turn for a in second]
