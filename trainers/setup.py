"""From a config to what a run is made of: the host, how games are played, how it is measured."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from arena.agents.prompt import ChatOptions
from arena.core.game import Game
from arena.llm.backend import Sampling
from arena.llm.settings import Settings
from arena.plugins.loader import catalog
from trainers.checks import evaluation_opponents
from trainers.config.config import TrainConfig
from trainers.heldout_eval import FINAL, HeldOut
from trainers.hosts.host import HostRequest, TrainingHost
from trainers.pretrain.random_init import scratch_model
from trainers.prompts import system_prompt
from trainers.rollouts import Table, training_chat

SHIPPED = {"cluedo": "clue-tiny"}
"""Games for which a checkpoint comes with the package; for others a run begins from scratch."""
BASE = "base"
"""The folder of that model, in the run's."""


def make_host(config: TrainConfig, folder: Path, settings: Settings) -> TrainingHost:
    """The host, after its preflight. Raises UsageError or MissingDependency."""

    def host_from(base: str) -> TrainingHost:
        request = HostRequest(config.model_copy(update={"base_model": base}), folder, settings)
        host: TrainingHost = catalog().load("host", config.host)(request)
        return host

    if not from_scratch(config):
        host = host_from(config.base_model)
        host.preflight()
        return host
    # The base is made when nothing can be wrong any more; until then it is not looked for.
    base = folder / BASE
    host = host_from(str(base))
    (host if base.exists() else host_from("")).preflight()
    return host


def from_scratch(config: TrainConfig) -> bool:
    """Whether the run starts from a small model that is made in its folder."""
    wish = config.base_model or SHIPPED.get(config.game, "scratch")
    return config.host == "embedded" and wish == "scratch"


def make_base(config: TrainConfig, game: Game, folder: Path, say: Callable[[str], None]) -> None:
    """Make the model from scratch, in the run's folder; it is there entirely or not at all."""
    base = folder / BASE
    if base.exists():
        return
    say(f"making a small model that knows the notation of {config.game}, and nothing else")
    draft = base.with_name(f".{base.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    scratch_model(game, draft, config.seed, config.text_level, say)
    draft.rename(base)


def table(config: TrainConfig, game: Game) -> Table:
    """How games are played, in training and in evaluations."""
    chat = ChatOptions(
        guided=config.guided,
        beliefs=config.beliefs,
        sampling=Sampling(temperature=config.temperature, max_tokens=config.answer_tokens),
        system=None if config.prompt == "rules" else system_prompt(config.prompt, game),
    )
    return Table(
        game,
        config.text_level,
        training_chat(chat),
        config.max_turns or None,
        config.max_concurrent,
        config.rollout_timeout,
        config.rollout_retries,
    )


def held_out(config: TrainConfig, table: Table, folder: Path, first_seed: int) -> HeldOut:
    """The deals of an evaluation: PERIODIC ones, or the FINAL ones."""
    return HeldOut(
        table,
        evaluation_opponents(config, table.game),
        config.final_eval_games if first_seed == FINAL else config.eval_games,
        first_seed,
        folder,
    )
