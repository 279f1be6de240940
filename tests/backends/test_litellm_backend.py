"""Hosted providers: real litellm against a loopback server that breaks its promises on command."""

from __future__ import annotations

import asyncio
import importlib
import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest
from command_line import wait_until
from misbehaving import CAUSES, LONG_TEXT, PRICE, Misbehaving
from provider_calls import ASK, KEY, PATIENCE, answer, backend_of, fault, serve_providers, settings
from scripted_table import check_sums

from arena.core.errors import BackendError, ContextOverflow, StopPlaying, UsageError
from arena.llm.backend import Request, Sampling, Usage
from arena.llm.ledger import Tally
from arena.llm.service import LLMService
from arena.llm.settings import RunLimits
from backends import PROVIDERS
from backends.litellm import LiteLLMBackend, any_provider, cohere, ollama
from backends.litellm_client import READ_ONLY_REMARK, load_litellm
from backends.openai_http import HTTPBackend, http_backend

pytestmark = pytest.mark.filterwarnings(f"ignore:{READ_ONLY_REMARK}:UserWarning")

ROUTES = ("openrouter", "cohere", "openai")
CALL = '{"name": "play", "arguments": {"action": "suggest"}}'


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Misbehaving]:
    with Misbehaving() as running:
        monkeypatch.setenv("ARENA_API_KEY", KEY)
        serve_providers(running, monkeypatch)
        yield running


def backend_at(route: str, server: Misbehaving, **limits: Any) -> LiteLLMBackend | HTTPBackend:
    """A backend of a provider, or of the server's URL ("http")."""
    if route == "http":
        return http_backend(f"//127.0.0.1:{server.port}/v1#tiny", settings(**limits))
    return backend_of(route, **limits)


@pytest.mark.parametrize("prefix", ROUTES)
def test_a_good_answer(server: Misbehaving, prefix: str) -> None:
    completion = answer(backend_of(prefix))
    assert completion.text == "suggest"
    assert completion.model.endswith(PROVIDERS[prefix].default_model)
    assert completion.usage == Usage(4, 1, 0 if prefix == "cohere" else 2)
    assert completion.choice.finish_reason == "stop"
    assert completion.seconds > 0
    assert completion.cost is not None and completion.cost > 0
    if prefix == "openrouter":
        assert completion.cost == pytest.approx(5 * PRICE)  # What it says itself.
    asked = server.asked[-1]
    assert asked.path == ("/v2/chat" if prefix == "cohere" else "/v1/chat/completions")
    assert asked.headers["authorization"].lower() == f"bearer {KEY}"
    assert asked.body["temperature"] == 1
    assert asked.body["max_tokens"] == 20
    assert asked.body["messages"] == [{"role": "user", "content": "who has the rope"}]


@pytest.mark.parametrize("route", ["openrouter", "http"])
@pytest.mark.parametrize("error", ["finish_error", "billed_error"])
def test_what_a_failed_call_has_cost_is_in_the_ledger(
    server: Misbehaving, route: str, error: str
) -> None:
    """OpenRouter bills what a provider has written before it broke off."""
    spec = "openrouter" if route == "openrouter" else f"{server.openai_url}#tiny"
    server.script(["ok", error, error, "ok"])
    limits = {"max_retries": 1, "backoff": 0.0}

    async def ask() -> Tally:
        async with LLMService(
            settings(**limits), RunLimits(max_cost=1.0), notify=lambda _: None
        ) as llm:
            for _ in range(4):
                with suppress(BackendError):
                    await llm.complete(spec, ASK)
            return llm.ledger.total()

    tally = asyncio.run(ask())
    check_sums(tally)
    assert tally.cost == pytest.approx(server.ledger.cost)
    assert tally.prompt_tokens == server.ledger.prompt_tokens
    assert tally.completion_tokens == server.ledger.completion_tokens


@pytest.mark.parametrize("route", ["openrouter", "http"])
def test_reasoning_refusal_tool_call_and_long_or_empty_text(
    server: Misbehaving, route: str
) -> None:
    behaviours = ["reasoning", "refusal", "tool_call", "long_text", "empty"]
    server.script(behaviours)
    reasoned, refused, called, long, empty = (
        answer(backend_at(route, server)).choice for _ in behaviours
    )
    assert (reasoned.text, reasoned.reasoning) == ("suggest", "Who has the rope?")
    assert (refused.text, refused.refusal) == ("", "I would rather not.")
    assert (called.text, called.finish_reason) == (CALL, "tool_calls")
    assert (long.text, empty.text) == (LONG_TEXT, "")


def test_coheres_tool_call_and_cut_off_answer(server: Misbehaving) -> None:
    server.script(["tool_call", "ok", "empty"])
    called = answer(backend_of("cohere")).choice
    assert (called.text, called.finish_reason) == (CALL, "tool_calls")
    short = Request(ASK.messages, Sampling(max_tokens=1))
    assert answer(backend_of("cohere"), short).choice.finish_reason == "length"
    assert answer(backend_of("cohere")).text == ""


