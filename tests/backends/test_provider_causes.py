"""Causes of failures as providers state them, over real connections; the wordings are theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from misbehaving import Misbehaving
from provider_calls import ASK, fault, serve_providers, settings

from arena.core.errors import BackendError, StopPlaying
from arena.llm.backend import Completion
from arena.llm.service import LLMService
from arena.llm.settings import RunLimits
from backends.litellm_client import READ_ONLY_REMARK

pytestmark = pytest.mark.filterwarnings(f"ignore:{READ_ONLY_REMARK}:UserWarning")

MINUTE = (
    "You exceeded your current quota, please check your plan and billing details. * Quota exceeded "
    "for metric: generate_content_free_tier_requests, limit: 15. Please retry in 1.5s."
)
PAID_MINUTE = (
    "You exceeded your current quota. * Quota exceeded for metric: "
    "generate_content_paid_tier_input_token_count, limit: 4000000. Please retry in 47.4s"
)
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"}


def said(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


Case = tuple[int, Any, str, bool, float | None]
"""Status and body; cause, whether it may succeed later, and the seconds to wait."""
CASES: dict[str, Case] = {
    # Gemini, also in the list of its endpoint for OpenAI's clients.
    "gemini minute": (
        429, said(MINUTE, code=429, status="RESOURCE_EXHAUSTED"), "rate_limit", True, 1.5
    ),
    "gemini details": (
        429, said("Quota", code=429, status="RESOURCE_EXHAUSTED", details=[RETRY]),
        "rate_limit", True, 2.0,
    ),
    "gemini list": (429, [said(PAID_MINUTE, code=429)], "rate_limit", True, 47.4),
    "gemini exhausted": (
        429, said("Resource has been exhausted (e.g. check quota).", status="RESOURCE_EXHAUSTED"),
        "rate_limit", True, None,
    ),
    "gemini overflow": (
        400,
        said("The input token count (40000) exceeds the maximum number of tokens allowed (32768)."),
        "context_length", False, None,
    ),
    "gemini key": (
        400, said("API key not valid.", details=[{"reason": "API_KEY_INVALID"}]),
        "authentication", False, None,
    ),
    # OpenAI.
    "openai spent": (
        429,
        said("You exceeded your current quota", type="insufficient_quota",
             code="insufficient_quota"),
        "authentication", False, None,
    ),
    "openai tokens per minute": (
        429,
        said("Rate limit reached: Limit 30000, Used 29990. Please try again in 6ms.",
             type="tokens", code="rate_limit_exceeded"),
        "rate_limit", True, 0.006,
    ),
    "openai requests per day": (
        429, said("Rate limit reached. Please try again in 1m12s.", code="rate_limit_exceeded"),
        "rate_limit", True, 72.0,
    ),
    "openai overflow": (
        400, said("Input tokens exceed the configured limit of 272000 tokens."),
        "context_length", False, None,
    ),
    "openai model": (
        404, said("The model does not exist", code="model_not_found"), "configuration", False, None
    ),
    "azure filter": (400, said("filtered", code="content_filter"), "refused", False, None),
    # Anthropic.
    "anthropic overflow": (
        400, said("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
                  type="invalid_request_error"),
        "context_length", False, None,
    ),
    "anthropic overloaded": (
        529, said("Overloaded", type="overloaded_error"), "server_error", True, None
    ),
    "anthropic permission": (
        403, said("Your key may not do this", type="permission_error"), "authentication", False,
        None,
    ),
    # Servers at home, and xAI.
    "llama.cpp overflow": (
        400,
        said("request (300 tokens) exceeds the available context size (250 tokens), try increasing "
             "it", code=400, type="exceed_context_size_error"),
        "context_length", False, None,
    ),
    "llama.cpp overflow, older": (
        500, said("the request exceeds the available context size. try increasing the context size",
                  code=500, type="server_error"),
        "context_length", False, None,
    ),
    "tgi overflow": (
        422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096",
              "error_type": "validation"},
        "context_length", False, None,
    ),
    "xai overflow": (
        400, {"code": "Client specified an invalid argument",
              "error": "This model's maximum prompt length is 131072 but the request has 140000"},
        "context_length", False, None,
    ),
    "a conflict": (409, said("lock timeout, try again"), "server_error", True, None),
    "too early": (425, said("try later"), "server_error", True, None),
    "client closed": (499, said("request cancelled"), "timeout", True, None),
    "a firewall": (403, b"temporarily blocked", "authentication", False, None),
    # Failures within a response with status 200: OpenRouter, LM Studio, gateways.
    "no /v1": (
        200, {"error": "Unexpected endpoint or method. (POST /chat/completions)"},
        "configuration", False, None,
    ),
    "overflow in 200": (
        200, said("This model's maximum context length is 250", code="context_length_exceeded"),
        "context_length", False, None,
    ),
    "limit in 200": (
        200,
        {"choices": [{"message": {"content": ""}, "finish_reason": None}],
         "error": {"code": 429, "message": "upstream rate limit"}},
        "rate_limit", True, None,
    ),
    "error in a choice": (
        200,
        {"choices": [{"message": {"content": "I will bid 1"}, "finish_reason": "error",
                      "error": {"code": 502, "message": "the provider dropped the stream"}}]},
        "server_error", True, None,
    ),
    "error as the end": (
        200, {"choices": [{"message": {"content": ""}, "finish_reason": "error"}]},
        "server_error", True, None,
    ),
}  # fmt: skip
ROUTES = {
    "http": list(CASES),
    "openrouter": list(CASES),
    "openai": [name for name in CASES if name.startswith("openai")],
    "anthropic": [name for name in CASES if name.startswith("anthropic")],
    "gemini": [name for name in CASES if name.startswith("gemini")],
}


@pytest.fixture(scope="module")
def running() -> Iterator[Misbehaving]:
    with Misbehaving() as server:
        yield server


@pytest.fixture
def server(running: Misbehaving, monkeypatch: pytest.MonkeyPatch) -> Misbehaving:
    serve_providers(running, monkeypatch)
    running._script.clear()
    running.usage_of, running.answer = None, lambda _: "suggest"
    return running


def spec_of(route: str, server: Misbehaving) -> str:
    return f"{server.openai_url}#tiny" if route == "http" else route


def ask(spec: str, times: int = 1, **more: Any) -> tuple[list[Any], LLMService]:
    """Ask a few times; return answers and errors, and the service with its ledger."""
    service = settings(**{"max_retries": 0, "patience": 3600} | more.pop("limits", {}))
    budget = more.pop("budget", None)

    async def go() -> tuple[list[Any], LLMService]:
        async with LLMService(service, budget, notify=lambda _: None, **more) as llm:
            found: list[Completion | Exception] = []
            for _ in range(times):
                try:
                    found.append(await llm.complete(spec, ASK))
                except (BackendError, StopPlaying) as error:
                    found.append(error)
            return found, llm

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("route", "name"), [(r, name) for r, names in ROUTES.items() for name in names]
)
def test_causes(server: Misbehaving, route: str, name: str) -> None:
    status, body, cause, retryable, wait = CASES[name]
    server.script([(status, body)])
    error = fault(LLMService(settings()).backend(spec_of(route, server)))
    assert (error.cause, error.retryable, error.retry_after) == (cause, retryable, wait), error
    assert error.may_pass == (name == "a firewall")


@pytest.mark.parametrize("route", ["http", "openrouter"])
def test_one_block_of_a_firewall_does_not_end_a_run(server: Misbehaving, route: str) -> None:
    server.script(["ok", CASES["a firewall"][:2], "ok"])
    (first, blocked, last), _ = ask(spec_of(route, server), 3)
    assert isinstance(blocked, BackendError) and first.text == last.text == "suggest"
    # Before any answer it may be the key, and nothing is to be gained by more calls.
    server.script([CASES["a firewall"][:2]])
    (stopped,), _ = ask(spec_of(route, server))
    assert isinstance(stopped, StopPlaying) and "check the API key" in str(stopped)


@pytest.mark.parametrize("route", ["http", "openrouter"])
def test_a_failure_within_a_200_costs_the_model_no_attempt(server: Misbehaving, route: str) -> None:
    for name in ("limit in 200", "error in a choice", "error as the end"):
        server.script([CASES[name][:2], "ok"])
        (answered,), llm = ask(spec_of(route, server), limits={"max_retries": 1, "backoff": 0.0})
        assert answered.text == "suggest"
        assert llm.ledger.total().retries.total() == 1


BYOK = {"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.036}}


@pytest.mark.parametrize("route", ["http", "openrouter"])
@pytest.mark.parametrize("usage", [BYOK, {**BYOK, "cost": 0.004}])
def test_the_budget_counts_what_the_provider_bills_beside_the_gateway(
    server: Misbehaving, route: str, usage: dict[str, Any]
) -> None:
    server.usage_of = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105, **usage}
    _, llm = ask(spec_of(route, server), 2, budget=RunLimits(max_cost=0.05))
    tally = llm.ledger.total()
    assert tally.answered == 1 and tally.failures == {"budget": 1}
    assert tally.cost == pytest.approx(0.036 + usage["cost"])


def test_a_stated_cost_of_nothing_does_not_beat_the_price_of_the_user(server: Misbehaving) -> None:
    server.usage_of = {"prompt_tokens": 1000, "completion_tokens": 100, "cost": 0}
    budget = RunLimits(max_cost=1, price_in=3, price_out=15)
    _, llm = ask(spec_of("http", server), 2, budget=budget)
    assert llm.ledger.total().cost == pytest.approx(2 * (1000 * 3e-6 + 100 * 15e-6))


@pytest.mark.parametrize("route", ["http", "openrouter"])
def test_a_reply_that_ends_within_an_emoji_is_played(server: Misbehaving, route: str) -> None:
    for text in ("suggest \ud83d", "suggest \U0001f3b2"):
        server.answer = lambda _, text=text: text  # type: ignore[misc]
        (answered,), _ = ask(spec_of(route, server))
        assert answered.text == text.replace("\ud83d", "?")
