"""Verification of agents: bots decide again, the chats of models are rebuilt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arena.agents.chat import ChatOptions
from arena.cli import run
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, play
from arena.episodes.replay import read_replay, verify
from arena.episodes.verify_agents import verify_agents
from arena.llm.service import LLMService
from arena.plugins.loader import make_game
from backends.scripted import ScriptedBackend

BOTS = ("bot:detective", "bot:novice", "bot:random")
MODEL = "scripted:model"
REPLIES = ["nonsense", "end turn", "nothing", "nothing", "nothing", "end turn"]
Change = Callable[[list[dict[str, Any]]], object]


def record(folder: Path, match: Match, replies: list[str] | None = None) -> Path:
    async def go() -> Path:
        writer = ReplayWriter(folder, "game")
        async with LLMService() as llm:
            if replies:
                llm.add(MODEL, ScriptedBackend(replies * 40, model=MODEL))
            await play(match, llm=llm, watchers=[writer])
        return writer.path

    return asyncio.run(go())


def changed(path: Path, change: Change) -> Path:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def fault(path: Path) -> str | None:
    replay = read_replay(path)
    return verify(replay) or asyncio.run(verify_agents(replay))


def bots(**more: Any) -> Match:
    return Match(make_game("cluedo", players=3), BOTS, seed=3, **more)


def with_model(**chat: Any) -> Match:
    options = ChatOptions(**{"max_attempts": 3, **chat})
    specs = (MODEL, "bot:novice")
    return Match(make_game("cluedo", players=2), specs, 4, "deductions", options, 6)


@pytest.mark.parametrize(
    "match",
    [bots(), bots(agents_seed=0), bots(agents_seed=77), bots(max_turns=3)],
    ids=["plain", "agents_seed 0", "agents_seed 77", "truncated"],
)
def test_bots_make_the_recorded_moves(match: Match, tmp_path: Path) -> None:
    assert fault(record(tmp_path, match)) is None


@pytest.mark.parametrize(
    "chat",
    [
        {},
        {"chat": "fresh"},
        {"fallback": "forfeit"},
        {"beliefs": True},
        {"answers": "json", "examples": 1},
        {"combined": True},
        {"system": "Play well."},
        {"thinking_room": 9, "max_attempts": 2},
    ],
    ids=str,
)
def test_the_chat_of_a_model_is_rebuilt(chat: dict[str, Any], tmp_path: Path) -> None:
    assert fault(record(tmp_path, with_model(**chat), REPLIES)) is None


def test_an_unfinished_replay_is_verified_as_far_as_it_goes(tmp_path: Path) -> None:
    path = record(tmp_path, with_model(), REPLIES)
    whole = path.read_text("utf-8").splitlines(keepends=True)
    for length in range(1, len(whole) - 1, 7):
        path.write_text("".join(whole[:length]), "utf-8")
        assert fault(path) is None


def _header(**fields: Any) -> Change:
    return lambda lines: lines[0].update(fields)


def _decision(seat: int, **fields: Any) -> Change:
    def change(lines: list[dict[str, Any]]) -> None:
        own = (line for line in lines if line["type"] == "decision" and line["player"] == seat)
        next(own).update(fields)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_header(players=["bot:novice", *BOTS[1:]]), "bot:novice in seat 0 plays"),
        (_header(agents_seed=5), "in this version of arena"),
        (_decision(0, failure="timed out"), "whether this move was a fallback"),
        (_decision(0, details={"note": "x"}), "has other details"),
        (lambda lines: lines.pop(), "the game is over, but the replay has no outcome"),
    ],
    ids=["spec", "seed of agents", "failure", "details", "outcome"],
)
def test_a_changed_game_of_bots_is_reported(change: Change, words: str, tmp_path: Path) -> None:
    assert words in str(fault(changed(record(tmp_path, bots()), change)))


def _first_attempts(change: Callable[[list[dict[str, Any]]], object]) -> Change:
    def apply(lines: list[dict[str, Any]]) -> None:
        change(next(line["details"]["attempts"] for line in lines if line.get("details")))

    return apply


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_header(text_level="events"), "messages"),
        (_header(max_turns=7), "turn"),
        (lambda lines: lines[0]["models"].update(max_attempts=1), "fallback"),
        (lambda lines: lines[0]["models"].update(system="Cheat."), "messages.0.content"),
        (_header(players=[MODEL, "bot:random"]), "bot:random in seat 1 plays"),
        (_decision(0, failure="refused in attempt 1"), "whether this move was a fallback"),
        (_decision(0, details={}), "whether this move was a fallback"),
        (
            _first_attempts(lambda attempts: attempts[0].update(reply="end turn")),
            "expected '1 entries'",
        ),
        (_first_attempts(lambda attempts: attempts.pop(0)), "attempts"),
        (_first_attempts(lambda attempts: attempts[0].update(kept=1)), "attempts.0"),
        (_first_attempts(lambda attempts: attempts[0].update(reply=3)), "ply 2: attempts: "),
    ],
)
def test_a_changed_game_of_a_model_is_reported(change: Change, words: str, tmp_path: Path) -> None:
    assert words in str(fault(changed(record(tmp_path, with_model(), REPLIES), change)))


def test_the_command_says_what_it_does_not_prove(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = record(tmp_path, bots())
    assert run(["replay", str(path), "--verify"]) == 0
    assert "Not proven: who gave the recorded decisions" in capsys.readouterr().out
    changed(path, _header(players=["bot:random", *BOTS[1:]]))
    assert run(["replay", str(path), "--verify"]) == 1
    assert "bot:random in seat 0 plays" in capsys.readouterr().out
