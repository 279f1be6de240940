"""Checks of a config that need neither ART nor weights nor a game."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from arena.agents.seating import default_opponent
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.spec import Spec, redacted, split_specs
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.extras import require
from arena.plugins.loader import make_game
from trainers.config.config import TrainConfig
from trainers.opponents import OpponentMix, check_spec
from trainers.prompts import system_prompt
from trainers.rewards import GroupScorer, Rewards, load_group_scorer


@dataclass(frozen=True, slots=True)
class ParsedConfig:
    """Parts of a run that a config names by text."""

    mix: OpponentMix
    rewards: Rewards
    scorer: GroupScorer | None


def check_config(config: TrainConfig, settings: Settings, done: int) -> None:
    """Raise UsageError if a run that has finished `done` steps cannot continue with this config."""

    async def parse() -> None:
        async with LLMService(settings, notify=lambda _: None) as llm:
            parse_config(config, make_game(config.game, **config.options), llm, done)

    asyncio.run(parse())


def parse_config(config: TrainConfig, game: Game, llm: LLMService, done: int) -> ParsedConfig:
    """Return the parts of a run that its config names. Raises UsageError as `check_config` does."""
    mix = OpponentMix.parse(config.opponents, game)
    rewards = Rewards.parse(config.reward, game, config.reward_fn)
    scorer = load_group_scorer(config.group_scorer) if config.group_scorer else None
    if config.seats == "all" and config.opponents:
        raise UsageError("--opponents: with --seats all every seat learns; leave it out")
    _check_players("--opponents", mix.specs, game, llm)
    _check_players("--eval-against", evaluation_opponents(config, game), game, llm)
    _check_rewards(config, rewards, scorer)
    _check_reference(config, done)
    # Called for its errors only: an unknown name, or a file that cannot be read.
    system_prompt(config.prompt, game)
    if config.wandb:
        require("--wandb", ("wandb",), "train")
    return ParsedConfig(mix, rewards, scorer)


def check_device(device: str) -> None:
    """Raise UsageError for a --device that does not exist here."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise UsageError(f"--device {device}: choose auto, cpu, cuda or cuda:NUMBER")
    if device.startswith("cuda"):
        import torch

        if not torch.cuda.is_available():
            raise UsageError(f"--device {device}: torch finds no CUDA device; leave the flag out")


def evaluation_opponents(config: TrainConfig, game: Game) -> list[str]:
    """Return the SPECs of --eval-against, by default the game's default opponent."""
    against = config.eval_against or default_opponent(game)
    return split_specs(against)


def _check_players(
    flag: str, specs: tuple[str, ...] | list[str], game: Game, llm: LLMService
) -> None:
    # Each SPEC once, in the order of the flag.
    for spec in dict.fromkeys(specs):
        if Spec.parse(spec).is_human:
            raise UsageError(f"{flag} {redacted(spec)}: a person cannot play that many games")
        check_spec(spec, game, llm)


def _check_rewards(config: TrainConfig, rewards: Rewards, scorer: GroupScorer | None) -> None:
    if scorer is None and not any(rewards.weights.values()):
        raise UsageError(
            f"--reward {config.reward}: all weights are 0, so there is nothing to learn"
        )
    if rewards.weights.get("claims") and not config.beliefs:
        raise UsageError(
            "--reward claims=…: the learner is not asked for claims; add --set beliefs=true (its "
            "answers are not trained: the term is a noisy signal on the moves)"
        )


def _check_reference(config: TrainConfig, done: int) -> None:
    if config.kl_reference_every and not config.kl_coef:
        raise UsageError(
            f"kl_reference_every={config.kl_reference_every}: without --kl-coef there is no "
            "penalty that uses the reference"
        )
    if config.kl_coef and config.kl_reference > done:
        raise UsageError(
            f"kl_reference={config.kl_reference}: the run has finished {done} steps, so "
            "these weights do not exist"
        )
