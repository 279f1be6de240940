"""Lists of hosted models: litellm's table and OpenRouter's own list as facts, and facts as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, Field, JsonValue, ValidationError

from arena.core.errors import ArenaError
from arena.core.text import UNKNOWN, first_fault
from arena.llm.environment import variables
from arena.llm.settings import Limits
from backends.model_facts import MAKERS, FactList, KnownModel, ModelFacts, Source, today
from backends.openai_http import HTTPBackend, check_url

Raw = TypeVar("Raw")
Made = TypeVar("Made")
LISTED_ROUTES = (*MAKERS, "groq", "openrouter")
"""Routes whose models are in our lists; the others are in litellm's table only."""


def of_litellm_table(table: Mapping[str, Mapping[str, JsonValue]], version: str) -> FactList:
    """Return the chat models of litellm's table that belong to one of our routes."""
    models = {}
    for key, entry in table.items():
        route = str(entry.get("litellm_provider"))
        if route not in LISTED_ROUTES or entry.get("mode") not in {"chat", "responses"}:
            continue
        name = key if key.startswith(f"{route}/") else f"{route}/{key}"
        models[name] = _checked(ModelFacts.of_litellm, entry, f"litellm {version}, {key}")
    return FactList(source=f"litellm {version}", date=today(), models=models)


def _checked(make: Callable[[Raw], Made], raw: Raw, place: str) -> Made:
    """Return what `make` makes of it. Raises ArenaError with the place of a wrong value."""
    try:
        return make(raw)
    except ValidationError as error:
        raise ArenaError(f"{place}: {first_fault(error)}") from None


class _Pricing(BaseModel):
    prompt: float | None = None
    completion: float | None = None
    input_cache_read: float | None = None
    input_cache_write: float | None = None


class _TopProvider(BaseModel):
    max_completion_tokens: int | None = None


class _RouterModel(BaseModel):
    id: str
    context_length: int | None = None
    pricing: _Pricing
    top_provider: _TopProvider = _TopProvider()
    supported_parameters: list[str] = []

    def facts(self) -> ModelFacts:
        """Return what OpenRouter states of the model. Raises ValidationError."""
        price, parameters = self.pricing, self.supported_parameters
        # OpenRouter's mark of a model that stands for several ones, at the price of its choice.
        varies = price.prompt == price.completion == -1
        return ModelFacts.model_validate(
            {
                "mode": "chat",
                "input_cost_per_token": None if varies else price.prompt,
                "output_cost_per_token": None if varies else price.completion,
                "cache_read_input_token_cost": price.input_cache_read,
                "cache_creation_input_token_cost": price.input_cache_write,
                "max_input_tokens": self.context_length or None,
                "max_output_tokens": self.top_provider.max_completion_tokens or None,
                **{field: name in parameters for name, field in _PARAMETERS.items()},
            }
        )


_PARAMETERS = {
    "reasoning": "supports_reasoning",
    "tools": "supports_function_calling",
    "structured_outputs": "supports_response_schema",
}


class _RouterList(BaseModel):
    data: list[_RouterModel] = Field(min_length=1)


def of_openrouter(body: bytes, url: str) -> FactList:
    """Return the facts in OpenRouter's list of models. Raises ArenaError for anything else."""
    listed = _checked(_RouterList.model_validate_json, body, url)
    models = {
        f"openrouter/{model.id}": _checked(_RouterModel.facts, model, f"{url}, {model.id}")
        for model in listed.data
    }
    return FactList(source="OpenRouter", date=today(), models=models)


async def fetch_openrouter(limits: Limits) -> FactList:
    """Return the facts that OpenRouter states of its models. Raises ArenaError."""
    url = variables().get("OPENROUTER_API_BASE", "https://openrouter.ai/api/v1")
    server = HTTPBackend(check_url(url), "", limits, None)
    try:
        return of_openrouter(await server.list_models(), f"{url}/models")
    finally:
        await server.close()


@dataclass(frozen=True, slots=True)
class ShownFact:
    """A fact as text for people."""

    name: str
    value: str
    source: Source


_SHOWN = {
    "price of prompts": "input_cost_per_token",
    "price of cached prompts": "cache_read_input_token_cost",
    "price of cache writes": "cache_creation_input_token_cost",
    "price of replies": "output_cost_per_token",
    "context": "max_input_tokens",
    "longest reply": "max_output_tokens",
    "shortest cached prefix": "prompt_cache_min_tokens",
    "thinks": "supports_reasoning",
    "thinks without being asked": "thinking_always_on",
    "calls functions": "supports_function_calling",
    "follows JSON schemas": "supports_response_schema",
}


def shown_facts(known: KnownModel, name: str) -> list[ShownFact]:
    """Return what `arena models show` says of a model."""
    values, sources = known.facts.model_dump(), dict(known.sources)
    if values["supports_reasoning"]:
        values["thinking_always_on"] = known.facts.thinks_unasked(name)
        sources.setdefault("thinking_always_on", sources["supports_reasoning"])
    return [
        ShownFact(title, _fact_text(values[field]), sources.get(field, Source("")))
        for title, field in _SHOWN.items()
    ]


def _fact_text(value: JsonValue) -> str:
    if value is None or isinstance(value, bool):
        return UNKNOWN if value is None else ("yes" if value else "no")
    if isinstance(value, float):
        return f"${value * 1e6:,.4g}"
    return f"{value:,} tokens"
