"""Hosted providers through litellm: OpenRouter, Cohere, OpenAI, Anthropic, Gemini, Ollama, others.

litellm translates between the providers' formats. Everything else it would like to do is taken
from it: retries belong to `LLMService`, keys are handed over call by call and never put into the
process's environment, a `.env` is not loaded behind our back, and nothing is fetched or reported.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import httpx
from openai import OpenAIError
from pydantic import SecretStr

from arena.core.errors import BackendError, ContextOverflow, FailureCause, UsageError
from arena.core.json import Json
from arena.llm.backend import Choice, Completion, Request, Token, Usage
from arena.llm.settings import Limits, Settings
from backends.litellm_client import (
    TAKE_A_CLIENT,
    Exchange,
    connect,
    disconnect,
    exchange_of_call,
    load_litellm,
)
from backends.openai_wire import (
    FINISH_REASONS,
    failure,
    said_in,
    shortened,
    without,
)

MOST_CHOICES = 100
"""Of guided choices; providers limit the size of an enumeration in a schema."""


@dataclass(frozen=True, slots=True)
class Provider:
    """What litellm calls a provider, and where its key and its address may stand."""

    route: str
    default_model: str = ""
    keys: tuple[str, ...] = ()
    """Environment variables, the first that is set counts; empty if no key is needed."""
    addresses: tuple[str, ...] = ()
    """Environment variables with another base URL, as litellm names them."""


PROVIDERS = {
    "openrouter": Provider(
        "openrouter", "openai/gpt-4o-mini", ("OPENROUTER_API_KEY",), ("OPENROUTER_API_BASE",)
    ),
    "cohere": Provider(
        "cohere_chat",
        "command-r7b-12-2024",
        ("COHERE_API_KEY", "CO_API_KEY"),
        ("COHERE_API_BASE",),
    ),
    "openai": Provider(
        "openai", "gpt-4o-mini", ("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE")
    ),
    "anthropic": Provider(
        "anthropic",
        "claude-haiku-4-5",
        ("ANTHROPIC_API_KEY",),
        ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
    ),
    "gemini": Provider(
        "gemini", "gemini-2.5-flash", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), ("GEMINI_API_BASE",)
    ),
    "ollama": Provider("ollama_chat", "llama3.2", (), ("OLLAMA_API_BASE",)),
}
"""The prefixes of a SPEC. `default_model` plays if the SPEC names none: small and cheap ones."""


def anything(model: str, settings: Settings) -> LiteLLMBackend:
    """`litellm:ROUTE/MODEL`, for each provider that litellm knows."""
    if not model:
        raise UsageError("litellm: name a model as litellm does, e.g. litellm:groq/llama-3.1-8b")
    try:
        route = str(load_litellm().get_llm_provider(model)[1])
    except OpenAIError:
        raise UsageError(f"litellm:{model}: litellm knows no such provider") from None
    if route == "ollama":
        return ollama(model.partition("/")[2], settings)  # litellm's route for plain prompts.
    provider = next((each for each in PROVIDERS.values() if each.route == route), None)
    provider = provider or Provider(route, "", (f"{route.upper()}_API_KEY",))
    key = settings.secret(*provider.keys)
    if key is None:
        # litellm alone knows whether this one wants a key, or more than that, in the environment.
        missing = load_litellm().validate_environment(model)["missing_keys"]
        if missing:
            names = " and ".join(missing)
            place = " or in .env" if set(missing) <= set(provider.keys) else ""
            raise UsageError(f"litellm:{model} needs {names}: set it in the environment{place}")
    return LiteLLMBackend(model, provider, settings.service.limits("litellm"), key)


def _backend(prefix: str, model: str, settings: Settings) -> LiteLLMBackend:
    provider = PROVIDERS[prefix]
    key = settings.secret(*provider.keys)
    if provider.keys and key is None:
        names = " or ".join(provider.keys)
        raise UsageError(f"{prefix} needs a key: set {names} in the environment or in .env")
    full = f"{provider.route}/{model or provider.default_model}"
    return LiteLLMBackend(full, provider, settings.service.limits(prefix), key)


openrouter = partial(_backend, "openrouter")
cohere = partial(_backend, "cohere")
openai = partial(_backend, "openai")
anthropic = partial(_backend, "anthropic")
gemini = partial(_backend, "gemini")
ollama = partial(_backend, "ollama")

_FREE: dict[str, Json] = {
    "mode": "chat",
    "input_cost_per_token": 0.0,
    "output_cost_per_token": 0.0,
    "supports_response_schema": True,
}


class LiteLLMBackend:
    """One model of one provider."""

    def __init__(
        self, model: str, provider: Provider, limits: Limits, key: SecretStr | None
    ) -> None:
        self.model = model
        self._provider = provider
        self._limits = limits
        self._key = key
        self._litellm = load_litellm()
        self._timeout = httpx.Timeout(limits.read_timeout, connect=limits.connect_timeout)
        known = self._litellm.model_cost
        if provider.route == "ollama_chat":
            # For a model without a price litellm asks the server, at each call, and waits for it.
            known.setdefault(model, _FREE | {"litellm_provider": provider.route})
        self._guided = bool(self._litellm.supports_response_schema(model))
        names = (model, model.partition("/")[2], model.rpartition("/")[2])
        info: dict[str, Any] = next((known[name] for name in names if name in known), {})
        self.context_length: int | None = info.get("max_input_tokens")

    async def close(self) -> None:
        await disconnect(id(self))

    async def complete(self, request: Request) -> Completion:
        started = time.perf_counter()
        answer: Any = await self._call(request)
        if not isinstance(answer, BackendError):
            answer = self._completion(answer, request, time.perf_counter() - started)
        if isinstance(answer, Completion):
            return answer
        raise answer  # Not inside of an `except`: what litellm raised may hold the key.

    async def _call(self, request: Request) -> Any:
        """The answer as litellm has it, or the BackendError that says why there is none."""
        exchange = Exchange()
        token = exchange_of_call.set(exchange)
        try:
            async with asyncio.timeout(self._limits.call_timeout):
                return await self._litellm.acompletion(**self._arguments(request))
        except TimeoutError:
            what = f"no answer within {self._limits.call_timeout:g} s"
            return BackendError(f"{self.model}: {what}", "timeout", retryable=True)
        except OpenAIError as error:
            return self._failure(error, exchange)
        except Exception as error:  # A stranger's program: its words may hold what it was given.
            return self._fault("bad_response", f"litellm: {type(error).__name__}", str(error))
        finally:
            exchange_of_call.reset(token)

    def _arguments(self, request: Request) -> dict[str, Any]:
        sampling = request.sampling
        connections = connect(id(self))
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
            "api_key": self._key.get_secret_value().strip() if self._key else None,
            "api_base": self._address(),
            "timeout": self._timeout,
            "num_retries": 0,
            "max_retries": 0,
            "shared_session": connections.session,
        }
        if self._provider.route in TAKE_A_CLIENT:
            arguments["client"] = connections.client
        # Claude takes a temperature or top_p, not both, so a top_p that says nothing is left out.
        if sampling.top_p != 1 or self._provider.route != "anthropic":
            arguments["top_p"] = sampling.top_p
        if sampling.stop:
            arguments["stop"] = list(sampling.stop)
        if sampling.seed is not None:
            arguments["seed"] = sampling.seed
        if sampling.n != 1:
            arguments["n"] = sampling.n
        if request.logprobs:
            arguments["logprobs"] = True
        schema = self._schema(request)
        return arguments | ({"response_format": schema} if schema else {})

    def _address(self) -> str | None:
        """Another base URL, if one of the provider's variables is set."""
        set_ones = (os.environ.get(name) for name in self._provider.addresses)
        return next((url for url in set_ones if url), None)

    def _schema(self, request: Request) -> dict[str, Json] | None:
        """The wanted form of the answer, where litellm says that the model can be held to one."""
        schema = request.guided_json
        if schema is None and 0 < len(request.guided_choice) <= MOST_CHOICES:
            schema = {
                "type": "object",
                "properties": {"action": {"type": "string", "enum": list(request.guided_choice)}},
                "required": ["action"],
                "additionalProperties": False,
            }
        if schema is None or not self._guided:
            return None
        # A strict schema must close its object and require all of it; OpenAI refuses others.
        properties = set(schema.get("properties", {}))
        closed = schema.get("additionalProperties") is False
        strict = closed and set(schema.get("required", ())) == properties
        named = {"name": "answer", "schema": schema, "strict": strict}
        return {"type": "json_schema", "json_schema": named}

    def _completion(
        self, response: Any, request: Request, seconds: float
    ) -> Completion | BackendError:
        if not response.choices:
            return self._fault("bad_response", "answered without a choice", "")
        used = getattr(response, "usage", None)
        details = getattr(used, "prompt_tokens_details", None)
        usage = Usage(
            getattr(used, "prompt_tokens", 0) or 0,
            getattr(used, "completion_tokens", 0) or 0,
            getattr(details, "cached_tokens", 0) or 0,
        )
        choices = tuple(_choice(each) for each in response.choices)
        if self._provider.route == "cohere_chat":
            choices = tuple(_cut_off(each, usage, request) for each in choices)
        cost = getattr(response, "_hidden_params", {}).get("response_cost")
        return Completion(choices, response.model or self.model, usage, cost, seconds=seconds)

    def _failure(self, error: OpenAIError, exchange: Exchange) -> BackendError:
        """What litellm's error means; what was seen on the wire is believed before its class."""
        said = _said(error)
        if exchange.broken or exchange.cut:
            how = exchange.broken or "it ended in the middle of the answer"
            return self._fault("connection", "the connection broke", how)
        if exchange.unpromised:
            return self._fault("bad_response", "answered", exchange.unpromised)
        status = exchange.status
        if status is None or status == 200:
            return self._untold(error, said, status)
        if isinstance(error, self._litellm.ContextWindowExceededError):
            return ContextOverflow(f"{self.model}: {shortened(without(said, self._secret))}")
        return failure(status, said, self.model, exchange.wait, self._secret)

    def _untold(self, error: OpenAIError, said: str, status: int | None) -> BackendError:
        """What went wrong where no status tells: before an answer, in it, or out of our sight."""
        litellm = self._litellm
        if isinstance(error, litellm.Timeout):
            what = f"nothing came for {self._limits.read_timeout:g} s"
            return self._fault("timeout", what, "")
        told = getattr(error, "status_code", None)
        if status == 200 and told in {None, 200, 422, 500}:
            # These are litellm's own numbers for an answer that it could not read.
            return self._fault("bad_response", "answered no chat completion", said)
        if isinstance(error, litellm.APIConnectionError):
            return self._fault("connection", "no answer", said)
        if isinstance(error, litellm.ContextWindowExceededError):
            return ContextOverflow(f"{self.model}: {shortened(without(said, self._secret))}")
        return failure(told or 500, said, self.model, key=self._secret)

    def _fault(self, cause: FailureCause, what: str, said: str) -> BackendError:
        """A fault that may be gone at the next try."""
        more = f": {shortened(without(said, self._secret))}" if said else ""
        return BackendError(f"{self.model}: {what}{more}", cause, retryable=True)

    @property
    def _secret(self) -> str:
        return self._key.get_secret_value().strip() if self._key else ""


