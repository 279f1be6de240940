"""`arena atropos`: Atropos' trajectory API, its environments and its server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from arena.cli.atropos_flags import (
    EnvFlags,
    Learner,
    OpenAIFlags,
    learner_config,
    make_player,
    run_until_signal,
)
from arena.cli.atropos_train import train_command
from arena.cli.flags import Flag, GameFlags, GameName, flag_groups
from arena.cli.help import ArenaCommand
from arena.llm.settings import Settings
from arena.plugins.catalog import require

app = typer.Typer(
    help="Exchange training games with Atropos (atroposlib 0.4.0).", no_args_is_help=True
)

app.command("train", cls=ArenaCommand)(train_command)


@app.command("api", cls=ArenaCommand)
@flag_groups
def api_command(
    host: Annotated[
        str, Flag(help="Where to listen. Beyond this machine ARENA_API_KEY must be set.")
    ] = "127.0.0.1",
    port: Annotated[int, Flag(min=0, max=65535, help="0 takes a free one.")] = 8002,
    data: Annotated[
        Path, Flag(help="Folder of the queue. A server that is started again goes on from it.")
    ] = Path("runs/atropos"),
    max_groups: Annotated[
        int, Flag(min=1, help="Groups that may wait for a batch; more get status 503.")
    ] = 4096,
    max_body_bytes: Annotated[
        int, Flag(min=1, help="Largest body in bytes; a larger one gets status 413.")
    ] = 64_000_000,
) -> int:
    """Serve the trajectory API: environments push groups of games, a trainer takes batches.

    With ARENA_API_KEY set, in the environment or .env, clients must send it as a bearer token.
    """
    require("arena atropos api", ("starlette", "uvicorn"), "serve")
    from trainers.atropos.app import serve_trajectories

    return serve_trajectories(
        host, port, data, max_groups=max_groups, max_body_bytes=max_body_bytes
    )


@app.command("serve", cls=ArenaCommand)
@flag_groups
def serve_command(
    game: GameName,
    game_flags: GameFlags,
    env_flags: EnvFlags,
    learner: Learner,
    openai_flags: OpenAIFlags,
) -> int:
    """Play games with a served model, and push groups of them to a trajectory API.

    Each group holds the games of one deal in one seat. With ARENA_API_KEY set, it is sent to the
    API as a bearer token.
    """
    from trainers.atropos.client import TrajectoryClient
    from trainers.atropos.environment import TrajectoryEnvironment

    settings, config = Settings.load(), learner_config(game, game_flags, learner)

    def notify(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    async def play() -> None:
        player, llm = make_player(config, game_flags, env_flags, openai_flags, settings)
        client = TrajectoryClient(env_flags.rollout_server_url, settings.secret("ARENA_API_KEY"))
        options = env_flags.options(game, config.rollouts_per_group)
        environment = TrajectoryEnvironment(client, player, options, notify)
        try:
            await environment.run()
        finally:
            await client.close()
            await llm.close()
            notify(str(environment.counts))

    run_until_signal(play())
    return 0
