"""Settings of model calls: from flags, then the environment (and `.env`), then a TOML file.

`arena.toml` in the working directory, or the file that ARENA_CONFIG names:

    llm_backend = "openrouter"

    [service]                       # limits for every backend
    concurrency = 8

    [service.openrouter]            # and for one
    requests_per_minute = 20

    [models."openai:gpt-9"]         # what arena does not know of a model
    price_in = 1.25                 # US dollars per million tokens
    price_out = 10

    [agent]                         # limits of programs, agent:COMMAND
    decision_seconds = 30

    [train]                         # what `arena train` does unless flags say otherwise
    log_dir = "/data/runs"

API keys are never in the file: they come from the environment or from `.env`, as `SecretStr`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Protocol, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from arena.core.errors import UsageError
from arena.core.text import first_fault, read_value
from arena.llm.backend import Backend, BackendTraits, Price
from arena.llm.config import Config, merged, setting
from arena.llm.environment import config_file, variables


class Limits(BaseModel):
    """Limits of the calls to a backend. Times are seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    concurrency: int = Field(32, ge=1, description="Calls in flight at once.")
    requests_per_minute: float | None = Field(None, gt=0)
    connect_timeout: float = Field(10.0, gt=0)
    read_timeout: float = Field(120.0, gt=0, description="Without a byte from the provider.")
    call_timeout: float = Field(300.0, gt=0, description="One call, from sending to the last byte.")
    max_retries: int = Field(5, ge=0, description="Further attempts after the first one.")
    backoff: float = Field(0.5, ge=0, description="Longest first wait; doubles with each retry.")
    max_backoff: float = Field(30.0, ge=0, description="Longest wait, Retry-After excepted.")
    breaker_failures: int = Field(
        8, ge=1, description="Failures in a row after which the backend counts as down."
    )
    patience: float = Field(
        60.0, ge=0, description="How long to wait for a backend that is down before giving up."
    )


CACHED_SHARE = 0.1
"""Share of the price of a prompt's token that most providers charge for one from their cache."""


def make_price(
    price_in: float | None, price_out: float | None, price_cached: float | None
) -> Price | None:
    """Return a price from US dollars per million tokens. Raises UsageError for half of one."""
    if (price_in, price_out, price_cached) == (None, None, None):
        return None
    if price_in is None or price_out is None:
        raise UsageError("price_in and price_out belong together: set both")
    cached = CACHED_SHARE * price_in if price_cached is None else price_cached
    return Price(price_in / 1e6, price_out / 1e6, cached / 1e6)


class ProgramLimits(BaseModel):
    """Limits of the programs of `agent:COMMAND`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    decision_seconds: float = Field(120.0, gt=0, description="One decision.")
    start_seconds: float = Field(30.0, gt=0, description="Until the answer to the first message.")
    memory_gb: float = Field(16.0, gt=0, description="Address space of each process, on Linux.")
    drawn_seconds: float = Field(
        0.1,
        ge=0,
        le=60,
        description="Mean time of bots and of forced moves where people, programs or clients play, "
        "so that the clock tells nothing; 0: no waiting.",
    )


MODELS = "Models"
"""Heading of the help."""


class BudgetLimits(Config):
    """Settings of the budget of a command's models."""

    max_cost: float | None = setting(None, MODELS, changeable=True, ge=0)
    """Spending limit in US dollars; a game starts only if the rest should cover it."""


class RunLimits(BudgetLimits):
    """Settings of commands that play games: the budget of their models, and the last resort."""

    price_in: float | None = setting(None, MODELS, flag=False, changeable=True, ge=0)
    """USD per million prompt tokens, for models whose price is unknown."""
    price_out: float | None = setting(None, MODELS, flag=False, changeable=True, ge=0)
    """USD per million completion tokens."""
    price_cached: float | None = setting(None, MODELS, flag=False, changeable=True, ge=0)
    """USD per million prompt tokens that the provider reads from its cache. Default: a tenth of
    price_in."""
    max_fallbacks: int = setting(10, MODELS, flag=False, changeable=True, ge=0)
    """Stop the run after this number of fallback moves of a model in a row, or if most of its first
    decisions (four times as many) are fallback moves. 0: never."""

    @property
    def price(self) -> Price | None:
        """Return the price per token for models without one. Raises UsageError for half of one."""
        return make_price(self.price_in, self.price_out, self.price_cached)