def _choice(choice: Any) -> Choice:
    message = choice.message
    reason = FINISH_REASONS.get(choice.finish_reason, "unknown")
    text = message.content or ""
    if not text and message.tool_calls:
        # A tool call in place of text: what it calls with is as good as text to a parser.
        text = "\n".join(call.function.arguments or "" for call in message.tool_calls)
        reason = "tool_calls"
    extra = getattr(message, "provider_specific_fields", None) or {}
    refusal = getattr(message, "refusal", None) or extra.get("refusal") or ""
    reasoning = getattr(message, "reasoning_content", None) or ""
    listed = getattr(getattr(choice, "logprobs", None), "content", None) or ()
    tokens = tuple(Token(None, row.token, row.logprob) for row in listed)
    return Choice(text, reason, str(reasoning), str(refusal), tokens)


def _cut_off(choice: Choice, usage: Usage, request: Request) -> Choice:
    """Since litellm drops Cohere's finish reason, an answer of full length counts as cut off."""
    if choice.finish_reason != "stop" or usage.completion_tokens < request.sampling.max_tokens:
        return choice
    return replace(choice, finish_reason="length")


_WRAPPING = re.compile(
    r"^(litellm\.)?(\w+(Error|Timeout): )*(Timeout Error: )?(\w+ ?Exception - )?"
)


def _said(error: OpenAIError) -> str:
    """The provider's words, without the classes that litellm wraps around them."""
    text = str(getattr(error, "message", error)).partition("Traceback (most recent call last)")[0]
    return said_in(_WRAPPING.sub("", text.strip()))
