"""Models that think, calls of functions, and prompts: from the flags to the replay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cluedo_server import legal_answer
from misbehaving import Misbehaving
from model_games import ModelGame, attempts_of, play_models
from provider_formats import THOUGHTS

from arena.agents.action_tools import action_tools
from arena.agents.chat import THINKING_ROOM, ChatOptions, system_prompt
from arena.cli import run
from arena.cli.options import REPLY_TOKENS, ModelOptions
from arena.cli.terminal import ledger_grid
from arena.core.errors import UsageError
from arena.episodes.match import Match
from arena.episodes.replay import read_replay
from arena.llm.backend import BackendTraits, Request
from arena.llm.config import SettingsLayer
from arena.llm.service import LLMService
from arena.llm.settings import KeylessSettings
from arena.plugins.catalog import catalog, make_game
from backends.scripted import ScriptedBackend, ScriptedReply

CLUEDO = make_game("cluedo", players=3)
THINKER = "openai:gpt-5-mini"


def legal(body: Any) -> str:
    """A legal answer to any question, or the example of a correction."""
    last = body["messages"][-1]["content"]
    example = str(last).rpartition("For example: ")[2] if "For example: " in last else ""
    return example or legal_answer(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Misbehaving]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789abcdef")
    with Misbehaving(legal) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.openai_url)
        yield running


def game_with(
    spec: str, options: ChatOptions = ChatOptions(), out: Path | None = None, backend: Any = None
) -> ModelGame:
    match = Match(CLUEDO, [spec, "bot:novice", "bot:novice"], 3, max_turns=6, chat=options)
    return play_models(match, backend, out)


def test_a_reply_limit_leaves_room_for_thinking_by_default(server: Misbehaving) -> None:
    options = ModelOptions().chat_options()
    game_with(THINKER, options)
    assert server.asked[-1].body["max_completion_tokens"] == REPLY_TOKENS + THINKING_ROOM
    game_with("openai:gpt-4o-mini", options)
    assert server.asked[-1].body["max_tokens"] == REPLY_TOKENS
    game_with(THINKER, ModelOptions(max_tokens=700).chat_options())
    assert server.asked[-1].body["max_completion_tokens"] == 700


def test_thinking_that_uses_up_the_reply_is_explained_to_model_and_user(
    server: Misbehaving, tmp_path: Path
) -> None:
    server.script(["thought_out", "reasoning", "thought_out"])
    options = ModelOptions(max_tokens=400, reasoning_effort="high").chat_options()
    episode, ledger, lines = game_with(THINKER, options, tmp_path)
    assert not episode.failures
    first, second = attempts_of(episode)[:2]
    assert (first.failure, first.reasoning, first.reasoning_tokens) == ("truncated", THOUGHTS, 400)
    assert (second.failure, second.reasoning, second.reasoning_tokens) == (None, THOUGHTS, 4)
    correction = second.messages[-1].content
    assert "thinking used up all 400 tokens" in correction and "For example: " in correction
    assert lines == [
        f"{THINKER}: a reply was cut off at 400 tokens, while the model was thinking; raise "
        "--max-tokens or lower --reasoning-effort"
    ]
    tally = ledger.tally(THINKER)
    assert tally.reasoning_tokens == 804
    assert tally.cost > 804 * 2e-6, "gpt-5-mini bills 2 dollars for a million of such tokens"
    kept = (tmp_path / "game.jsonl").read_text()
    assert THOUGHTS in kept and '"reasoning_tokens":400' in kept.replace(" ", "")


def test_a_reply_that_is_cut_off_in_its_text_is_explained_otherwise() -> None:
    replies = iter([ScriptedReply("Let me think", finish_reason="length")])
    backend = ScriptedBackend(lambda r: next(replies, legal_answer_of(r)))
    episode, _, lines = game_with("scripted", backend=backend)
    assert attempts_of(episode)[0].failure == "truncated"
    assert (
        backend.requests[1]
        .messages[-1]
        .content.startswith(
            "Your reply was cut off before it named an action. Think less, then name it."
        )
    )
    (line,) = lines
    assert "before it named an action; raise --max-tokens" in line and "effort" not in line


def legal_answer_of(request: Request) -> str:
    return legal({"messages": [{"content": m.content} for m in request.messages]})


def test_a_model_that_cannot_think_is_named_once(server: Misbehaving) -> None:
    options = ModelOptions(reasoning_effort="low").chat_options()
    _, _, lines = game_with("openai:gpt-4o-mini", options)
    assert lines == ["openai:gpt-4o-mini cannot think: --reasoning-effort has no effect on it"]
    assert "reasoning_effort" not in server.asked[-1].body


def test_the_ledger_shows_cached_and_thought_tokens(server: Misbehaving) -> None:
    server.script(["reasoning"])
    _, ledger, _ = game_with(THINKER)
    grid = ledger_grid(ledger)
    shown = dict(zip(grid.headings, grid.rows[0], strict=True))
    assert shown["thinking"] == "4"
    assert shown["cached in"] == f"{ledger.total().cached_tokens:,}" != "0"
    assert ledger.to_json()["total"]["reasoning_tokens"] == 4  # type: ignore[index,call-overload]


def test_calls_of_functions_play_a_game() -> None:
    def call(request: Request) -> str:
        assert request.tools == action_tools(CLUEDO) and not request.guided_choice
        words = legal_answer_of(request)
        card = words.rpartition("show ")[2]
        action = CLUEDO.actions.parse(f"show {card}" if card != words else words)
        fields = {f: str(getattr(action, f)) for f in getattr(action, "__dataclass_fields__", ())}
        arguments = {"thoughts": "I could accuse Mrs White, Rope, Hall.", **fields}
        return json.dumps({"name": type(action).__name__, "arguments": arguments})

    backend = ScriptedBackend(call)
    options = ModelOptions(answers="tools").chat_options()
    episode, _, _ = game_with("scripted", options, backend=backend)
    assert not episode.failures
    assert all(attempt.failure is None for attempt in attempts_of(episode))
    assert "calling the function" in backend.requests[0].messages[0].content


def test_flags_that_a_model_cannot_follow() -> None:
    backend = ScriptedBackend(legal_answer_of)
    backend.traits = BackendTraits(takes_thinking=False, takes_tools=False)  # type: ignore[attr-defined]
    options = ModelOptions(reasoning_effort="low").chat_options()
    _, _, lines = game_with("scripted", options, backend=backend)
    assert any("scripted cannot think" in line for line in lines)
    usual = ModelOptions().chat_options().sampling.max_tokens
    assert backend.requests[0].sampling.max_tokens == usual
    with pytest.raises(UsageError, match="scripted cannot call functions: use --answers text"):
        game_with("scripted", ModelOptions(answers="tools").chat_options(), backend=backend)
    with pytest.raises(UsageError, match="--guided and --answers json exclude each other"):
        ModelOptions(answers="json", guided=True).chat_options()


@pytest.mark.parametrize("name", catalog().names("game"))
def test_the_functions_of_every_game(name: str) -> None:
    game = make_game(name)
    tools = {tool.name: tool for tool in action_tools(game)}
    kinds = dict.fromkeys(type(action).__name__ for action in game.actions)
    assert list(tools) == [*kinds, *(kind.__name__ for kind in game.speech)]
    for action in game.actions:
        schema: Any = tools[type(action).__name__].parameters
        for field in getattr(action, "__dataclass_fields__", ()):
            assert str(getattr(action, field)) in schema["properties"][field]["enum"]
        assert schema["required"] == list(schema["properties"])


@pytest.mark.parametrize(("mode", "repeated"), [("append", [2, 4, 6]), ("fresh", [1, 1, 1])])
def test_a_request_names_what_later_ones_repeat(mode: Any, repeated: list[int]) -> None:
    backend = ScriptedBackend(legal_answer_of)
    game_with("scripted", ChatOptions(chat=mode), backend=backend)
    assert [request.repeated for request in backend.requests[:3]] == repeated


def test_the_flags_of_the_system_message() -> None:
    assert ModelOptions().chat_options(CLUEDO).system is None
    for answers in ("text", "json", "tools"):
        options = ModelOptions(prompt="brief", answers=answers).chat_options(CLUEDO)
        assert options.system == system_prompt("brief", CLUEDO, options.answers, 300)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"reasoning_effort": "much"}, "--reasoning-effort much: choose none, min"),
        ({"answers": "tool"}, "--answers tool: choose text, json or too"),
        ({"chat": "long"}, "--chat long"),
    ],
)
def test_flags_that_cannot_be(flags: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ModelOptions.of_layers([SettingsLayer("flag", flags)]).chat_options()


@pytest.mark.parametrize(
    ("specs", "mode"),
    [
        (["bot:novice"], "append"),
        (["openai", "bot:novice", "anthropic:claude-haiku-4-5"], "fresh"),
        (["openrouter", "embedded:clue-tiny"], "append"),
        (["http://127.0.0.1:9/v1"], "append"),
        (["ollama"], "append"),
    ],
)
def test_hosted_models_get_a_fresh_chat(specs: list[str], mode: str) -> None:
    assert ModelOptions().chat_options(specs=specs).chat == mode
    assert ModelOptions(chat="append").chat_options(specs=specs).chat == "append"


@pytest.mark.parametrize(
    ("specs", "mode"),
    [
        (["openai:gpt-4o-mini"], "fresh"),  # It bills cached prompts at a half.
        (["openai:gpt-5-mini"], "append"),
        (["openai:gpt-5-mini", "openai:gpt-4o-mini"], "fresh"),
        (["openai:unheard"], "fresh"),
        (["openai:gpt-5-mini", "http://127.0.0.1:9/v1"], "append"),
    ],
)
def test_the_form_of_the_chat_follows_from_the_price_of_cached_prompts(
    specs: list[str], mode: str
) -> None:
    llm = LLMService(KeylessSettings.load())
    assert ModelOptions().chat_options(specs=specs, llm=llm).chat == mode


@pytest.mark.parametrize("command", ["play", "eval"])
def test_play_and_eval_take_the_flags(
    server: Misbehaving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    player = {
        "play": ["--no-watch", "--seat", f"0={THINKER}"],
        "eval": ["--player", THINKER, "--games", "1", "--workers", "1"],
    }[command]
    flags = "--players 3 --max-turns 3 --seed 3 --out out --answers tools --reasoning-effort low"
    Path("bold.txt").write_text("Be bold.\n{rules}\n{answer}")
    assert run([command, "cluedo", *player, *flags.split(), "--prompt", "bold.txt"]) == 0
    body = server.asked[-1].body
    assert body["messages"][0]["content"].startswith("Be bold.\nCluedo, 3 players")
    assert len(body["messages"]) > 2, "a growing chat: its cached prompts are cheap"
    assert (body["reasoning_effort"], body["tool_choice"]) == ("low", "required")
    (replay,) = (path for path in Path("out").glob("**/*.jsonl") if path.name != "games.jsonl")
    models = read_replay(replay).header.models
    assert models is not None and models["answers"] == "tools"
    assert replace(ChatOptions(), system=str(models["system"])).to_json()["system"]
