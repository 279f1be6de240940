"""What can be wrong with a config, as far as it is found without ART, weights or a game played."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from arena.agents.seating import default_opponent
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.spec import shown
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.extras import require
from arena.plugins.loader import make_game
from trainers.config.config import TrainConfig
from trainers.opponents import Mix, check_spec
from trainers.prompts import system_prompt
from trainers.rewards import GroupScorer, Rewards, load_group_scorer


@dataclass(frozen=True, slots=True)
class Checked:
    """What the words of a config mean."""

    mix: Mix
    rewards: Rewards
    scorer: GroupScorer | None


def check(config: TrainConfig, settings: Settings, done: int) -> None:
    """Raises UsageError for what a run that has finished `done` steps could not do."""

    async def look() -> None:
        async with LLMService(settings, say=lambda _: None) as llm:
            checked(config, make_game(config.game, **config.options), llm, done)

    asyncio.run(look())


def checked(config: TrainConfig, game: Game, llm: LLMService, done: int) -> Checked:
    """The parts of a run that its config names. Raises UsageError, as `check` does."""
    mix = Mix.parse(config.opponents, game)
    rewards = Rewards.parse(config.reward, game, config.reward_fn)
    scorer = load_group_scorer(config.group_scorer) if config.group_scorer else None
    if config.seats == "all" and config.opponents:
        raise UsageError("--opponents: with --seats all every seat learns; leave it out")
    _check_players("--opponents", mix.others, game, llm)
    _check_players("--eval-against", evaluation_opponents(config, game), game, llm)
    _check_rewards(config, rewards, scorer)
    _check_reference(config, done)
    system_prompt(config.prompt, game)
    if config.wandb:
        require("--wandb", ("wandb",), "train")
    return Checked(mix, rewards, scorer)


def evaluation_opponents(config: TrainConfig, game: Game) -> list[str]:
    against = config.eval_against or default_opponent(game.name)
    return [spec.strip() for spec in against.split(",")]


def _check_players(
    flag: str, specs: tuple[str, ...] | list[str], game: Game, llm: LLMService
) -> None:
    for spec in dict.fromkeys(specs):
        if spec.partition(":")[0] == "human":
            raise UsageError(f"{flag} {shown(spec)}: nobody can play so many games by hand")
        check_spec(spec, game, llm)


def _check_rewards(config: TrainConfig, rewards: Rewards, scorer: GroupScorer | None) -> None:
    if scorer is None and not any(rewards.weights.values()):
        raise UsageError(f"--reward {config.reward}: all weights are 0, so nothing can be learned")
    if rewards.weights.get("claims") and not config.beliefs:
        raise UsageError(
            "--reward claims=…: nobody is asked for claims; add --beliefs (the answers are not "
            "trained: the term is a noisy signal on the moves)"
        )


def _check_reference(config: TrainConfig, done: int) -> None:
    if config.kl_reference_every and not config.kl_coef:
        raise UsageError(
            f"--kl-reference-every {config.kl_reference_every}: without --kl-coef there is no "
            "penalty, and nothing refers to it"
        )
    if config.kl_coef and config.kl_reference > done:
        raise UsageError(
            f"--kl-reference {config.kl_reference}: the run has finished {done} steps, so there "
            "are no such weights"
        )
