"""Models that think: the form of their parameters, their tokens, functions, cache marks."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from misbehaving import Misbehaving
from model_games import ModelGame, attempts_of, play_models
from provider_calls import answer, backend_of, serve_providers, settings
from provider_formats import THOUGHTS, limit_of

from arena.agents.action_tools import action_tools
from arena.agents.chat import ChatOptions
from arena.core.errors import BackendError
from arena.episodes.match import Match
from arena.llm.backend import Completion, Message, Request, Sampling
from arena.plugins.catalog import make_game
from backends import PROVIDERS
from backends.litellm_client import READ_ONLY_REMARK
from backends.openai_http import http_backend

pytestmark = pytest.mark.filterwarnings(f"ignore:{READ_ONLY_REMARK}:UserWarning")

CHAT = (
    Message("system", "rules"),
    Message("user", "one"),
    Message("assistant", "two"),
    Message("user", "three"),
)
CALL = '{"name": "play", "arguments": {"action": "suggest"}}'
CLUEDO = make_game("cluedo", players=3)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Misbehaving]:
    with Misbehaving() as running:
        serve_providers(running, monkeypatch)
        yield running


def ask(prefix: str, model: str = "", messages: Any = CHAT, **request: Any) -> Completion:
    return answer(backend_of(prefix, model), Request(messages, **request))


def enabled(tokens: int) -> dict[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


@pytest.mark.parametrize(
    ("prefix", "model", "asked", "expected"),
    [
        ("openai", "gpt-5-mini", {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ("openai", "made-up", {"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
        ("openrouter", "openai/gpt-5-mini", {"reasoning_effort": "low"}, "effort"),
        ("anthropic", "claude-haiku-4-5", {"reasoning_effort": "low"}, enabled(1024)),
        ("anthropic", "claude-haiku-4-5", {"reasoning_effort": "minimal"}, enabled(1024)),
    ],
)
def test_thinking_is_asked_for_in_the_form_of_the_provider(
    server: Misbehaving, prefix: str, model: str, asked: Any, expected: Any
) -> None:
    if isinstance(expected, str):
        expected = {"reasoning": {expected: next(iter(asked.values()))}}
    ask(prefix, model, sampling=Sampling(max_tokens=8000, **asked))
    body = server.asked[-1].body
    body |= body.get("generationConfig", {})
    assert {name: body.get(name) for name in expected} == expected
    assert limit_of(body) == 8000


@pytest.mark.parametrize(
    ("prefix", "model"), [("openai", "gpt-4o-mini"), ("anthropic", "claude-haiku-4-5")]
)
def test_no_thinking_is_asked_for_where_there_is_none(
    server: Misbehaving, prefix: str, model: str
) -> None:
    ask(prefix, model, sampling=Sampling(reasoning_effort="none"))
    assert not {"reasoning_effort", "thinking", "reasoning"} & set(server.asked[-1].body)


@pytest.mark.parametrize("prefix", ["openai", "anthropic", "gemini", "openrouter"])
def test_thinking_is_counted_and_priced_and_its_text_is_kept(
    server: Misbehaving, prefix: str
) -> None:
    model = "gpt-5-mini" if prefix == "openai" else ""
    server.script(["ok", "reasoning", "thought_out"])
    plain, thought, cut = (
        ask(prefix, model, sampling=Sampling(max_tokens=50, reasoning_effort="low"))
        for _ in range(3)
    )
    assert (plain.usage.reasoning_tokens, plain.choice.reasoning) == (0, "")
    assert (thought.text, thought.choice.reasoning) == ("suggest", THOUGHTS)
    assert thought.usage.completion_tokens == 5
    # Anthropic does not report them; litellm counts the tokens of the thoughts.
    assert thought.usage.reasoning_tokens == (5 if prefix == "anthropic" else 4)
    assert plain.cost and thought.cost and cut.cost
    # Four tokens of thought at the price of the reply's.
    by_token = (cut.cost - plain.cost) / 49
    assert thought.cost - plain.cost == pytest.approx(4 * by_token)
    assert (cut.text, cut.choice.finish_reason) == ("", "length")


def test_what_is_known_of_models(server: Misbehaving) -> None:
    thinks = {
        ("openai", "gpt-5-mini"): (True, True),
        ("openai", "gpt-4o-mini"): (False, False),
        ("openai", "made-up"): (False, True),
        ("openrouter", "google/gemini-2.5-flash"): (True, True),
        ("anthropic", "claude-haiku-4-5"): (False, True),
        ("ollama", "llama3.2"): (False, True),
    }
    for (prefix, model), expected in thinks.items():
        traits = backend_of(prefix, model).traits
        assert (traits.always_thinks, traits.takes_thinking) == expected, model
    assert backend_of("openrouter", "deepseek/deepseek-r1").traits.max_reply_tokens == 8192


def test_an_openai_compatible_server_gets_vllms_names(server: Misbehaving) -> None:
    sampling = Sampling(reasoning_effort="low")
    request = Request(CHAT, sampling, tools=action_tools(CLUEDO), repeated=4)
    server.script(["reasoning"])
    completion = answer(http_backend(f"//127.0.0.1:{server.port}/v1#tiny", settings()), request)
    assert completion.usage.reasoning_tokens == 4
    body = server.asked[-1].body
    assert body["reasoning_effort"] == "low"
    assert body["tool_choice"] == "required" and len(body["tools"]) == 4
    assert all(isinstance(message["content"], str) for message in body["messages"])


def test_functions_are_sent_and_calls_are_read(server: Misbehaving) -> None:
    tools = action_tools(CLUEDO)
    for prefix in ("openai", "anthropic", "gemini", "openrouter"):
        server.script(["tool_call"])
        choice = ask(prefix, tools=tools).choice
        assert (choice.text, choice.finish_reason) == (CALL, "tool_calls"), prefix
    body = server.asked[-1].body
    functions = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
    assert list(functions) == ["Suggest", "Accuse", "Show", "EndTurn"]
    fields = functions["Suggest"]["parameters"]["properties"]
    assert list(fields) == ["thoughts", "suspect", "weapon", "room"]
    assert len(fields["room"]["enum"]) == 9
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("required", False)
    # Claude cannot be made to call a function while it thinks.
    ask("anthropic", tools=tools, sampling=Sampling(max_tokens=4000, reasoning_effort="low"))
    assert server.asked[-1].body["tool_choice"]["type"] == "auto"


def marks(body: Any) -> list[str]:
    """Texts of a request to Anthropic or OpenRouter that end a prefix to be cached."""
    contents = [body.get("system", []), *(message["content"] for message in body["messages"])]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [part["text"] for part in parts if "cache_control" in part]


def test_the_prefix_that_is_repeated_is_cached_by_claude(server: Misbehaving) -> None:
    for prefix, model in (("anthropic", ""), ("openrouter", "anthropic/claude-sonnet-4.5")):
        completion = ask(prefix, model, repeated=4)
        assert marks(server.asked[-1].body) == ["rules", "three"]
        assert completion.usage.cached_tokens == 2
        ask(prefix, model, repeated=1)
        assert marks(server.asked[-1].body) == ["rules"]
        ask(prefix, model)
        assert marks(server.asked[-1].body) == []
    for prefix in ("openai", "openrouter", "gemini"):  # They cache without being asked.
        ask(prefix, repeated=4)
        assert "cache_control" not in json.dumps(server.asked[-1].body)


@pytest.mark.parametrize("prefix", ["openai", "openrouter", "cohere"])
def test_an_address_without_a_server_is_named_without_objects(
    server: Misbehaving, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name in PROVIDERS[prefix].addresses:
        monkeypatch.setenv(name, f"https://127.0.0.1:{port}/v1")
    with pytest.raises(BackendError, match=str(port)) as caught:
        ask(prefix)
    assert " object" not in str(caught.value) and "<" not in str(caught.value)


def test_models_without_chat_completions_are_called_by_the_responses_api(
    server: Misbehaving,
) -> None:
    """The library knows which; its own connections would hide the wait, and stay open."""
    thinking = Sampling(max_tokens=8000, reasoning_effort="low")
    server.script(["reasoning", "tool_call", "rate_limit_after"])
    thought = ask("openai", "o3-pro", sampling=thinking)
    assert server.asked[-1].path == "/v1/responses" and limit_of(server.asked[-1].body) == 8000
    assert (thought.text, thought.usage.reasoning_tokens) == ("suggest", 4)
    assert thought.choice.reasoning == THOUGHTS and thought.cost
    called = ask("openai", "o3-pro", sampling=thinking, tools=action_tools(CLUEDO))
    assert called.text == f"suggest\n{CALL}"
    assert called.choice.finish_reason == "tool_calls"
    with pytest.raises(BackendError) as caught:
        ask("openai", "o3-pro")
    assert (caught.value.cause, caught.value.retry_after) == ("rate_limit", 1)


SPECS = ("anthropic", "gemini", "openrouter", "openai:gpt-5-mini")


def first_bid(body: Any) -> str:
    bids = re.findall(r"Your actions: bid (\w+)", json.dumps(body))
    return f"Action: bid {bids[-1]}"


def play_goofspiel(specs: list[str], answers: Any) -> ModelGame:
    """Play a game in which each model is asked five times."""
    chat = ChatOptions(
        "append", answers, sampling=Sampling(max_tokens=4000, reasoning_effort="low")
    )
    return play_models(Match(make_game("goofspiel", players=3), specs, 3, chat=chat))


@pytest.mark.parametrize("answers", ["text", "tools"])
@pytest.mark.parametrize("spec", SPECS)
def test_a_chat_goes_on_with_texts_only(spec: str, answers: str, server: Misbehaving) -> None:
    """A call without its signed thought would be refused, and no seat reads another's thoughts."""
    server.answer = first_bid
    server.script(["reasoning"] * 10)
    episode = play_goofspiel([spec, "bot:random", spec], answers).episode
    assert not episode.failures and len(server.asked) == 10
    for asked in server.asked:
        sent = {name: text for name, text in asked.body.items() if name != "tools"}
        assert THOUGHTS not in json.dumps(sent)
        assert not re.search(
            '"(tool_use|tool_calls|functionCall|thinking_blocks)"', json.dumps(sent)
        )
    assert [attempt.reasoning for attempt in attempts_of(episode)] == [THOUGHTS] * 10


