"""Checks of a config, and the parts of a run that it describes: host, base model, games."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from arena.agents.agent import Seat
from arena.agents.chat import ChatOptions, system_prompt
from arena.agents.seating import default_opponent, make_agent
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.spec import Spec, redacted, split_specs
from arena.episodes.match import Match
from arena.llm.backend import Sampling
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.catalog import catalog, make_game
from trainers.config.config import NOTEBOOK, REPLY_TOKENS, GameSettings, TrainConfig
from trainers.credit import Credit
from trainers.hosts.host import HostFactory, HostRequest, TrainingHost
from trainers.pretrain.pretrain import CHECKPOINT, CurvePoint, pretrain, random_init_recipe
from trainers.pretrain.recipe import make_recipe
from trainers.rewards import Rewards
from trainers.rollouts.rollouts import OpponentMix, RolloutSetting, training_chat
from trainers.runs.wandb_log import require_wandb


@dataclass(frozen=True, slots=True)
class ParsedConfig:
    """Parts of a run that a config names by text."""

    mix: OpponentMix
    rewards: Rewards
    credit: Credit


def check_config(config: TrainConfig, settings: Settings) -> None:
    """Raise UsageError if a run is not possible with this config."""

    async def parse() -> None:
        async with LLMService(settings, config.limits, notify=lambda _: None) as llm:
            parse_config(config, make_game(config.game, **config.options), llm)

    asyncio.run(parse())


def parse_config(config: TrainConfig, game: Game, llm: LLMService) -> ParsedConfig:
    """Return the parts of a run that its config names. Raises UsageError as `check_config` does."""
    mix = OpponentMix.parse(config.opponents, game)
    credit, rewards = credited_rewards(config, game)
    if config.self_play and config.opponents:
        raise UsageError(
            f"--opponents {redacted(config.opponents)}: with --self-play every seat learns; leave "
            "one of them out"
        )
    if config.self_play and game.num_players == 1:
        raise UsageError(f"--self-play: {game.name} has one seat; leave it out")
    _check_players("--opponents", mix.specs, game, llm)
    _check_players("--eval-against", evaluation_opponents(config, game), game, llm)
    if not any(rewards.weights.values()):
        raise UsageError(
            f"--reward {config.reward}: all weights are 0, so there is nothing to learn"
        )
    # Called for its errors only: an unknown name, or a file that cannot be read.
    system_prompt(config.prompt, game)
    if config.wandb:
        require_wandb()
    return ParsedConfig(mix, rewards, credit)


def credited_rewards(config: TrainConfig, game: Game) -> tuple[Credit, Rewards]:
    """Return the credit and the reward of a run. Raises UsageError."""
    credit = Credit.parse(config, game)
    return credit, Rewards.parse(config.reward, game, config.reward_fn, credit=credit.name)


def evaluation_opponents(config: TrainConfig, game: Game) -> list[str]:
    """Return the SPECs of --eval-against, by default the game's default opponent."""
    return split_specs(config.eval_against or default_opponent(game))


def _check_players(flag: str, specs: Iterable[str], game: Game, llm: LLMService) -> None:
    # Each SPEC once, in the order of the flag.
    for spec in dict.fromkeys(specs):
        if Spec.parse(spec).is_human:
            raise UsageError(f"{flag} {redacted(spec)}: a person cannot play that many games")
        # Called for its errors only: an unknown agent, or a model without its API key.
        make_agent(spec, Seat(game, 0, random.Random(0), llm=llm))


BASE = "base"
"""Folder of a base model that is made from scratch, in the run's folder."""


def make_host(config: TrainConfig, folder: Path, settings: Settings) -> TrainingHost:
    """Return the host after its preflight check. Raises UsageError or MissingDependency."""

    def host_from(base: str) -> TrainingHost:
        request = HostRequest(config.model_copy(update={"base_model": base}), folder, settings)
        factory: HostFactory = catalog().load("host", config.trainer_host)
        return factory(request)

    if not config.starts_from_scratch:
        host = host_from(config.base_model)
        host.preflight()
        return host
    # The base is made after all checks. Until then the preflight must not look for its files.
    base = folder / BASE
    host = host_from(str(base))
    (host if base.exists() else host_from("")).preflight()
    return host


def make_base(
    config: TrainConfig,
    game: Game,
    folder: Path,
    notify: Callable[[str], None],
    progress: Callable[[str, int, int], None],
) -> None:
    """Make the base model of a run from scratch if it does not exist; a killed run continues it.

    `progress` is called with the part of the work, its finished steps and all of them.
    """
    base = folder / BASE
    if base.exists() or not config.starts_from_scratch:
        return
    part = base.with_name(f".{base.name}.part")
    if config.base_model == NOTEBOOK:
        notify(f"making a small model that writes down what follows in {config.game} (`{part}`)")
        recipe = make_recipe(config.game, seed=config.seed, options=config.options, notebook=True)
    else:
        notify(f"making a small model that knows only the notation of {config.game}")
        recipe = random_init_recipe(game, config.seed, config.text_level)

    def show(point: CurvePoint) -> None:
        stage = f"training, part {point.stage + 1} of {len(recipe.stages)}"
        progress(stage, point.step, point.of)
        if point.held_out is not None:
            notify(str(point))

    if not (resume := (part / CHECKPOINT).exists()):
        shutil.rmtree(part, ignore_errors=True)
    pretrain(recipe, part, show, resume)
    # The rename makes the folder appear complete. A killed run leaves only the draft.
    part.rename(base)


def rollout_setting(config: GameSettings, game: Game, rewards: Rewards) -> RolloutSetting:
    """Return how games of training are played; held-out games have another temperature."""
    chat = ChatOptions(
        guided=config.guided,
        sampling=Sampling(
            temperature=config.temperature, max_tokens=config.max_tokens or REPLY_TOKENS
        ),
        system=None
        if config.prompt == "rules"
        else system_prompt(config.prompt, game, turn_limit=game.turn_limit()),
    )
    return RolloutSetting(Match(game, text_level=config.text_level, chat=training_chat(chat)))
