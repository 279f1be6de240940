"""Protocols between the training loop and the holder of the weights.

The loop trains with `host.train(groups, settings)` and plays with `host.policy()`, for every host
alike.

Hosts differ in the settings that they support: ART's serverless trainer has no KL penalty, the
local one has no limit on the norm of the gradient. A setting that the signature of a host's `train`
has is passed. One that it lacks is left out while it has its default value, and is an error
otherwise: a run never silently ignores a setting.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from pydantic import JsonValue
from pydantic.fields import FieldInfo

from arena.core.errors import UsageError
from arena.core.spec import redacted
from arena.llm.config import as_flag
from trainers.config.config import TrainConfig

if TYPE_CHECKING:
    from arena.llm.backend import Backend
    from arena.llm.settings import Settings
    from trainers.trajectory import TrajectoryGroup


@dataclass(frozen=True, slots=True)
class HostRequest:
    """Everything that a host is made from."""

    config: TrainConfig
    folder: Path
    """The run's folder; checkpoints are in its subfolder `checkpoints`."""
    settings: Settings
    """API keys and limits."""


class TrainingHost(Protocol):
    """Holds the weights of one model. Used in one event loop: `open`, the other calls, `close`."""

    name: str
    """Its name in the catalog."""

    def preflight(self) -> None:
        """Check for a GPU, packages, keys and disk space before anything starts.

        Raises:
            UsageError, MissingDependency: something is missing, or this host does not support a
                setting of the config; no setting is dropped silently.
        """

    async def open(self, step: int) -> int:
        """Load the weights of a training step; 0 is the base model.

        The run did not record later checkpoints as finished. A host that can deletes them, and the
        step is repeated. Returns the step of the loaded weights, which is a later one if the host
        cannot go back.
        """

    async def train(self, groups: Sequence[TrajectoryGroup], kl_reference: int) -> dict[str, float]:
        """Do one training step, save its weights, and answer with them from now on.

        `kl_reference` is the step whose weights are the reference of the KL penalty. Returns the
        metrics of the update, among them `seconds_saving` if it is known.

        Raises:
            BackendError: the step was not done; if it is `retryable`, it may be repeated.
            ArenaError: the step cannot be done, or its weights do not answer.
        """

    def policy(self, step: int | None = None) -> Backend:
        """Return a backend that answers with the weights of a step; None: always the newest.

        Completions carry `policy_version`. Raises UsageError for a step that is not kept.
        """

    async def keep(self, steps: Collection[int]) -> None:
        """Delete the checkpoints of all other steps."""

    def checkpoint(self, step: int) -> Path | None:
        """Return the folder of a step's weights; None if it is not on this machine."""

    async def close(self) -> None:
        """Release processes, threads, connections and memory."""


class HostFactory(Protocol):
    """Entry of the catalog's kind `host`. Making a host starts nothing."""

    def __call__(self, request: HostRequest) -> TrainingHost: ...


@dataclass(frozen=True, slots=True)
class TrainKeyword:
    """Names of a setting in ART's signatures, and the remedy if a host has none of them."""

    names: tuple[str, ...]
    """ART's keywords with this meaning; the first that the host has is used."""
    remedy: str = "leave it out"
    """Advice for a host that lacks it."""
    usual: str = ""
    """A value, beside the default, that means what each host does."""
    omit_default: bool = False
    """The default means ART's own default, so it is not passed."""


EMBEDDED_ONLY = "leave it out, or take --trainer-host embedded"
EMBEDDED_OR_LOCAL = "leave it out, or take --trainer-host embedded or local"

