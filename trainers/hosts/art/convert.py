"""ART's own classes (openpipe-art 0.5.18), and our trajectories and settings as ART's.

The import takes seconds, loads transformers and torch, and patches transformers, so only modules
that need ART import this one, and no other imports ART first. `art.local` is never imported here:
it changes the start method of processes and patches asyncio.

In ART the tokens of `Choice`s with log-probabilities are trained, and everything else is context. A
chat that was restarted or shortened is another history of the trajectory. Our own servers report
two log-probabilities per token; the field `policy_logprob` holds the second one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock, patch

from pydantic import JsonValue

from arena.core.errors import ArenaError
from arena.plugins.catalog import require
from trainers.config.config import TrainConfig, UpdateOptions
from trainers.trajectory import Trajectory, TrajectoryGroup, Turn

if TYPE_CHECKING:
    from art.dev import InternalModelConfig

PACKAGE = "megatron"


def import_model_config() -> None:
    """Import the part of ART that needs megatron, with a stand-in if it is not installed."""
    if find_spec(PACKAGE) is not None:
        return
    finder = _MegatronFinder()
    sys.meta_path.insert(0, finder)
    try:
        import_module("art.dev.get_model_config")
    finally:
        # Other code must not take megatron for installed. ART keeps its references to the mocks.
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_megatron(name)]:
            del sys.modules[name]


def _is_megatron(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


class _MegatronFinder(MetaPathFinder, Loader):
    """Finds `megatron` and any module below it; each name in them is a mock, never called."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if _is_megatron(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module: ModuleType = MagicMock(name=spec.name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the attributes are made when they are read."""


require("ART", ("art", "openai", "torch", "transformers"), "art")


QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # Without it, prices are fetched at import.
    "PYTHON_DOTENV_DISABLED": "1",
    "TQDM_DISABLE": "1",
}
"""Environment in which ART is imported: no network, no progress bars, no search for `.env`."""
with patch.dict(os.environ, QUIET):
    from art import TrainableModel
    from art import Trajectory as ArtTrajectory
    from art import TrajectoryGroup as ArtGroup
    from art.trajectories import History
    from art.types import TrainResult
    from openai.types.chat.chat_completion import Choice

# ART's, for modules that must not import it first.
__all__ = [
    "ArtGroup",
    "ArtTrajectory",
    "Choice",
    "History",
    "TrainResult",
    "TrainableModel",
    "art_folder",
    "import_model_config",
    "to_art",
    "trainable_model",
    "update_to_art",
]

OPENAI_FINISH_REASONS = frozenset({"stop", "length", "content_filter", "tool_calls"})


class UnreportedModel(TrainableModel[None, dict[str, Any]]):
    """A model for which ART opens no run at wandb.ai.

    ART opens one as soon as WANDB_API_KEY is set, and fails when W&B is offline or disabled. In
    arena only `--wandb` decides whether a run is logged there.
    """

    def _get_wandb_run(self) -> None:
        return None


def art_folder(folder: Path) -> Path:
    """Return ART's base path in a run's folder."""
    return folder / "art"


def trainable_model(
    config: TrainConfig,
    folder: Path,
    base_model: str,
    *,
    entity: str | None = None,
    internal: InternalModelConfig | None = None,
) -> UnreportedModel:
    """Return the model of a run, not yet registered; ART writes into `folder`/art.

    `entity` is the team at wandb.ai, `internal` ART's settings of the adapter and of vLLM.
    """
    # As a dict: type checkers take ART's private attributes for required arguments.
    fields: dict[str, Any] = {
        "name": config.experiment,
        "project": config.project,
        "entity": entity,
        "base_model": base_model,
        "base_path": f"{art_folder(folder)}",
        "report_metrics": [],
        "_internal_config": internal,
    }
    return UnreportedModel(**fields)


def to_art(group: TrajectoryGroup) -> ArtGroup:
    """Return the group as ART's. Rewards and advantages of turns are lost."""
    return ArtGroup(
        [_trajectory_to_art(each) for each in group.trajectories],
        exceptions=[ArenaError(reason) for reason in group.failures],
    )


def update_to_art(update: UpdateOptions, host: str) -> dict[str, JsonValue]:
    """Return the keyword arguments of `train` of the ART backend of the host `local`, or another.

    Settings that it lacks are refused by the host's preflight.
    """
    keywords: dict[str, JsonValue] = {
        "learning_rate": update.learning_rate,
        # Divided by the group's standard deviation, advantages have another optimum:
        # `trainers.credit`.
        "scale_rewards": False,
    }
    if host != "local":
        return keywords | {"ppo": update.loss_fn == "ppo"}
    keywords |= {"loss_fn": update.loss_fn, "kl_penalty_coef": update.kl_penalty_coef}
    if update.kl_penalty_coef:
        keywords["kl_penalty_reference_step"] = update.kl_penalty_reference_step
    return keywords


def _trajectory_to_art(trajectory: Trajectory) -> ArtTrajectory:
    # ART's trajectory has one main history; a seat that never decided has an empty one.
    first, *others = [_items(chat) for chat in trajectory.chats()] or [[]]
    result = ArtTrajectory(
        messages_and_choices=first,
        additional_histories=[History(messages_and_choices=items) for items in others],
        reward=trajectory.reward,
        metrics=dict(trajectory.metrics),
        metadata={
            "seed": trajectory.seed,
            "seat": trajectory.seat,
            "won": trajectory.won,
        },
    )
    if versions := trajectory.versions:
        result.initial_policy_version, result.final_policy_version = versions[0], versions[-1]
    return result


def _items(chat: Sequence[Turn]) -> list[Any]:
    items: list[Any] = []
    for turn in chat:
        items += [{"role": one.role, "content": one.content} for one in turn.messages]
        items.append(choice_of(turn))
    return items


def choice_of(turn: Turn) -> Choice:
    """Return the answer as OpenAI's class, with the ids of the prompt and of the sampled tokens."""
    tokens: list[JsonValue] = [
        {
            "token": f"token_id:{token.id}",
            "logprob": token.logprob,
            "bytes": None,
            "top_logprobs": [],
            "policy_logprob": token.policy_logprob,
        }
        for token in turn.tokens
    ]
    # OpenAI's class rejects reasons that it does not know.
    known = turn.finish_reason in OPENAI_FINISH_REASONS
    return Choice.model_validate(
        {
            "index": 0,
            "finish_reason": turn.finish_reason if known else "stop",
            "message": {"role": "assistant", "content": turn.text},
            "logprobs": {"content": tokens},
            "prompt_token_ids": list(turn.prompt_ids),
        }
    )
