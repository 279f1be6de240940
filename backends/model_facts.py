"""Prices and capabilities of hosted models, with the source and the date of each fact.

A fact comes from the first of these that states it: `[models."SPEC"]` in arena.toml, a provider's
own list, and the newest of litellm's tables: the installed one, the one that is part of arena, and
the one that `arena models update` has written.
Fields have litellm's names, so that litellm can be given what its own table lacks.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from arena.core.errors import UsageError
from arena.core.text import first_fault
from arena.episodes.files import user_folder, write_whole
from arena.llm.backend import Price
from arena.llm.settings import ModelOverride

VERSION = 1
BUNDLED = Path(__file__).with_name("model_facts.json")
MAKERS = (
    *("openai", "anthropic", "gemini", "cohere_chat", "xai", "deepseek", "mistral", "moonshot"),
    *("zai", "minimax", "dashscope"),
)
"""litellm's routes to the makers of models. What they state of a model is taken for the same model
behind a router that states nothing."""
OWN_ROUTES = {"google": "gemini", "cohere": "cohere_chat", "x-ai": "xai", "z-ai": "zai"}
"""litellm's routes by OpenRouter's names of makers, where they differ."""
Cost = Annotated[float | None, Field(ge=0)]
Count = Annotated[int | None, Field(ge=0)]
AGAIN = "run `arena models update` to write it anew"


class ModelFacts(BaseModel):
    """Facts of one model. Prices are US dollars per token; None is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mode: Literal["chat", "responses"] | None = None
    input_cost_per_token: Cost = None
    output_cost_per_token: Cost = None
    cache_read_input_token_cost: Cost = None
    cache_creation_input_token_cost: Cost = None
    max_input_tokens: Count = None
    max_output_tokens: Count = None
    prompt_cache_min_tokens: Count = None
    supports_prompt_caching: bool | None = None
    supports_reasoning: bool | None = None
    thinking_always_on: bool | None = None
    default_reasoning_effort: str | None = None
    supports_adaptive_thinking: bool | None = None
    supports_none_reasoning_effort: bool | None = None
    supports_minimal_reasoning_effort: bool | None = None
    supports_sampling_params: bool | None = None
    supports_function_calling: bool | None = None
    supports_tool_choice: bool | None = None
    supports_forced_tool_use: bool | None = None
    supports_response_schema: bool | None = None

    @classmethod
    def of_litellm(cls, entry: Mapping[str, JsonValue]) -> ModelFacts:
        """Return the facts in an entry of litellm's table."""
        return cls.model_validate({n: entry[n] for n in cls.model_fields if n in entry})

    @classmethod
    def of_override(cls, override: ModelOverride) -> ModelFacts:
        """Return the facts in a table of arena.toml."""
        price = override.price or Price(0, 0)
        return cls(
            mode="responses" if override.responses else None,
            input_cost_per_token=price.input if override.price else None,
            output_cost_per_token=price.output if override.price else None,
            cache_read_input_token_cost=price.cached,
            max_input_tokens=override.context,
            max_output_tokens=override.max_reply,
            supports_reasoning=override.thinks,
            thinking_always_on=override.thinks,
            supports_function_calling=override.tools,
        )

    def thinks_unasked(self, name: str) -> bool:
        """Return whether the model thinks without being asked; Claude and some others do not."""
        if self.thinking_always_on is not None or "claude" in name:
            return bool(self.thinking_always_on)
        # A model of which only litellm's code knows that it thinks has no value here.
        return self.supports_reasoning is not False and self.default_reasoning_effort != "none"

    def price(self) -> Price | None:
        """Return the price per token; None if it is unknown."""
        prompt, reply = self.input_cost_per_token, self.output_cost_per_token
        if prompt is None or reply is None:
            return None
        return Price(prompt, reply, self.cache_read_input_token_cost)