KEYWORDS: Mapping[str, TrainKeyword] = {
    "learning_rate": TrainKeyword(("learning_rate",)),
    "loss": TrainKeyword(("loss_fn", "ppo")),
    "clip_eps": TrainKeyword(("epsilon",), omit_default=True),
    "kl_coef": TrainKeyword(("kl_penalty_coef",), EMBEDDED_OR_LOCAL),
    "entropy_coef": TrainKeyword(("entropy_coef",), EMBEDDED_ONLY),
    "minibatches": TrainKeyword(("minibatches",), EMBEDDED_ONLY),
    "tokens_per_batch": TrainKeyword(("tokens_per_batch",), EMBEDDED_ONLY),
    "gradient_checkpointing": TrainKeyword(("gradient_checkpointing",), EMBEDDED_ONLY),
    "precision": TrainKeyword(("precision",), EMBEDDED_ONLY),
    "threads": TrainKeyword(("threads",), EMBEDDED_ONLY),
    # ART has no name for it.
    "credit": TrainKeyword((), "ART gives each game one advantage; take --credit game", "game"),
}
"""Every field of TrainConfig that decides an update."""


SCALING = ("scale_rewards", "normalize_advantages")
"""ART's keywords that scale advantages; the first that a host has is used."""


def train_arguments(
    config: TrainConfig,
    train: Callable[..., object],
    *,
    host: str = "this host",
    unsupported: Mapping[str, str] = MappingProxyType({}),
    handled: Collection[str] = (),
) -> dict[str, JsonValue]:
    """Return the keyword arguments of `train` that the config means.

    Args:
        config: the settings of the run.
        train: `train` of ART's backend, or the class of our own settings; the signature decides
            what is passed.
        host: name of the host in errors.
        unsupported: other fields of the config that mean nothing to the host, with the remedy.
        handled: fields that take effect before `train`.

    Raises UsageError if the host does not support some settings; the message names all their flags.
    """
    parameters = inspect.signature(train).parameters.values()
    # Keyword-only parameters are settings; the others are the model and the groups.
    names = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    accepts_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    arguments: dict[str, JsonValue] = {}
    refused = [
        _flag(config, field, remedy)
        for field, remedy in unsupported.items()
        if _is_changed(config, field)
    ]
    for field, keyword in KEYWORDS.items():
        value, changed = getattr(config, field), _is_changed(config, field)
        name = next((name for name in keyword.names if name in names), None)
        # ART's protocol has **kwargs: then changed settings are passed under their usual name.
        if name is None and accepts_any and changed and keyword.names:
            name = keyword.names[0]
        if name is not None and (changed or not keyword.omit_default):
            # The serverless trainer chooses the loss by a flag.
            arguments[name] = value == "ppo" if name == "ppo" else value
        elif name is None and changed and field not in handled:
            refused.append(_flag(config, field, keyword.remedy))
    # Divided by the group's standard deviation, advantages have another optimum: `trainers.credit`.
    if scaling := [name for name in SCALING if name in names]:
        arguments[scaling[0]] = False
    if refused:
        raise UsageError(f"{host} does not support: {'; '.join(refused)}")
    return arguments


def check_used(
    config: TrainConfig, used: Collection[str], reason: str, *, as_keys: bool = False
) -> None:
    """Raise UsageError if a setting beside those in `used` is changed: it would have no effect.

    The message names all of them, `as_keys` for a command on which they are no flags.
    """
    ignored = []
    for name, info in TrainConfig.model_fields.items():
        is_setting = info.json_schema_extra is not None  # Not the game, its options, the preset.
        if is_setting and name not in used and _is_changed(config, name):
            text = as_flag(name, getattr(config, name), FieldInfo() if as_keys else info)
            ignored.append(redacted(text))
    if ignored:
        raise UsageError(f"{', '.join(ignored)}: {reason}")


def _is_changed(config: TrainConfig, field: str) -> bool:
    """Return whether the setting differs from its default and from what each host does."""
    value = getattr(config, field)
    usual = KEYWORDS[field].usual if field in KEYWORDS else ""
    return bool(value != TrainConfig.model_fields[field].default and (not usual or value != usual))


def _flag(config: TrainConfig, field: str, remedy: str) -> str:
    """Return a setting as it is written on the command line, with the remedy."""
    setting = as_flag(field, getattr(config, field), TrainConfig.model_fields[field])
    return f"{setting} ({remedy})"
