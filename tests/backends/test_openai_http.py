"""Any OpenAI-compatible URL: a real server on loopback that keeps its promises, and breaks them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from misbehaving import PRICE, Misbehaving
from provider_calls import ASK, KEY, answer, fault, settings

from arena.core.errors import BackendError, UsageError
from arena.llm.backend import Request, Sampling, Token, Usage
from backends.openai_http import HTTPBackend, art, http_backend
from backends.openai_wire import (
    chat_request,
    longest_body,
    parse_policy_version,
    read_completion,
)
from backends.provider_errors import extract_message, parse_retry_after, redact_key, status_error


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Misbehaving]:
    monkeypatch.setenv("ARENA_API_KEY", KEY)
    with Misbehaving() as running:
        yield running


def backend_of(server: Misbehaving, name: str = "tiny", **limits: Any) -> HTTPBackend:
    return http_backend(f"//127.0.0.1:{server.port}/v1#{name}", settings(**limits))


def test_a_good_answer(server: Misbehaving) -> None:
    completion = answer(backend_of(server))
    assert completion.text == "suggest"
    assert completion.model == "tiny"
    assert completion.choice.finish_reason == "stop"
    assert completion.usage == Usage(4, 1, 2)
    assert completion.cost == pytest.approx(5 * PRICE)
    assert completion.seconds > 0
    assert completion.policy_version is None
    asked = server.asked[-1]
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "who has the rope"}],
        "temperature": 1.0,
        "top_p": 1.0,
        "max_tokens": 20,
    }


def test_what_is_asked_for_is_sent() -> None:
    base = ASK.messages
    sampling = Sampling(0.5, 0.9, 7, ("\n", "END"), 3)
    body = chat_request(Request(base, sampling, logprobs=True, guided_choice=("a", "b")), "m")
    assert body["structured_outputs"] == {"choice": ["a", "b"]}
    assert body["logprobs"] is body["return_token_ids"] is True
    assert (body["seed"], body["stop"]) == (3, ["\n", "END"])
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.5, 0.9, 7)
    schema = chat_request(Request(base, guided_json={"type": "object"}), "m")
    assert schema["structured_outputs"] == {"json": {"type": "object"}}


def test_the_servers_first_model_answers_if_none_is_named(server: Misbehaving) -> None:
    async def many() -> HTTPBackend:
        backend = http_backend(f"//127.0.0.1:{server.port}/v1", settings())
        await asyncio.gather(*(backend.complete(ASK) for _ in range(5)))
        await backend.close()
        return backend

    backend = asyncio.run(many())
    assert backend.model == "tiny"
    assert backend.context_length == 1024
    assert [asked.method for asked in server.asked].count("GET") == 1


@pytest.mark.parametrize(
    ("owner", "status", "seed"),
    [("vllm", 200, None), ("arena", 200, 7), ("", 404, 7), ("", 200, 7)],
)
@pytest.mark.parametrize("name", ["tiny", ""])
def test_vllm_gets_no_seeds(
    owner: str, status: int, seed: int | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies, listed = list[dict[str, Any]](), 0

    def handle(request: httpx.Request) -> httpx.Response:
        nonlocal listed
        if request.method == "GET":
            listed += request.url.path == "/v1/models"
            cards = [{"id": "tiny", "owned_by": owner}] if owner else []
            return httpx.Response(status, json={"data": cards})
        bodies.append(json.loads(request.content))
        message = {"role": "assistant", "content": "suggest"}
        return httpx.Response(200, json={"choices": [{"index": 0, "message": message}]})

    async def ask() -> None:
        client = partial(httpx.AsyncClient, transport=httpx.MockTransport(handle))
        monkeypatch.setattr(httpx, "AsyncClient", client)
        backend = HTTPBackend("http://server/v1", name, settings().service.limits("http"), None)
        for _ in range(2):
            await backend.complete(replace(ASK, sampling=Sampling(seed=7)))
        await backend.close()

    if not name and not owner:
        return
    asyncio.run(ask())
    assert [body.get("seed") for body in bodies] == [seed, seed] and listed == 1


def test_no_model_to_choose(server: Misbehaving) -> None:
    server.models = ()
    error = fault(backend_of(server, ""))
    assert error.cause == "bad_response"
    assert "lists no model" in str(error)


def test_a_policy_version_is_part_of_the_models_name(server: Misbehaving) -> None:
    completion = answer(backend_of(server, "tiny@7"))
    assert completion.model == "tiny@7"
    assert completion.policy_version == 7
    assert parse_policy_version("me@home") is None
    assert parse_policy_version("tiny@" + "9" * 5000) is None


def test_token_ids_and_log_probabilities(server: Misbehaving) -> None:
    server.answer = lambda _: "suggest rope"
    server.script(["tokens", "token_names"])
    ask = Request(ASK.messages, logprobs=True)
    completion = answer(backend_of(server), ask)
    assert completion.choice.tokens == (
        Token(100, "suggest", -0.5, -0.25),
        Token(101, "rope", -1.5, -1.25),
    )
    assert completion.prompt_token_ids == (1, 2, 3)
    named = answer(backend_of(server), ask).choice.tokens
    assert named == (Token(100, "suggest", -0.5), Token(101, "rope", -1.5))


def test_ids_that_do_not_match_the_tokens_are_not_guessed() -> None:
    body = (
        b'{"choices":[{"message":{"content":"a b"},"token_ids":[1,2,3],'
        b'"logprobs":{"content":[{"token":"a","logprob":-1},{"token":" b","logprob":-2}]}}]}'
    )
    tokens = read_completion(body, "x", "m", 0).choice.tokens
    assert [token.id for token in tokens] == [None, None]


def test_the_longest_body_grows_with_the_answer_that_was_asked_for() -> None:
    short, long = (replace(ASK, sampling=Sampling(max_tokens=n)) for n in (1024, 100_000))
    assert longest_body(short) < 2_000_000 and longest_body(long) > 10_000_000
    assert longest_body(replace(short, logprobs=True)) > longest_body(short)


@pytest.mark.parametrize(
    ("arguments", "is_whole"),
    [("", False), ('{"thoughts": "hm', False), ('{"a": {}', False), ("7", False), ("{}", True)],
)
def test_a_tool_call_that_was_cut_off_is_no_answer(arguments: str, is_whole: bool) -> None:
    def text(finish_reason: str) -> str:
        call = {"function": {"name": "EndTurn", "arguments": arguments}}
        message = {"content": "so", "tool_calls": [call]}
        body = {"choices": [{"message": message, "finish_reason": finish_reason}]}
        return read_completion(json.dumps(body).encode(), "server", "m", 0.0).text

    assert "EndTurn" in text("tool_calls")
    assert ("EndTurn" in text("length")) == is_whole


def test_retry_after_as_a_date(server: Misbehaving) -> None:
    server.retry_after = 60
    server.script(["rate_limit_date"])
    wait = fault(backend_of(server)).retry_after
    assert wait is not None and 50 < wait <= 60


@pytest.mark.timed
def test_the_whole_call_has_its_limit(server: Misbehaving) -> None:
    server.script(["hang"])
    started = time.perf_counter()
    error = fault(backend_of(server, call_timeout=0.2))
    assert time.perf_counter() - started < 2
    assert (error.cause, error.retryable) == ("timeout", True)
    assert "0.2 s" in str(error)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SSL_CERT_FILE", "/nonexistent.pem"),
        ("ALL_PROXY", "sox://x:1"),
        *(("NO_PROXY", value) for value in ("localhost,[::1]", "fd00::/8")),
    ],
)
def test_a_connection_that_cannot_be_set_up_names_the_variables(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=f"no connections can be made: .*{variable}"):
        http_backend("//server/v1#tiny", settings())


def test_art_is_the_server_at_art_wrapper_url(
    server: Misbehaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ART_WRAPPER_URL", server.url)
    monkeypatch.setenv("ART_API_KEY", "art-key")
    assert answer(art("", settings())).model == "tiny"
    assert answer(art("clue", settings())).model == "clue"
    assert server.asked[-1].headers["authorization"] == "Bearer art-key"


def test_no_key_no_header(server: Misbehaving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARENA_API_KEY")
    answer(backend_of(server))
    assert "authorization" not in server.asked[-1].headers


@pytest.mark.parametrize("rest", ["", "//", "//h:notaport/v1", "//user:pw@h/v1", "//h/v1?key=pw"])
def test_what_is_no_url_is_told_at_once_and_shows_no_key(rest: str) -> None:
    with pytest.raises(UsageError) as caught:
        http_backend(rest, settings())
    assert "pw" not in str(caught.value)


def test_a_key_that_no_header_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARENA_API_KEY", "sk-schlüssel")
    with pytest.raises(UsageError, match="a header cannot contain") as caught:
        http_backend("//h/v1", settings())
    assert "schl" not in str(caught.value)


@given(st.binary(max_size=200))
def test_whatever_bytes_come_are_a_completion_or_a_backend_error(raw: bytes) -> None:
    extract_message(raw.decode(errors="replace"))
    with pytest.raises(BackendError) as caught:
        read_completion(raw, "x", "m", 0)
    assert caught.value.cause == "bad_response"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "error", "code", "usage", "model"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_json)
def test_whatever_json_comes_is_a_completion_or_a_backend_error(body: Any) -> None:
    raw = json.dumps(body)
    assert "\n" not in extract_message(raw)
    try:
        read_completion(raw.encode(), "x", "m", 0)
    except BackendError as error:
        assert error.cause


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
    {"type": "text", "text": "pa"},
    {"type": "text", "text": "ss"},
]
CALL_OF = '{{"name": "Pass", "arguments": {}}}'


def _call(arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": "Pass", "arguments": arguments}}]}


@pytest.mark.parametrize(
    ("message", "more", "usage", "text"),
    [
        ({"content": PARTS}, {}, {}, "pass"),
        (_call(None), {}, {}, CALL_OF.format("{}")),
        (_call({"a": 1}), {}, {}, CALL_OF.format('{"a": 1}')),
        ({"content": "pass", "reasoning": {"text": "hm"}}, {}, {}, "pass"),
        ({"content": "pass"}, {"index": None, "logprobs": []}, {}, "pass"),
        ({"content": "pass"}, {}, {"prompt_tokens": None, "completion_tokens": None}, "pass"),
        ({"content": "pass"}, {}, {"cost": -0.5}, "pass"),
    ],
)
def test_small_deviations_are_no_reason_to_refuse_an_answer(
    message: dict[str, Any], more: dict[str, Any], usage: dict[str, Any], text: str
) -> None:
    body = {"choices": [{"message": message, **more}], "usage": usage}
    completion = read_completion(json.dumps(body).encode(), "x", "m", 0)
    assert (completion.text, completion.usage, completion.cost) == (text, Usage(0, 0), None)
    assert completion.choice.reasoning == "" and not completion.choice.tokens


def test_what_a_provider_says_is_found_in_each_ones_shape() -> None:
    assert extract_message('{"error": {"message": "no", "code": "bad"}}') == "no (bad)"
    assert extract_message('{"error": "no"}') == "no"
    assert extract_message('{"message": "no"}') == "no"
    assert extract_message('{"detail": "no"}') == "no"
    assert extract_message("<p>no\nway</p>") == "<p>no way</p>"
    assert (
        extract_message('{"error": {"message": "Provider", "metadata": {"raw": "no"}}}')
        == "Provider no"
    )
    assert len(str(status_error(400, "x" * 9999, "url"))) < 400


def test_the_key_is_taken_out_before_the_message_is_cut() -> None:
    message = "x" * 290 + KEY
    assert KEY[:8] not in str(status_error(400, message, "url", key=KEY))
    assert KEY[:10] not in redact_key(f"Incorrect key: {KEY[:12]}…", KEY)


def test_retry_after_that_says_nothing() -> None:
    for header in (None, "", "soon", "nan", "inf", "Mon, 01 Jan 99999999999 00:00:00 GMT"):
        assert parse_retry_after(header) is None
    assert parse_retry_after("-3") == 0
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0


def test_a_spent_quota_is_not_asked_again() -> None:
    error = status_error(429, "You exceeded your current quota (insufficient_quota)", "url", 3)
    assert (error.cause, error.retryable, error.retry_after) == ("authentication", False, None)
