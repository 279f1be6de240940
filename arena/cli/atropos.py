"""`arena atropos`: environments and a trainer of Atropos' trajectory API.

Flags have the names of atroposlib where it has one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import JsonValue, SecretStr

from arena.cli.options import GameSetupOptions
from arena.core.errors import UsageError
from arena.llm.config import Config, setting
from arena.llm.settings import Settings
from arena.plugins.catalog import require
from trainers.config.config import TrainConfig
from trainers.config.presets import settled

if TYPE_CHECKING:
    from arena.llm.service import LLMService
    from trainers.atropos.environment import EnvironmentOptions
    from trainers.atropos.group_player import GroupPlayer

RESTART_PATIENCE = 300.0
"""Seconds to wait for a server that does not answer: a trainer may restart the model's."""


class OpenAIOptions(Config):
    """The OpenAI-compatible server of the model that learns."""

    base_url: str = setting("http://127.0.0.1:5001/v1", flag="--openai.base_url")
    """URL of the model's server, …/v1."""
    served_model: str = setting("", flag="--openai.model_name")
    """Its name there. Default: the newest adapter NAME@STEP, else the first model."""
    api_key: str = setting("", flag="--openai.api_key", variable="ARENA_OPENAI_API_KEY")
    """Its key; also ARENA_OPENAI_API_KEY."""
    server_type: str = setting("vllm", flag="--openai.server_type")
    """vllm or openai: the same calls for both."""
    timeout: float = setting(1200.0, flag="--openai.timeout", ge=1)
    """Seconds for one answer."""
    max_requests: int = setting(512, flag="--openai.num_max_requests_at_once", ge=1)
    """Requests in flight."""

    @property
    def url(self) -> str:
        """The base URL with the path of the API. Raises UsageError."""
        if self.server_type not in {"vllm", "openai"}:
            raise UsageError(
                f"--openai.server_type {self.server_type}: choose vllm or openai; other servers do "
                "not report the ids of tokens"
            )
        url = self.base_url.rstrip("/")
        return url if url.endswith("/v1") else f"{url}/v1"

    def add_to(self, llm: LLMService, games: int) -> None:
        """Register the model as the learner. Raises UsageError."""
        require("arena atropos", ("httpx",), "models")
        from backends.openai_http import HTTPBackend, check_url
        from trainers.atropos.group_player import NewestModel
        from trainers.rollouts.rollouts import NEWEST

        # A game has one request in flight at most.
        limits = llm.settings.service.limits("http").model_copy(
            update={
                "concurrency": max(1, min(self.max_requests, games)),
                "call_timeout": self.timeout,
                "read_timeout": self.timeout,
            }
        )
        key = SecretStr(self.api_key) if self.api_key else llm.settings.secret("ARENA_API_KEY")
        server = HTTPBackend(check_url(self.url), self.served_model, limits, key)
        learner = server if self.served_model else NewestModel(server)
        llm.add(NEWEST, learner, is_trained=True)


class EnvironmentFlags(Config):
    """The trajectory API, and how much to play for it."""

    max_token_length: int = setting(2048, flag="--env.max_token_length", ge=1)
    """Rows must be shorter, in tokens."""
    max_num_workers: int = setting(8, flag="--env.max_num_workers_per_node", ge=1)
    """Groups in play at once."""
    rollout_server_url: str = setting(
        "http://127.0.0.1:8000", flag="--rollout-server-url/--env.rollout_server_url"
    )
    """The trajectory API: atroposlib's run-api."""
    env_steps: int = setting(1000, flag="--env.total_steps", ge=-1)
    """Batches. -1: the trainer's number."""
    max_batches_offpolicy: int = setting(3, flag="--env.max_batches_offpolicy", ge=1)
    """Batches that may wait."""
    wandb_name: str = setting("", flag="--env.wandb_name")
    """Name at the API. Default: the game."""
    different_scores: bool = setting(
        True, flag="--env.ensure_scores_are_not_same/--env.no-ensure_scores_are_not_same"
    )
    """Drop groups with equal scores."""

    def environment_options(self, game: str, group_size: int) -> EnvironmentOptions:
        """Return the options of the environment."""
        from trainers.atropos.environment import EnvironmentOptions
        from trainers.atropos.wire import EnvRegistration

        return EnvironmentOptions(
            EnvRegistration(
                max_token_length=self.max_token_length,
                desired_name=self.wandb_name or game,
                weight=1.0,
                group_size=group_size,
            ),
            total_steps=self.env_steps,
            max_num_workers=self.max_num_workers,
            max_batches_offpolicy=self.max_batches_offpolicy,
        )


