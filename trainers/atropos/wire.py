"""Wire format of the trajectory API: the bodies of requests and answers, and checks of groups.

Conventions of a row, which all known trainers read in the same way:

- tokens, masks and log-probabilities have equal lengths;
- a mask is -100 where the token is not trained, and the token's id where it is;
- the log-probability is exactly 1.0 where the token is not trained, else that of sampling (<= 0);
- the token at position 0 has no predecessor that predicts it, so training it has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

MASKED = -100
"""Mask of a token that is not trained."""
NOT_SAMPLED = 1.0
"""Log-probability of a token that is not trained; no real one is positive."""

TokenId = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Size = Annotated[int, Field(ge=1)]


class WireModel(BaseModel):
    """Base of all bodies. Unknown keys are dropped, as the stock server does."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)


class TrainerRegistration(WireModel):
    """Body of POST /register."""

    wandb_group: str
    wandb_project: str
    batch_size: Size
    """Rows of a batch."""
    max_token_len: Size
    checkpoint_dir: str
    save_checkpoint_interval: int
    starting_step: Count
    num_steps: Count


class EnvRegistration(WireModel):
    """Body of POST /register-env."""

    max_token_length: Size
    desired_name: str
    weight: float
    group_size: Size
    """Rows of each group that the environment pushes."""


class EnvReference(WireModel):
    """Body of GET /status-env and of POST /disconnect-env."""

    env_id: int


class RegisteredEnv(WireModel):
    """Answer to POST /register-env after the trainer has started."""

    env_id: int
    wandb_name: str
    starting_step: int
    num_steps: int


class ServerInfo(WireModel):
    """Answer to GET /info; -1 before a trainer has registered."""

    batch_size: int
    max_token_len: int


class QueueStatus(WireModel):
    """Answer to GET /status, and to GET /status-env in units of the environment's groups."""

    current_step: int
    queue_size: int
    """Groups."""


class ScoredData(WireModel):
    """A group of G rows (sequences of tokens) with one score each; other fields are dropped.

    Raises ValueError if a row breaks one of the conventions of this module; the message names the
    field and the row.
    """

    tokens: list[list[TokenId]]
    masks: list[list[int]]
    scores: list[float]
    advantages: list[list[float]] | None = None
    """Advantages by token; None: the trainer computes one for each row from the scores."""
    generation_params: dict[str, JsonValue] | None = None
    inference_logprobs: list[list[float]] | None = None
    """Natural logarithms, of the distribution that tokens were sampled from."""
    overrides: list[dict[str, JsonValue]] | None = None
    """One for each row."""
    group_overrides: dict[str, JsonValue] | None = None
    env_id: int | None = None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.tokens)

    @model_validator(mode="after")
    def _check(self) -> ScoredData:
        if not self.tokens:
            raise ValueError("tokens: the group has no rows")
        for name in ("masks", "scores", "advantages", "inference_logprobs", "overrides"):
            # Absent fields are None and pass.
            _check_length(name, getattr(self, name), self.size, "rows, but tokens has")
        for row in range(self.size):
            self._check_row(row)
        return self

    def _check_row(self, row: int) -> None:
        tokens, masks = self.tokens[row], self.masks[row]
        for name in ("masks", "advantages", "inference_logprobs"):
            if (rows := getattr(self, name)) is not None:
                where = f"{name}, row {row}"
                _check_length(where, rows[row], len(tokens), "entries, but tokens has")
        # A mask of 0 or 1 would be read as the id of a trained token.
        for place, (token, mask) in enumerate(zip(tokens, masks, strict=True)):
            if mask not in (MASKED, token):
                raise ValueError(
                    f"masks, row {row}, position {place}: {mask} is neither {MASKED} nor the token "
                    f"{token}"
                )
        # Trainers divide by the number of trained tokens, and some fail on a row without any.
        if all(mask == MASKED for mask in masks[1:]):
            raise ValueError(f"masks, row {row}: no token after position 0 is trained")
        if self.inference_logprobs is not None:
            _check_logprobs(self.inference_logprobs[row], masks, row)


def _check_length(where: str, values: Sequence[Any] | None, length: int, than: str) -> None:
    if values is not None and len(values) != length:
        raise ValueError(f"{where}: {len(values)} {than} {length}")


def _check_logprobs(logprobs: Sequence[float], masks: Sequence[int], row: int) -> None:
    # Some trainers select tokens by `mask != -100`, others by `logprob != 1.0`: both must agree.
    for place, (logprob, mask) in enumerate(zip(logprobs, masks, strict=True)):
        if (logprob == NOT_SAMPLED) if mask == MASKED else (logprob <= 0):
            continue
        fault = (
            f"of a masked token; write {NOT_SAMPLED}"
            if mask == MASKED
            else "of a trained token is above 0"
        )
        raise ValueError(f"inference_logprobs, row {row}, position {place}: {logprob} {fault}")
