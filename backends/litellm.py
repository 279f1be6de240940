"""Hosted providers through litellm: OpenRouter, Cohere, OpenAI, Anthropic, Gemini, Ollama, others.

litellm translates between the formats of the providers. Its other functions are disabled: retries
belong to `LLMService`, keys are passed with each call and never put into the environment of the
process, a `.env` is not loaded implicitly, and nothing is downloaded or reported.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
from openai import OpenAIError
from pydantic import JsonValue, SecretStr

from arena.core.errors import BackendError, ContextOverflow, FailureCause, UsageError
from arena.llm.backend import BackendTraits, Choice, Completion, Request, Usage
from arena.llm.environment import address
from arena.llm.settings import Limits, ModelOverride, Settings
from backends import PROVIDERS, Provider
from backends.litellm_client import (
    ROUTES_WITH_CLIENT,
    HTTPExchange,
    ModelInfo,
    connect,
    current_exchange,
    disconnect,
    load_litellm,
    model_arguments,
)
from backends.openai_wire import (
    longest_body,
    read_choice,
    read_engine,
    read_usage,
    sampling_fields,
    stated_cost,
    with_bill,
)
from backends.provider_errors import (
    error_within_success,
    extract_message,
    safe_excerpt,
    status_error,
)

_FREE_MODEL: dict[str, JsonValue] = {
    "mode": "chat",
    "input_cost_per_token": 0.0,
    "output_cost_per_token": 0.0,
    "supports_response_schema": True,
}


class LiteLLMBackend:
    """One model of one provider."""

    def __init__(
        self,
        model: str,
        provider: Provider,
        limits: Limits,
        key: SecretStr | None,
        override: ModelOverride | None = None,
    ) -> None:
        self.model = model
        self._provider = provider
        self._limits = limits
        # A line end copied with the key would make an invalid header.
        self._key = key.get_secret_value().strip() if key else ""
        self._litellm = load_litellm()
        self._timeout = httpx.Timeout(limits.read_timeout, connect=limits.connect_timeout)
        prices = self._litellm.model_cost
        if provider.route == "ollama_chat":
            # For a model without a price litellm queries the server at each call.
            prices.setdefault(model, _FREE_MODEL | {"litellm_provider": provider.route})
        self._info = info = ModelInfo.of(model, provider.route, override)
        self.context_length: int | None = info.context_length
        self._base_url = address(provider.addresses, provider.keys)
        self.traits = BackendTraits(
            is_remote=True,
            always_thinks=info.reasons_unasked,
            takes_thinking=info.takes_thinking,
            max_reply_tokens=info.max_reply_tokens,
            price=info.price,
            cached_prefix=info.cached_prefix,
            # OpenRouter states the cost of each answer; litellm computes the others from prices.
            has_known_price=info.price is not None or provider.route == "openrouter",
        )

    async def close(self) -> None:
        await disconnect(id(self))

    async def complete(self, request: Request) -> Completion:
        started = time.perf_counter()
        exchange = HTTPExchange(longest_body(request))
        token = current_exchange.set(exchange)
        try:
            response = await self._litellm.acompletion(**self._arguments(request))
            completion = self._completion(response, request, time.perf_counter() - started)
            body = bytes(exchange.received)
            if fault := error_within_success(body, self.model, self._key):
                raise fault
            if self._provider.route == "openrouter" and (cost := stated_cost(body)) is not None:
                completion = replace(completion, cost=cost)
            return replace(completion, engine=read_engine(body, completion.model))
        except BackendError as error:
            failure = error
        except OpenAIError as error:
            failure = self._error_of_call(error, exchange)
        except Exception as error:  # litellm fails in many ways on unexpected responses.
            problem = f"litellm: {type(error).__name__}"
            failure = self._retryable_error("bad_response", problem, str(error))
        finally:
            current_exchange.reset(token)
        # litellm takes some answers that were billed for errors.
        with_bill(failure, bytes(exchange.received))
        raise failure  # Outside any `except`: litellm's exceptions may contain the key.

    def _arguments(self, request: Request) -> dict[str, Any]:
        """Return the arguments of litellm's `acompletion`."""
        connections = connect(id(self))
        if self._provider.route == "openai":
            connections.serve_responses()
        arguments: dict[str, Any] = {
            "model": self.model,
            **sampling_fields(request.sampling),
            **model_arguments(self._info, request),
            "api_key": self._key or None,
            "api_base": self._base_url,
            "timeout": self._timeout,
            # Retries belong to `LLMService`, which counts and limits them.
            "num_retries": 0,
            "max_retries": 0,
            "shared_session": connections.session,
        }
        if self._provider.route in ROUTES_WITH_CLIENT:
            arguments["client"] = connections.client
        # Claude accepts either a temperature or top_p, so a top_p without effect is omitted.
        if request.sampling.top_p == 1 and self._provider.route == "anthropic":
            del arguments["top_p"]
        if request.logprobs:
            arguments["logprobs"] = True
        return arguments

    def _completion(self, response: Any, request: Request, seconds: float) -> Completion:
        if not response.choices:
            raise self._retryable_error("bad_response", "answered without a choice", "")
        usage = read_usage(getattr(response, "usage", None))
        choice = _read_choice(_joined(response.choices))
        if self._provider.route == "cohere_chat":
            choice = _with_length_reason(choice, usage, request)
        cost = getattr(response, "_hidden_params", {}).get("response_cost")
        return Completion(choice, response.model or self.model, usage, cost, seconds=seconds)

    def _error_of_call(self, error: OpenAIError, exchange: HTTPExchange) -> BackendError:
        """Return the cause of litellm's error.

        The observed HTTP exchange is more reliable than the class of the exception.
        """
        message = _provider_message(error)
        if exchange.connection_error or exchange.is_truncated:
            details = exchange.connection_error or "it ended in the middle of the response"
            return self._retryable_error("connection", "the connection broke", details)
        if exchange.invalid_content:
            return self._retryable_error("bad_response", "answered", exchange.invalid_content)
        if isinstance(error, self._litellm.ContextWindowExceededError):
            return ContextOverflow(f"{self.model}: {safe_excerpt(message, self._key)}")
        received = bytes(exchange.received)
        if exchange.status is None or exchange.status == 200:
            fault = error_within_success(received, self.model, self._key)
            return fault or self._error_without_status(error, message, exchange.status)
        # litellm's message may leave out the codes and the wait that the body states.
        body = received.decode(errors="replace") or message
        return status_error(exchange.status, body, self.model, exchange.retry_after, self._key)

    def _error_without_status(
        self, error: OpenAIError, message: str, status: int | None
    ) -> BackendError:
        """Return the cause of an error before a response, in one, or without an observed call."""
        litellm = self._litellm
        if isinstance(error, litellm.Timeout):
            problem = f"no data for {self._limits.read_timeout:g} s"
            return self._retryable_error("timeout", problem, "")
        error_status = getattr(error, "status_code", None)
        if status == 200 and error_status in {None, 200, 422, 500}:
            # litellm's own status codes for a response that it could not parse.
            problem = "did not answer with a chat completion"
            return self._retryable_error("bad_response", problem, message)
        if isinstance(error, litellm.APIConnectionError):
            return self._retryable_error("connection", "no response", message)
        return status_error(error_status or 500, message, self.model, key=self._key)

    def _retryable_error(self, cause: FailureCause, problem: str, details: str) -> BackendError:
        suffix = f": {safe_excerpt(details, self._key)}" if details else ""
        return BackendError(f"{self.model}: {problem}{suffix}", cause, retryable=True)


