"""One canonical mapping of the training config onto the keywords of a host's `train`.

Hosts differ in what they can do: ART's serverless trainer knows no KL penalty, the local one no
gradient norm. What a host's signature knows is passed. What it does not know is left out as long as
it stands at its default, and refused as soon as it does not: a run never trains with less than
what was asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from arena.core.errors import UsageError
from trainers.config.config import TrainConfig


@dataclass(frozen=True, slots=True)
class Keyword:
    """How a setting may be called by a host, and what to do with one that has no word for it."""

    names: tuple[str, ...]
    """ART's keywords that mean this; the first that the host knows is used."""
    instead: str = "leave it out"
    """What a person can do on a host that does not know it."""
    optional: bool = False
    """The default means ART's own default, so it is not passed."""


EMBEDDED_ONLY = "leave it out, or take --host embedded"
WITH_KL = "leave it out, or take --host embedded or local"

KEYWORDS: Mapping[str, Keyword] = {
    "learning_rate": Keyword(("learning_rate",)),
    "loss": Keyword(("loss_fn", "ppo")),
    "clip_eps": Keyword(("epsilon",), optional=True),
    "clip_eps_high": Keyword(("epsilon_high",), optional=True),
    "kl_coef": Keyword(("kl_penalty_coef",), WITH_KL),
    "kl_reference": Keyword(("kl_penalty_reference_step",), WITH_KL),
    "advantage_balance": Keyword(("advantage_balance",)),
    "scale_advantages": Keyword(("scale_rewards", "normalize_advantages")),
    "importance_level": Keyword(("importance_sampling_level",)),
    "truncated_importance": Keyword(
        ("truncated_importance_sampling",),
        "use --max-negative-weight, or take --host embedded or local",
        optional=True,
    ),
    "max_negative_weight": Keyword(
        ("max_negative_advantage_importance_sampling_weight",), optional=True
    ),
    "mask_prob_ratio": Keyword(("mask_prob_ratio",)),
    "kimi_k2_tau": Keyword(("kimi_k2_tau",), optional=True),
    "minibatches": Keyword(("minibatches",), EMBEDDED_ONLY),
    "tokens_per_batch": Keyword(("tokens_per_batch",), EMBEDDED_ONLY),
    "max_grad_norm": Keyword(("max_grad_norm",), EMBEDDED_ONLY),
    "weight_decay": Keyword(("weight_decay",), EMBEDDED_ONLY),
    "threads": Keyword(("threads",), EMBEDDED_ONLY),
    "warmup_steps": Keyword(("warmup_steps",), EMBEDDED_ONLY),
}
"""Every field of TrainConfig that decides an update."""


def train_arguments(
    config: TrainConfig,
    train: Callable[..., object],
    *,
    host: str = "this host",
    fixed: Mapping[str, Any] | None = None,
    elsewhere: Collection[str] = (),
) -> dict[str, Any]:
    """The keyword arguments of `train` (ART's `Backend.train` of a host) that the config means.

    `fixed` are keywords whose value the host decides itself; they win. `elsewhere` are fields of
    the config that the host obeys without `train`, for example when the model is loaded. Raises
    UsageError, which names the flags, for all wishes that this host cannot fulfil.
    """
    known = _keywords(train)
    arguments: dict[str, Any] = {}
    refused: list[str] = []
    for field, keyword in KEYWORDS.items():
        value, changed = getattr(config, field), differs(config, field)
        name = next((name for name in keyword.names if name in known), None)
        if name is None and known.accepts_any and changed:
            name = keyword.names[0]
        if name is not None and (changed or not keyword.optional):
            arguments[name] = value == "ppo" if name == "ppo" else value
        elif name is None and changed and field not in elsewhere:
            refused.append(refusal(config, field, keyword.instead))
    refuse(host, refused)
    return arguments | dict(fixed or {})


def differs(config: TrainConfig, field: str) -> bool:
    """Whether the setting is another than the default."""
    return bool(getattr(config, field) != TrainConfig.model_fields[field].default)


def refusal(config: TrainConfig, field: str, instead: str) -> str:
    """A wish that cannot be fulfilled, in the words of the command line."""
    flag, value = field.replace("_", "-"), getattr(config, field)
    if isinstance(value, bool):
        return f"--{'' if value else 'no-'}{flag} ({instead})"
    return f"--{flag} {value} ({instead})"


def refuse(host: str, refused: Collection[str]) -> None:
    """Raises UsageError with all of them, if there are any."""
    if refused:
        raise UsageError(f"{host} cannot do: {'; '.join(refused)}")


@dataclass(frozen=True, slots=True)
class _Known:
    names: frozenset[str]
    accepts_any: bool

    def __contains__(self, name: str) -> bool:
        return name in self.names


def _keywords(train: Callable[..., object]) -> _Known:
    """What `train` can be called with by name."""
    parameters = inspect.signature(train).parameters.values()
    return _Known(
        frozenset(each.name for each in parameters if each.kind is each.KEYWORD_ONLY),
        any(each.kind is each.VAR_KEYWORD for each in parameters),
    )