class TrajectoryServeOptions(GameSetupOptions, EnvironmentFlags, OpenAIOptions, TrainConfig):
    """Options of `arena atropos serve`: the players, the reward and the sampling."""

    short_help = (
        "players option text_level rollout_server_url rollouts_per_group env_steps self_play "
        "opponents reward max_tokens seed base_url"
    )
    help_examples = (
        "arena atropos serve cluedo --openai.base_url http://127.0.0.1:5001/v1",
        "arena atropos serve kuhn_poker --env.group_size 8 --env.total_steps 100",
    )
    own_flags: ClassVar[Mapping[str, str | bool]] = {
        **dict.fromkeys(TrainConfig.settings(), False),
        **dict.fromkeys(("self_play", "opponents", "reward", "reward_fn", "prompt"), True),
        **dict.fromkeys(("text_level", "max_turns", "max_tokens", "temperature", "seed"), True),
        "guided": "--guided/--free",
        "rollouts_per_group": "--env.group_size",
        "rollout_timeout": "--env.worker_timeout",
    }
    own_defaults: ClassVar[Mapping[str, JsonValue]] = {
        "rollouts_per_group": 4,
        "rollout_timeout": 600.0,
    }


def serve(options: TrajectoryServeOptions) -> int:
    """Play games with a served model, and push groups of them to a trajectory API.

    Each group holds the games of one deal in one seat.
    """
    from trainers.atropos.client import TrajectoryClient
    from trainers.atropos.environment import TrajectoryEnvironment

    settings, config = Settings.load(), learner_config(options)

    def notify(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    async def play() -> None:
        player, llm = make_player(config, options, settings)
        client = TrajectoryClient(options.rollout_server_url, RESTART_PATIENCE, notify)
        limits = options.environment_options(config.game, config.rollouts_per_group)
        environment = TrajectoryEnvironment(client, player, limits, notify)
        try:
            await environment.run()
        finally:
            await client.close()
            await llm.close()
            notify(str(environment.counts))

    asyncio.run(play())
    return 0


def learner_config(options: TrajectoryServeOptions) -> TrainConfig:
    """Return the settings of the games. Raises UsageError."""
    config = options.part(TrainConfig)
    return settled(config.model_copy(update={"options": options.game_options()}))


def _patient(settings: Settings) -> Settings:
    """Return the settings with enough patience for a server that restarts with new weights."""
    service = settings.service
    if "patience" in service.model_fields_set:
        return settings
    patient = service.model_copy(update={"patience": RESTART_PATIENCE})
    return settings.model_copy(update={"service": patient})


def make_player(
    config: TrainConfig, options: TrajectoryServeOptions, settings: Settings
) -> tuple[GroupPlayer, LLMService]:
    """Return the player of groups and its service, which the caller closes. Raises UsageError."""
    from arena.llm.service import LLMService
    from trainers.atropos.group_player import GroupPlayer

    game = options.make_game()
    llm = LLMService.limited(config.limits, _patient(settings))
    games = config.rollouts_per_group * options.max_num_workers * game.num_players
    options.add_to(llm, games)
    player = GroupPlayer(config, game, llm, keep_equal=not options.different_scores)
    return player, llm