def _joined(choices: Sequence[Any]) -> Any:
    """Return the one choice of an answer that litellm has split: a text, then calls of functions.

    It does so with OpenAI's Responses API, which it uses for the models that have no other.
    """
    first, *others = choices
    for choice in others:
        first.message.tool_calls = first.message.tool_calls or choice.message.tool_calls
        first.finish_reason = choice.finish_reason
    return first


def _read_choice(wire_choice: Any) -> Choice:
    choice = read_choice(wire_choice)
    # litellm keeps the refusal of some providers among their own fields.
    extra = getattr(wire_choice.message, "provider_specific_fields", None) or {}
    return replace(choice, refusal=choice.refusal or str(extra.get("refusal") or ""))


def _with_length_reason(choice: Choice, usage: Usage, request: Request) -> Choice:
    """Set the finish reason "length" for an answer of maximal length.

    litellm drops Cohere's finish reason and reports "stop".
    """
    if choice.finish_reason != "stop" or usage.completion_tokens < request.sampling.max_tokens:
        return choice
    return replace(choice, finish_reason="length")


_LITELLM_PREFIX = re.compile(
    r"^(litellm\.)?(\w+(Error|Timeout): )*(Timeout Error: )?(\w+ ?Exception - )?"
)


def _provider_message(error: OpenAIError) -> str:
    """Return the provider's message without the prefixes that litellm adds."""
    text = str(getattr(error, "message", error)).partition("Traceback (most recent call last)")[0]
    return extract_message(_LITELLM_PREFIX.sub("", text.strip()))


def any_provider(model: str, settings: Settings) -> LiteLLMBackend:
    """Return the backend of `litellm:ROUTE/MODEL`, for any provider that litellm supports."""
    if not model:
        raise UsageError("litellm: name a model as litellm does, e.g. litellm:groq/llama-3.1-8b")
    try:
        route = str(load_litellm().get_llm_provider(model)[1])
    except OpenAIError:
        raise UsageError(f"litellm:{model}: litellm does not know this provider") from None
    if route == "ollama":
        # litellm's route "ollama" is for plain prompts; `ollama` selects the route for chats.
        return ollama(model.partition("/")[2], settings)
    # A provider of the table has its own variables for key and address; others follow the usual
    # pattern.
    known = (provider for provider in PROVIDERS.values() if provider.route == route)
    name = route.upper()
    unlisted = Provider(route, route, "", (f"{name}_API_KEY",), (f"{name}_API_BASE",))
    provider = next(known, unlisted)
    key = settings.secret(*provider.keys)
    if key is None:
        # Only litellm knows whether this provider needs a key or further variables.
        missing = load_litellm().validate_environment(model)["missing_keys"]
        if missing:
            names = " and ".join(missing)
            place = " or in .env" if set(missing) <= set(provider.keys) else ""
            raise UsageError(f"litellm:{model} needs {names}: set it in the environment{place}")
    override = settings.models.get(f"litellm:{model}")
    return LiteLLMBackend(model, provider, settings.service.limits("litellm"), key, override)


def _provider_backend(prefix: str, model: str, settings: Settings) -> LiteLLMBackend:
    provider = PROVIDERS[prefix]
    key = settings.secret(*provider.keys)
    if provider.keys and key is None:
        names = " or ".join(provider.keys)
        raise UsageError(f"{prefix} needs a key: set {names} in the environment or in .env")
    full_name = f"{provider.route}/{model or provider.default_model}"
    override = settings.models.get(f"{prefix}:{model}" if model else prefix)
    return LiteLLMBackend(full_name, provider, settings.service.limits(prefix), key, override)


openrouter = partial(_provider_backend, "openrouter")
cohere = partial(_provider_backend, "cohere")
openai = partial(_provider_backend, "openai")
anthropic = partial(_provider_backend, "anthropic")
gemini = partial(_provider_backend, "gemini")
ollama = partial(_provider_backend, "ollama")
