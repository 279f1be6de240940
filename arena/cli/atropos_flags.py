"""Flags of `arena atropos serve`, `process` and `evaluate`: atroposlib's names where it has one."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import JsonValue

from arena.cli.flags import FieldsOf, Flag, GameFlags, Given
from arena.core.errors import UsageError
from arena.llm.config import SettingsLayer
from trainers.config.config import TrainConfig
from trainers.config.presets import DEFAULT, resolve

RESTART_PATIENCE = 300.0
"""Seconds to wait for a model server that does not answer: a trainer may restart it."""

if TYPE_CHECKING:
    from arena.llm.service import LLMService
    from arena.llm.settings import Settings
    from trainers.atropos.environment import EnvironmentOptions
    from trainers.atropos.group_player import GroupPlayer


@dataclass(frozen=True, slots=True)
class OpenAIFlags:
    """The OpenAI-compatible server of the model that learns."""

    base_url: Annotated[str, Flag("--openai.base_url", help="URL of the model's server, …/v1.")] = (
        "http://127.0.0.1:5001/v1"
    )
    model_name: Annotated[
        str,
        Flag(
            "--openai.model_name",
            help="Its name there. Default: the newest adapter NAME@STEP, else the first model.",
        ),
    ] = ""
    api_key: Annotated[
        str,
        Flag(
            "--openai.api_key", envvar="ARENA_OPENAI_API_KEY", show_default=False, help="Its key."
        ),
    ] = ""
    server_type: Annotated[
        str, Flag("--openai.server_type", help="vllm or openai: the same calls for both.")
    ] = "vllm"
    timeout: Annotated[float, Flag("--openai.timeout", min=1, help="Seconds for one answer.")] = (
        1200.0
    )
    max_requests: Annotated[
        int, Flag("--openai.num_max_requests_at_once", min=1, help="Requests in flight.")
    ] = 512

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

    @property
    def spec(self) -> str:
        """The SPEC of the model."""
        return f"{self.url}#{self.model_name}" if self.model_name else self.url

    def add_to(self, llm: LLMService, games: int) -> None:
        """Register the model as the learner. Raises UsageError."""
        from pydantic import SecretStr

        from arena.plugins.catalog import require

        require("arena atropos", ("httpx",), "models")
        from backends.openai_http import HTTPBackend, check_url
        from trainers.atropos.group_player import NewestModel
        from trainers.rollouts.opponents import NEWEST

        # A game has one request in flight at most.
        limits = llm.settings.service.limits("http").model_copy(
            update={
                "concurrency": max(1, min(self.max_requests, games)),
                "call_timeout": self.timeout,
                "read_timeout": self.timeout,
            }
        )
        key = SecretStr(self.api_key) if self.api_key else llm.settings.secret("ARENA_API_KEY")
        server = HTTPBackend(check_url(self.url), self.model_name, limits, key)
        learner = server if self.model_name else NewestModel(server)
        llm.add(NEWEST, learner, is_trained=True)


LEARNER_FLAGS = {
    **dict.fromkeys(("seats", "opponents", "reward", "reward_fn", "prompt", "max_tokens"), ""),
    "temperature": "",
    "guided": "--guided/--free",
    "seed": "",
    "rollouts_per_group": "--env.group_size",
    "rollout_timeout": "--env.worker_timeout",
}
"""Settings of `arena train` that are flags here too, and the names that Atropos has for them."""
LEARNER_DEFAULTS: dict[str, JsonValue] = {"rollouts_per_group": 4, "rollout_timeout": 600.0}
Learner = Annotated[Given, FieldsOf(TrainConfig, LEARNER_FLAGS, LEARNER_DEFAULTS)]
"""The players, the reward and the sampling."""


@dataclass(frozen=True, slots=True)
class GroupFlags:
    """The rows of groups, and how many groups are in play."""

    max_token_length: Annotated[
        int, Flag("--env.max_token_length", min=1, help="Rows must be shorter, in tokens.")
    ] = 2048
    max_num_workers: Annotated[
        int, Flag("--env.max_num_workers_per_node", min=1, help="Groups in play at once.")
    ] = 8


@dataclass(frozen=True, slots=True)
class EnvFlags:
    """The trajectory API, and how much to play for it."""

    rollout_server_url: Annotated[
        str,
        Flag(
            "--rollout-server-url",
            "--env.rollout_server_url",
            help="The trajectory API: run-api, or arena atropos api.",
        ),
    ] = "http://127.0.0.1:8000"
    total_steps: Annotated[
        int, Flag("--env.total_steps", min=-1, help="Batches. -1: the trainer's number.")
    ] = 1000
    max_batches_offpolicy: Annotated[
        int, Flag("--env.max_batches_offpolicy", min=1, help="Batches that may wait.")
    ] = 3
    wandb_name: Annotated[
        str, Flag("--env.wandb_name", help="Name at the API. Default: the game.")
    ] = ""
    inference_weight: Annotated[
        float, Flag("--env.inference_weight", min=0, help="Weight among environments.")
    ] = 1.0
    min_batch_allocation: Annotated[
        float | None,
        Flag("--env.min_batch_allocation", min=0, max=1, help="Least share of each batch."),
    ] = None

    include_messages: Annotated[
        bool, Flag("--env.include_messages", help="Send the chats as text too.")
    ] = False
    different_scores: Annotated[
        bool,
        Flag(
            "--env.ensure_scores_are_not_same/--env.no-ensure_scores_are_not_same",
            help="Drop groups with equal scores.",
        ),
    ] = True

    def options(self, game: str, groups: GroupFlags, group_size: int) -> EnvironmentOptions:
        """Return the options of the environment."""
        from trainers.atropos.environment import EnvironmentOptions
        from trainers.atropos.wire import EnvRegistration

        return EnvironmentOptions(
            EnvRegistration(
                max_token_length=groups.max_token_length,
                desired_name=self.wandb_name or game,
                weight=self.inference_weight,
                group_size=group_size,
                min_batch_allocation=self.min_batch_allocation,
            ),
            total_steps=self.total_steps,
            max_num_workers=groups.max_num_workers,
            max_batches_offpolicy=self.max_batches_offpolicy,
        )


def learner_config(game: str, game_flags: GameFlags, learner: Given) -> TrainConfig:
    """Return the settings of the games. Raises UsageError."""
    values: dict[str, JsonValue] = {
        "options": game_flags.options(),
        "text_level": game_flags.text_level,
        "max_turns": game_flags.max_turns or 0,
    }
    layers = [
        SettingsLayer("flag", {**learner.flags, **values}),
        SettingsLayer("environment", learner.environment),
        SettingsLayer("default", LEARNER_DEFAULTS),
    ]
    return resolve(game, DEFAULT, layers).config


def _patient(settings: Settings) -> Settings:
    """Return the settings with enough patience for a server that restarts with new weights."""
    service = settings.service
    if "patience" in service.model_fields_set:
        return settings
    patient = service.model_copy(update={"patience": RESTART_PATIENCE})
    return settings.model_copy(update={"service": patient})


def make_player(
    config: TrainConfig,
    game_flags: GameFlags,
    group_flags: GroupFlags,
    openai_flags: OpenAIFlags,
    settings: Settings,
    *,
    keep_equal: bool,
    with_messages: bool,
) -> tuple[GroupPlayer, LLMService]:
    """Return the player of groups and its service, which the caller closes. Raises UsageError."""
    from arena.llm.service import LLMService

    the_game = game_flags.make(config.game)
    llm = LLMService.limited(config, _patient(settings))
    games = config.rollouts_per_group * group_flags.max_num_workers * the_game.num_players
    openai_flags.add_to(llm, games)
    from trainers.atropos.group_player import GroupPlayer

    player = GroupPlayer(config, the_game, llm, with_messages=with_messages, keep_equal=keep_equal)
    return player, llm


def run_until_signal(work: Coroutine[object, object, None]) -> None:
    """Run the coroutine; SIGTERM cancels it, so that it can say goodbye, and is no error."""
    import asyncio
    import signal
    from contextlib import suppress

    async def run() -> None:
        task = asyncio.ensure_future(work)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())