class FactList(BaseModel):
    """Facts that one source states, under litellm's full names (`openai/gpt-4o`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    date: dt.date
    models: dict[str, ModelFacts]

    def find(self, name: str) -> ModelFacts:
        """Return the facts of a model; where a router states none, those of the maker."""
        _, *maker, model = name.split("/")
        own = OWN_ROUTES.get(maker[-1], maker[-1]) if maker else ""
        # Anthropic writes "claude-opus-4-5", OpenRouter "claude-opus-4.5".
        names = (name, f"{own}/{model}", f"{own}/{model.replace('.', '-')}")
        return next((self.models[each] for each in names if each in self.models), ModelFacts())


@dataclass(frozen=True, slots=True)
class Source:
    """Origin of a fact."""

    name: str
    date: dt.date | None = None
    """None: as old as what states it, such as arena.toml."""

    def age(self, today: dt.date) -> str:
        """Return the age in days for people."""
        if self.date is None:
            return ""
        days = (today - self.date).days
        return f"{self.date}, {days} {'day' if days == 1 else 'days'} old"


@dataclass(frozen=True, slots=True)
class KnownModel:
    """What is known of a model, and the source of each fact by the name of its field."""

    facts: ModelFacts
    sources: Mapping[str, Source]

    @classmethod
    def of_override(cls, override: ModelOverride | None) -> KnownModel:
        """Return what arena.toml alone states."""
        facts = ModelFacts.of_override(override) if override else ModelFacts()
        return cls(facts, dict.fromkeys(facts.model_dump(exclude_none=True), Source("arena.toml")))


def facts_file() -> Path:
    """Return the path of the file that `arena models update` writes; it need not exist."""
    return user_folder() / "model_facts.json"


def known_model(
    name: str,
    override: ModelOverride | None,
    installed: Mapping[str, JsonValue],
    litellm_version: str,
) -> KnownModel:
    """Return what is known of a model, by litellm's full name `ROUTE/MODEL`.

    The sources are its table in arena.toml and its entry in the table of the installed litellm.
    """
    path = facts_file()
    lists = [*(read_lists(path) if path.is_file() else ()), *bundled_lists()]
    found = [(each.find(name), Source(each.source, each.date)) for each in lists]
    # Newer versions of litellm know better; a provider's own list has no version and comes first.
    own = (ModelFacts.of_litellm(installed), Source(f"litellm {litellm_version}, installed"))
    found = sorted([*found, own], key=lambda each: _version(each[1].name), reverse=True)
    if override is not None:
        found.insert(0, (ModelFacts.of_override(override), Source("arena.toml")))
    values: dict[str, JsonValue] = {}
    sources: dict[str, Source] = {}
    for facts, source in found:
        new = {n: v for n, v in facts.model_dump(exclude_none=True).items() if n not in values}
        values |= new
        sources |= dict.fromkeys(new, source)
    return KnownModel(ModelFacts.model_validate(values), sources)


def _version(source: str) -> tuple[int, ...]:
    """Return the version of litellm in the name of a source; the highest one for other sources."""
    return tuple(map(int, re.findall(r"\d+", source)[:3])) or (sys.maxsize,)


def write_lists(path: Path, lists: Iterable[FactList]) -> None:
    """Write lists with the hash of their content; one line for each model. Raises OSError."""
    kept = [each.model_dump(mode="json", exclude_none=True) for each in lists]
    text = json.dumps(
        {"version": VERSION, "sha256": _digest(kept), "lists": kept}, separators=(",", ":")
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.replace('},"', '},\n"') + "\n")


@cache
def bundled_lists() -> tuple[FactList, ...]:
    """Return the list that is part of arena."""
    return tuple(read_lists(BUNDLED))


def read_lists(path: Path) -> list[FactList]:
    """Return the lists in a file. Raises UsageError for a file that is not what was written."""
    try:
        document = json.loads(path.read_bytes())
        version, lists, digest = document["version"], document["lists"], document["sha256"]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(f"{path} is not a list of models: {AGAIN}") from None
    if not isinstance(version, int) or version > VERSION:
        raise UsageError(
            f"{path} has version {version}, but this arena reads {VERSION}: update it, or {AGAIN}"
        )
    if digest != _digest(lists):
        raise UsageError(
            f"{path} was changed after it was written (its hash differs): {AGAIN}; prices of your "
            "own belong in arena.toml"
        )
    try:
        read = [FactList.model_validate(each) for each in lists]
    except (ValidationError, TypeError) as error:
        fault = first_fault(error) if isinstance(error, ValidationError) else "no lists"
        raise UsageError(f"{path}: {fault}: {AGAIN}") from None
    # A day of grace for time zones.
    if late := next((each for each in read if (each.date - today()).days > 1), None):
        raise UsageError(
            f"{path}: {late.source} is of {late.date}, in the future: check the clock, or {AGAIN}"
        )
    return read


def today() -> dt.date:
    return dt.datetime.now(dt.UTC).date()


def _digest(lists: JsonValue | list[dict[str, JsonValue]]) -> str:
    text = json.dumps(lists, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