@pytest.mark.parametrize(
    ("prefix", "model", "engine"),
    [
        ("anthropic", "claude-haiku-4-5", "claude-haiku-4-5"),
        ("gemini", "", "gemini-2.5-flash"),
        ("openai", "o3-pro", "o3-pro"),
        ("openrouter", "openai/gpt-5-mini", "openai/gpt-5-mini [Maker, fp_1]"),
    ],
)
def test_an_answer_names_its_engine(
    prefix: str, model: str, engine: str, server: Misbehaving
) -> None:
    server.fingerprint = "fp_1"
    assert ask(prefix, model).engine == engine


def test_a_change_of_the_engine_is_in_replay_and_ledger(server: Misbehaving) -> None:
    def changing(body: Any) -> str:
        server.fingerprint = f"fp_{1 + server.ledger.requests // 4}"
        return first_bid(body)

    spec, server.answer = f"{server.openai_url}#tiny", changing
    episode, ledger, _ = play_goofspiel([spec, "bot:random", "bot:random"], "text")
    one, two = "tiny [Maker, fp_1]", "tiny [Maker, fp_2]"
    assert [attempt.engine for attempt in attempts_of(episode)] == [one] * 3 + [two] * 2
    assert ledger.to_json()["total"]["engines"] == {one: 3, two: 2}  # type: ignore[index,call-overload]