def test_log_probabilities_and_parameters(server: Misbehaving) -> None:
    server.answer = lambda _: "suggest rope"
    server.script(["tokens"])
    asked = Request(ASK.messages, Sampling(stop=("\n",), seed=3), logprobs=True)
    choice = answer(backend_of("openai"), asked).choice
    assert choice.text == "suggest rope"
    assert [(token.text, token.logprob) for token in choice.tokens] == [
        ("suggest", -0.5),
        ("rope", -1.5),
    ]
    body = server.asked[-1].body
    assert (body["stop"], body["seed"], body["logprobs"]) == (["\n"], 3, True)


TOLD = [
    *CAUSES,
    ("too_big", "bad_response", True, None),
    ("context", "context_length", False, None),
]


@pytest.mark.parametrize("route", [*ROUTES, "http"])
@pytest.mark.parametrize(("behaviour", "cause", "retryable", "wait"), TOLD)
def test_every_misbehaviour_has_its_cause(
    server: Misbehaving,
    route: str,
    behaviour: str,
    cause: str,
    retryable: bool,
    wait: float | None,
) -> None:
    server.retry_after = 7
    server.script([behaviour])
    # The test has to wait for the limit of a server that never answers.
    limits: dict[str, Any] = {"read_timeout": 0.4} if behaviour.startswith("hang") else {}
    error = fault(backend_at(route, server, **limits))
    assert (error.cause, error.retryable, error.retry_after) == (cause, retryable, wait)
    assert isinstance(error, ContextOverflow) is (cause == "context_length")
    # litellm asks a second time of its own accord when a connection breaks, unless kept from it.
    wait_until(lambda: server.ledger.requests == 1)


@pytest.mark.parametrize("route", ["openrouter", "openai", "http"])
def test_an_error_inside_of_a_200(server: Misbehaving, route: str) -> None:
    server.script(["error_in_200"])
    error = fault(backend_at(route, server))
    assert (error.cause, error.retryable) == ("rate_limit", True)


@pytest.mark.parametrize("prefix", ["anthropic", "gemini", "ollama"])
def test_other_providers_go_over_the_same_watched_connections(
    server: Misbehaving, prefix: str
) -> None:
    server.retry_after = 7
    server.answer = lambda _: "suggest"
    server.script(["rate_limit_after", "reset"])
    limited = fault(backend_of(prefix))
    assert (limited.cause, limited.retry_after) == ("rate_limit", 7)
    assert fault(backend_of(prefix)).cause == "connection"
    assert server.ledger.requests == len(server.asked) == 2  # Nothing else was asked.


def test_the_provider_is_quoted_without_litellms_wrapping(server: Misbehaving) -> None:
    for prefix in ROUTES:
        server.script(["bad_request"])
        message = str(fault(backend_of(prefix)))
        model = f"{PROVIDERS[prefix].route}/{PROVIDERS[prefix].default_model}"
        assert message == f"{model} answered 400: told to answer bad_request"


def test_structured_answers_where_the_model_can(server: Misbehaving) -> None:
    schema: Any = {"type": "object", "properties": {"action": {"type": "string"}}}
    answer(backend_of("openai"), Request(ASK.messages, guided_json=schema))
    sent = server.asked[-1].body["response_format"]
    assert sent["json_schema"] == {"name": "answer", "schema": schema, "strict": False}
    answer(backend_of("openai"), Request(ASK.messages, guided_choice=("a", "b")))
    sent = server.asked[-1].body["response_format"]["json_schema"]
    assert sent["strict"] is True
    assert sent["schema"]["properties"] == {"action": {"type": "string", "enum": ["a", "b"]}}
    many = Request(ASK.messages, guided_choice=tuple(map(str, range(101))))
    answer(backend_of("openai"), many)
    assert "response_format" not in server.asked[-1].body
    answer(backend_of("openai", "gpt-3.5-turbo"), Request(ASK.messages, guided_json=schema))
    assert "response_format" not in server.asked[-1].body


def test_an_unknown_model_has_no_price(server: Misbehaving) -> None:
    server.usage = False  # Newer versions of litellm take the cost that an answer states.
    completion = answer(backend_of("openai", "made-up-yesterday"))
    assert completion.text == "suggest"
    assert completion.cost is None
    assert backend_of("openai", "made-up-yesterday").context_length is None
    assert backend_of("openai").context_length == 128_000


@pytest.mark.parametrize("prefix", [name for name in PROVIDERS if PROVIDERS[name].keys])
def test_a_missing_key_is_told_in_one_line(
    prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in PROVIDERS[prefix].keys:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError) as caught:
        backend_of(prefix)
    for name in PROVIDERS[prefix].keys:
        assert name in str(caught.value)
    assert ".env" in str(caught.value) and "\n" not in str(caught.value)


