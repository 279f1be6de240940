"""`arena atropos`: environments and a trainer of Atropos' trajectory API.

Flags have the names of atroposlib where it has one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import JsonValue, SecretStr

from arena.cli.options import GameSetupOptions, OutputOptions
from arena.cli.train import conduct, let_threads_sleep
from arena.core.errors import UsageError
from arena.llm.config import Config, setting
from arena.llm.settings import Settings
from arena.plugins.catalog import require
from backends.embedded import find_checkpoint
from trainers.atropos.options import GAME, TRAINER_SETTINGS, BatchOptions, EnvironmentOptions
from trainers.config.config import FULL_WEIGHTS, OWNED_SERVERS, TrainConfig, settled
from trainers.hosts.host import check_used
from trainers.runs.training_run import plan_run

if TYPE_CHECKING:
    from arena.llm.service import LLMService
    from trainers.atropos.group_player import GroupPlayer
    from trainers.loop.training import TrainingView
    from trainers.runs.records import RunFiles, RunState

RESTART_PATIENCE = 300.0
"""Seconds to wait for a server that does not answer: a trainer may restart the model's."""

ANSWER_SECONDS = 1200.0
"""Time for one answer."""


class OpenAIOptions(Config):
    """The OpenAI-compatible server of the model that learns."""

    base_url: str = setting("http://127.0.0.1:5001/v1", flag="--openai.base_url")
    """URL of the model's server, …/v1."""
    served_model: str = setting("", flag="--openai.model_name")
    """Its name there. Default: the newest adapter NAME@STEP, else the first model."""
    api_key: str = setting("", flag="--openai.api_key", variable="ARENA_OPENAI_API_KEY")
    """Its key; also ARENA_OPENAI_API_KEY."""

    @property
    def url(self) -> str:
        """The base URL with the path of the API."""
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
                "concurrency": games,
                "call_timeout": ANSWER_SECONDS,
                "read_timeout": ANSWER_SECONDS,
            }
        )
        key = SecretStr(self.api_key) if self.api_key else llm.settings.secret("ARENA_API_KEY")
        server = HTTPBackend(check_url(self.url), self.served_model, limits, key)
        learner = server if self.served_model else NewestModel(server)
        llm.add(NEWEST, learner, is_trained=True)


class TrajectoryServeOptions(GameSetupOptions, EnvironmentOptions, OpenAIOptions, TrainConfig):
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
        **dict.fromkeys(("text_level", "max_tokens", "temperature", "seed"), True),
        "guided": "--guided/--free",
        "rollouts_per_group": "--env.group_size",
    }
    own_defaults: ClassVar[Mapping[str, JsonValue]] = {"rollouts_per_group": 4}


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
        environment = TrajectoryEnvironment(client, player, options, notify)
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
    llm = LLMService(_patient(settings), config.limits)
    games = config.rollouts_per_group * options.max_num_workers * game.num_players
    options.add_to(llm, games)
    keep_equal, timeout = not options.different_scores, options.worker_timeout
    player = GroupPlayer(config, game, llm, keep_equal=keep_equal, timeout=timeout)
    return player, llm


class TrajectoryTrainOptions(BatchOptions, OutputOptions, TrainConfig):
    """Options of `arena atropos train`: flags have the names of atropos-grpo too."""

    short_help = (
        "base_model url batch_size accumulation weight_sync server steps learning_rate lora_rank "
        "device log_dir"
    )
    help_examples = (
        "arena atropos train --model-name FOLDER --training-steps 20",
        "arena atropos train --model clue-tiny --server vllm --weight-sync lora_only",
    )
    own_flags: ClassVar[Mapping[str, str | bool]] = {
        **dict.fromkeys(TrainConfig.settings(), False),
        "base_model": "--model-name/--model",
        "weight_sync": "--weight-bridge-mode/--weight-sync",
        "sync_every": "--vllm-restart-interval/--sync-every",
        "steps": "--training-steps/--steps",
        "learning_rate": "--lr/--learning-rate",
        "lora_rank": "--lora-r/--lora-rank",
        "log_dir": "--save-path/--log-dir",
        "gradient_checkpointing": "--gradient-checkpointing",
        **dict.fromkeys(("server", "vllm_port", "vllm_python", "vllm_args"), True),
        **dict.fromkeys(("tokens_per_batch", "device", "seed", "experiment_name"), True),
    }
    # Defaults of atropos-grpo where they differ; 9001 is the port of the server that it expects.
    own_defaults: ClassVar[Mapping[str, JsonValue]] = {
        "game": GAME,
        "steps": 10,
        "learning_rate": 1e-5,
        "vllm_port": 9001,
        "experiment_name": "atropos",
        "trainer_host": "embedded",
        "loss": "ppo",
    }


def train(options: TrajectoryTrainOptions) -> int:
    """Train a model on batches of a trajectory API, and keep the server's weights up to date.

    The same command resumes an interrupted run. With ARENA_API_KEY set, it is sent to the model's
    server as a bearer token.
    """
    config, batches = _training_config(options), options.part(BatchOptions)
    plan, settings = plan_run(config), Settings.load()
    let_threads_sleep()
    from trainers.atropos.trainer import train_from_batches

    async def start(files: RunFiles, view: TrainingView) -> RunState:
        return await train_from_batches(
            config, batches, folder=files.folder, view=view, settings=settings
        )

    return conduct(config, plan, options, start)


def _training_config(options: TrajectoryTrainOptions) -> TrainConfig:
    """Return the settings in the form of `arena train`. Raises UsageError."""
    mode, server, port = options.weight_sync, options.server, options.vllm_port
    if not server:
        # Modes that restart the server need one of our own.
        own = mode in {"lora_restart", "none"}
        server = "vllm" if own else f"http://127.0.0.1:{port}"
    port = port if server in OWNED_SERVERS else 0
    config = options.part(TrainConfig)
    config = settled(config.model_copy(update={"server": server, "vllm_port": port}))
    reason = (
        "without effect, since environments play the games of arena atropos train; leave it out"
    )
    check_used(config, TRAINER_SETTINGS, reason)
    if not config.base_model:
        raise UsageError("missing option --model-name: a checkpoint, by name or folder")
    find_checkpoint(config.base_model)  # Before the folder of the run is made.
    if mode in FULL_WEIGHTS and config.lora_rank:
        raise UsageError(
            f"--lora-r {config.lora_rank}: --weight-bridge-mode {mode} trains all weights; leave "
            "it out"
        )
    return config
