"""Construction of the parts of a run from its config: host, base model, games."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from arena.agents.chat import ChatOptions
from arena.core.game import Game
from arena.episodes.match import Match
from arena.llm.backend import Sampling
from arena.llm.settings import Settings
from arena.plugins.loader import catalog
from trainers.config.config import BUNDLED, TrainConfig
from trainers.hosts.host import HostFactory, HostRequest, TrainingHost
from trainers.pretrain.random_init import make_random_init
from trainers.prompts import system_prompt
from trainers.rollouts.rollouts import RolloutSetting, training_chat

BASE = "base"
"""Folder of a base model that is made from scratch, in the run's folder."""


def make_host(config: TrainConfig, folder: Path, settings: Settings) -> TrainingHost:
    """Return the host after its preflight check. Raises UsageError or MissingDependency."""

    def host_from(base: str) -> TrainingHost:
        request = HostRequest(config.model_copy(update={"base_model": base}), folder, settings)
        factory: HostFactory = catalog().load("host", config.trainer_host)
        return factory(request)

    if not starts_from_scratch(config):
        host = host_from(config.base_model)
        host.preflight()
        return host
    # The base is made after all checks. Until then the preflight must not look for its files.
    base = folder / BASE
    host = host_from(str(base))
    (host if base.exists() else host_from("")).preflight()
    return host


def starts_from_scratch(config: TrainConfig) -> bool:
    """Return whether the run starts from a small model that is made in its folder."""
    base = config.base_model or BUNDLED.get(config.game, "scratch")
    return config.trainer_host == "embedded" and base == "scratch"


def make_base(config: TrainConfig, game: Game, folder: Path, notify: Callable[[str], None]) -> None:
    """Make the base model in the run's folder if it does not exist. The folder appears complete."""
    base = folder / BASE
    if base.exists():
        return
    notify(f"making a small model that knows only the notation of {config.game}")
    # The rename at the end makes the folder appear complete. A killed run leaves only the draft,
    # which is removed here.
    part = base.with_name(f".{base.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    make_random_init(game, part, config.seed, config.text_level, notify)
    part.rename(base)


def rollout_setting(config: TrainConfig, game: Game) -> RolloutSetting:
    """Return how games are played, in training and in held-out evaluations."""
    chat = ChatOptions(
        guided=config.guided,
        beliefs=config.beliefs,
        sampling=Sampling(temperature=config.temperature, max_tokens=config.max_tokens),
        system=None
        if config.prompt == "rules"
        else system_prompt(
            config.prompt, game, turn_limit=game.turn_limit(config.max_turns or None)
        ),
    )
    match = Match(
        game,
        text_level=config.text_level,
        chat=training_chat(chat),
        max_turns=config.max_turns or None,
    )
    return RolloutSetting(
        match, config.max_concurrent, config.rollout_timeout, config.rollout_retries
    )