class ModelOverride(BaseModel):
    """Facts about one model that arena.toml states: `[models."SPEC"]`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    price_in: float | None = Field(None, ge=0, description="USD per million prompt tokens.")
    price_out: float | None = Field(None, ge=0, description="The same of replies.")
    price_cached: float | None = Field(None, ge=0, description="The same of cached prompts.")
    context: int | None = Field(None, ge=1, description="Longest prompt in tokens.")
    max_reply: int | None = Field(None, ge=1, description="Longest reply in tokens.")
    thinks: bool | None = Field(None, description="It thinks before each answer.")
    tools: bool | None = Field(None, description="It can call functions.")

    @model_validator(mode="after")
    def _has_whole_price(self) -> Self:
        _ = self.price
        return self

    @property
    def price(self) -> Price | None:
        """Return the price per token. Raises UsageError for half of one."""
        return make_price(self.price_in, self.price_out, self.price_cached)

    def applied(self, traits: BackendTraits) -> BackendTraits:
        """Return the traits of a backend with these facts."""
        return replace(
            traits,
            price=self.price or traits.price,
            always_thinks=traits.always_thinks if self.thinks is None else self.thinks,
            max_reply_tokens=self.max_reply or traits.max_reply_tokens,
        )


class ServiceSettings(Limits):
    """Limits for all backends; a sub-table named like a backend changes some for that one."""

    model_config = ConfigDict(frozen=True, extra="allow")

    @model_validator(mode="after")
    def _has_only_tables_beside_limits(self) -> Self:
        for name, value in self._extra.items():
            # An unknown plain value is a misspelt limit; a table belongs to a backend.
            if not isinstance(value, dict):
                known = ", ".join(Limits.model_fields)
                raise ValueError(
                    f"there is no limit '{name}' ({known}), and [service.{name}] must be a table"
                )
        return self

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the backends with a table of their own."""
        return tuple(self._extra)

    def limits(self, backend: str) -> Limits:
        """Return the limits of a backend. Raises UsageError for a bad table."""
        general = {name: getattr(self, name) for name in Limits.model_fields}
        try:
            # The table of the backend comes second and overrides the general limits.
            return Limits(**general | self._extra.get(backend, {}))
        except (ValidationError, TypeError) as error:
            raise UsageError(f"settings, [service.{backend}]: {_first_error(error)}") from None

    @property
    def _extra(self) -> dict[str, Any]:
        return self.__pydantic_extra__ or {}


class Settings(Config):
    """Settings of a run that concern its models.

    The environment variable of a field is `ARENA_FIELD`, with JSON for a table.
    """

    llm_backend: str | None = setting(None, variable="LLM_BACKEND")
    """BACKEND or BACKEND:MODEL that takes a seat when no flag names one."""
    art_wrapper_url: str = setting("http://localhost:5001", variable="ART_WRAPPER_URL")
    """Address of `art` models: an ART backend, or `arena serve`."""
    models: dict[str, ModelOverride] = setting({})
    """Facts about models by SPEC."""
    service: ServiceSettings = setting(ServiceSettings())  # type: ignore[call-arg]
    """Limits of the calls to backends."""
    embedded_precision: Literal["float32", "bf16"] = setting("float32")
    """Type of the matrices of embedded models. bf16 is faster; probabilities move."""
    agent: ProgramLimits = setting(ProgramLimits())  # type: ignore[call-arg]
    """Limits of the programs of `agent:COMMAND`."""

    @field_validator("models", mode="before")
    @classmethod
    def _only_tables(cls, table: JsonValue) -> JsonValue:
        if not isinstance(table, dict):
            return table
        # The values of other keys are settings of commands.
        return {name: value for name, value in table.items() if isinstance(value, dict)}

    @classmethod
    def load(cls, **given: Any) -> Self:
        """Return what is given, else what environment, `.env` and arena.toml say.

        Raises UsageError.
        """
        layers = given, cls.environment_layer([]).values, config_file()
        values: dict[str, JsonValue] = {}
        for layer in reversed(layers):
            values = merged(values, {n: v for n, v in layer.items() if n in cls.model_fields})
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise UsageError(f"settings: {_first_error(error)}") from None

    @field_validator("models", "service", "agent", mode="before")
    @classmethod
    def _decode(cls, value: JsonValue) -> JsonValue:
        return read_value(value) if isinstance(value, str) else value

    def secret(self, *names: str) -> SecretStr | None:
        """Return the first of these variables that is set in the environment or in `.env`."""
        known = variables()
        return next((SecretStr(known[name]) for name in names if name in known), None)


class BackendFactory(Protocol):
    """Factory of a backend: an entry of the catalog's kind "backend", under the prefix of a SPEC.

    `LLMService` calls it with the part of the SPEC behind the prefix. It raises UsageError, in one
    line, for a missing key or a model that cannot be, before anything is played.
    """

    def __call__(self, model: str, settings: Settings) -> Backend: ...


class KeylessSettings(Settings):
    """Settings for backends that are only looked at: a key that is missing is made up."""

    def secret(self, *names: str) -> SecretStr | None:
        return super().secret(*names) or SecretStr("no-key")


def _first_error(error: Exception) -> str:
    """Return the first error in one line, without the value, which may be a misplaced key."""
    if isinstance(error, ValidationError):
        return first_fault(error)
    return str(error).splitlines()[0]