def test_key_and_address_from_dotenv_are_used_and_stay_out_of_the_environment(
    server: Misbehaving, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COHERE_API_KEY")
    monkeypatch.delenv("CO_API_KEY")
    monkeypatch.delenv("COHERE_API_BASE")
    file = f"CO_API_KEY=from-the-file\nCOHERE_API_BASE={server.cohere_url}\n"
    Path(".env").write_text(file)
    answer(cohere("", settings()))
    assert server.asked[-1].headers["authorization"].lower() == "bearer from-the-file"
    assert not {"from-the-file", server.cohere_url} & set(os.environ.values())


def test_any_model_that_litellm_knows(
    server: Misbehaving, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DEEPSEEK_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert answer(any_provider("openai/gpt-4o-mini", settings())).text == "suggest"
    with pytest.raises(UsageError, match="DEEPSEEK_API_KEY"):
        any_provider("deepseek/deepseek-chat", settings())
    with pytest.raises(UsageError, match="does not know this provider"):
        any_provider("made-up-yesterday", settings())
    with pytest.raises(UsageError, match="name a model"):
        any_provider("", settings())
    with pytest.raises(UsageError, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        any_provider("bedrock/anthropic.claude-v2", settings())
    monkeypatch.setenv("DEEPSEEK_API_KEY", KEY)
    monkeypatch.setenv("DEEPSEEK_API_BASE", server.openai_url)
    assert answer(any_provider("deepseek/deepseek-chat", settings())).text == "suggest"
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", server.openai_url)
    assert answer(any_provider("hosted_vllm/tiny", settings())).text == "suggest"
    assert any_provider("ollama/tiny", settings()).model == "ollama_chat/tiny"
    assert ollama("", settings()).model == "ollama_chat/llama3.2"


def test_nothing_is_printed_or_logged(
    server: Misbehaving, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        answer(backend_of("openrouter"))
        server.script(["echo_key", "unauthorized", "reset"])
        for _ in range(3):
            fault(backend_of("openrouter"))
    assert out.getvalue() == ""
    assert KEY not in caplog.text
    assert not [record for record in caplog.records if record.name.startswith("LiteLLM")]


@pytest.mark.parametrize("wanted", [True, False])
def test_litellm_keeps_its_books_only_for_a_callback(
    monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    litellm = load_litellm()
    name = "litellm.litellm_core_utils.logging_worker"
    worker = importlib.import_module(name).GLOBAL_LOGGING_WORKER
    kept: list[int] = []

    async def book() -> None:
        kept.append(1)

    async def run() -> None:
        worker.ensure_initialized_and_enqueue(async_coroutine=book())
        await asyncio.sleep(0.05)
        while wanted and not kept:
            await asyncio.sleep(0.01)
        await worker.stop()

    monkeypatch.setattr(litellm, "callbacks", [print] if wanted else [])
    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert bool(kept) is wanted


def test_a_refused_key_stops_all_models_of_the_provider(server: Misbehaving) -> None:
    async def go() -> None:
        async with LLMService(settings()) as llm:
            for model in ("large", "small"):
                with pytest.raises(StopPlaying, match=r"openrouter:large: .*check the API key"):
                    await llm.complete(f"openrouter:{model}", ASK)

    server.script(["unauthorized"])
    asyncio.run(go())
    assert server.ledger.requests == 1


OFFLINE = """
import os, socket, sys

def refuse(*_):
    raise AssertionError("the network was touched")

socket.getaddrinfo = socket.socket.connect = refuse
from arena.llm.settings import Settings
from backends.litellm import openrouter

before = dict(os.environ)
backend = openrouter("", Settings.load())
assert backend.context_length == 128000
allowed = {"LITELLM_LOCAL_MODEL_COST_MAP", "TIKTOKEN_CACHE_DIR"}  # The second is litellm's own.
assert set(os.environ) - set(before) <= allowed, set(os.environ)
print(backend.model)
"""


def test_loading_litellm_is_quiet_offline_and_leaves_dotenv_alone(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENROUTER_API_KEY=x\nSTRAY=1\n")
    (tmp_path / "script.py").write_text(OFFLINE)
    home = Path(__file__).parents[2]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(home)}
    ran = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "openrouter/openai/gpt-4o-mini\n"


@pytest.mark.parametrize("prefix", ROUTES)
def test_a_body_is_bounded_while_it_arrives(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Content-Length, and however long it goes on."""
    sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
        writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
        with suppress(ConnectionError):
            while sent < 64_000_000:
                writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                await writer.drain()
                sent += 0x10000
        writer.close()

    async def ask() -> str:
        server = await asyncio.start_server(pour, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for name in (*PROVIDERS[prefix].keys, *PROVIDERS[prefix].addresses):
            monkeypatch.setenv(name, KEY if "KEY" in name else f"http://127.0.0.1:{port}/v1")
        backend = backend_of(prefix)
        with pytest.raises(BackendError) as caught:
            await backend.complete(ASK)
        await backend.close()
        server.close()
        assert caught.value.cause == "bad_response"
        return str(caught.value)

    assert "more than 1.1 MB" in asyncio.run(ask())
    assert sent < 16_000_000
