"""Arguments of litellm's `acompletion` that depend on the model: cache marks, thinking, schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from arena.llm.backend import Price, PromptCache, ReasoningEffort, Request, Sampling
from backends.litellm_client import load_litellm
from backends.openai_wire import tool_fields

MAX_GUIDED_CHOICES = 100
"""More choices are not sent: providers limit the size of an enumeration in a schema."""
CACHE_MARK: JsonValue = {"type": "ephemeral"}
"""Anthropic's mark of the last message of a prefix to be cached."""
MARKED_ROUTES = {"anthropic", "openrouter"}
"""Routes that pass Claude's cache marks on; the other providers cache without being asked."""
LONG_PREFIXES = {"haiku-4": 4096, "opus-4-5": 4096, "opus-4-6": 4096, "haiku": 2048}
"""Tokens of the shortest prefix that Claude caches, by the first part of its name that fits; 1,024
for the others (Anthropic's documentation of prompt caching)."""
EFFORTS: Sequence[tuple[int, ReasoningEffort]] = (
    (10_000, "high"),
    (5_000, "medium"),
    (0, "low"),
)
"""Efforts from budgets of thinking tokens, with litellm's thresholds, for providers without
budgets."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Description of a model by litellm's table of models."""

    name: str
    """litellm's name, with the route."""
    route: str
    parameters: frozenset[str]
    """OpenAI's names of the parameters that litellm passes on."""
    is_known: bool
    supports_schema: bool
    reasons: bool
    """The model can think; Claude does it only if asked."""
    context_length: int | None
    max_reply_tokens: int | None
    price: Price | None
    prompt_cache: PromptCache | None

    @classmethod
    def of(cls, name: str, route: str) -> ModelInfo:
        """Look up a model; all of it is unknown for one that litellm does not list."""
        litellm = load_litellm()
        # litellm lists some models with their route and others without it.
        names = (name, name.partition("/")[2], name.rpartition("/")[2])
        prices = litellm.model_cost
        info: Mapping[str, Any] = next((prices[n] for n in names if n in prices), {})
        passed = litellm.get_supported_openai_params(names[1], custom_llm_provider=route)
        return cls(
            name,
            route,
            frozenset(passed or ()),
            bool(info),
            bool(litellm.supports_response_schema(name)),
            any(litellm.supports_reasoning(n) for n in names),
            info.get("max_input_tokens"),
            info.get("max_output_tokens"),
            _price(info),
            _prompt_cache(info, name, route),
        )

    @property
    def is_claude(self) -> bool:
        return "claude" in self.name

    @property
    def takes_thinking(self) -> bool:
        """False if the model is known and cannot think."""
        return self.reasons or not self.is_known or "reasoning_effort" in self.parameters


def _price(info: Mapping[str, Any]) -> Price | None:
    prompt, reply = info.get("input_cost_per_token"), info.get("output_cost_per_token")
    return None if prompt is None or reply is None else Price(float(prompt), float(reply))


def _prompt_cache(info: Mapping[str, Any], name: str, route: str) -> PromptCache | None:
    """Return the cache of a model for which litellm lists a price of cached tokens."""
    read = info.get("cache_read_input_token_cost")
    if read is None:
        return None
    if "claude" not in name:
        return PromptCache(float(read), float(info["input_cost_per_token"]))
    if route not in MARKED_ROUTES:
        return None
    plain = name.replace(".", "-")
    shortest = next((n for part, n in LONG_PREFIXES.items() if part in plain), 1024)
    write = info.get("cache_creation_input_token_cost", info["input_cost_per_token"])
    return PromptCache(float(read), float(write), shortest, step=1, is_marked=True)


def model_arguments(model: ModelInfo, request: Request) -> dict[str, Any]:
    """Return the messages and the arguments whose form depends on the model."""
    return {
        "messages": _messages(model, request),
        **_thinking(model, request.sampling),
        **_tools(model, request),
        **_response_format(model, request),
    }


def _messages(model: ModelInfo, request: Request) -> list[dict[str, JsonValue]]:
    messages: list[dict[str, JsonValue]] = [
        {"role": m.role, "content": m.content} for m in request.messages
    ]
    if model.is_claude and model.route in MARKED_ROUTES and request.repeated:
        # The first mark covers the functions and the rules, which all games of a run share. The
        # second one covers the chat so far. A mark is found again only a limited number of
        # messages later, so one at the end alone would lose the rules.
        for place in (0, request.repeated - 1):
            messages[place]["cache_control"] = CACHE_MARK
    return messages


def _thinking(model: ModelInfo, sampling: Sampling) -> dict[str, Any]:
    """Return the thinking parameters in the form that the provider knows."""
    effort, tokens = sampling.reasoning_effort, sampling.thinking_tokens
    if not effort and not tokens:
        return {}
    if model.route == "openrouter":  # Translates for all its providers, and takes one of the two.
        return {"reasoning": {"max_tokens": tokens} if tokens else {"effort": effort}}
    if tokens and "thinking" in model.parameters:
        return {"thinking": {"type": "enabled", "budget_tokens": tokens}}
    if model.is_claude:
        if effort == "none":  # It thinks only if asked.
            return {}
        # litellm's budget for "minimal" is less than Claude accepts.
        effort = "low" if effort == "minimal" else effort
    effort = effort or next(name for least, name in EFFORTS if (tokens or 0) >= least)
    # litellm drops parameters of models that it does not know, for example new ones.
    forced = {} if model.is_known else {"allowed_openai_params": ["reasoning_effort"]}
    return {"reasoning_effort": effort, **forced}


def _tools(model: ModelInfo, request: Request) -> dict[str, Any]:
    fields = tool_fields(request.tools)
    # Claude refuses to think if a call is required.
    if fields and model.is_claude and request.sampling.asks_to_think:
        fields["tool_choice"] = "auto"
    return fields


def _response_format(model: ModelInfo, request: Request) -> dict[str, Any]:
    """Return the JSON schema for the answer, if there is one and the model supports schemas."""
    schema: dict[str, Any] | None = request.guided_json
    if schema is None and 0 < len(request.guided_choice) <= MAX_GUIDED_CHOICES:
        schema = {
            "type": "object",
            "properties": {"action": {"type": "string", "enum": list(request.guided_choice)}},
            "required": ["action"],
            "additionalProperties": False,
        }
    if schema is None or not model.supports_schema:
        return {}
    # OpenAI accepts a schema as strict only if it requires all properties and no others.
    properties = set(schema.get("properties", {}))
    is_closed = schema.get("additionalProperties") is False
    is_strict = is_closed and set(schema.get("required", ())) == properties
    json_schema = {"name": "answer", "schema": schema, "strict": is_strict}
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}
