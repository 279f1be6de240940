"""`arena atropos`: Atropos' trajectory API, its environments and its server."""

from __future__ import annotations

import os
import sys
from inspect import unwrap
from pathlib import Path
from typing import Annotated

import typer

from arena.cli.atropos_flags import (
    EnvFlags,
    GroupFlags,
    Learner,
    OpenAIFlags,
    learner_config,
    make_player,
    run_until_signal,
)
from arena.cli.atropos_train import train_command
from arena.cli.evaluate import AgainstFlag, BaselineFlag, DealsFlag, eval_command
from arena.cli.experiment import ExperimentFlags
from arena.cli.flags import Flag, GameFlags, GameName, JsonFlag, SeedFlag, flag_groups
from arena.cli.help import ArenaCommand
from arena.cli.play_flags import ModelFlags
from arena.cli.report import ReportFlags
from arena.cli.terminal import print_result, progress_bar
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
    group_flags: GroupFlags,
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
        player, llm = make_player(
            config,
            game_flags,
            group_flags,
            openai_flags,
            settings,
            keep_equal=not env_flags.different_scores,
            with_messages=env_flags.include_messages,
        )
        client = TrajectoryClient(env_flags.rollout_server_url, settings.secret("ARENA_API_KEY"))
        options = env_flags.options(game, group_flags, config.rollouts_per_group)
        environment = TrajectoryEnvironment(client, player, options, notify)
        try:
            await environment.run()
        finally:
            await client.close()
            await llm.close()
            notify(str(environment.counts))

    run_until_signal(play())
    return 0


@app.command("process", cls=ArenaCommand)
@flag_groups
def process_command(
    game: GameName,
    out: Annotated[Path, Flag(help="File for the groups, one per line; a page beside it.")],
    game_flags: GameFlags,
    group_flags: GroupFlags,
    learner: Learner,
    openai_flags: OpenAIFlags,
    total_steps: Annotated[int, Flag("--env.total_steps", min=1, help="Groups to write.")] = 10,
    as_json: JsonFlag = False,
) -> int:
    """Write groups of games into a file, without a trajectory API."""
    from trainers.atropos.environment import EnvironmentCounts
    from trainers.atropos.process import process

    config = learner_config(game, game_flags, learner)

    async def play() -> EnvironmentCounts:
        player, llm = make_player(
            config,
            game_flags,
            group_flags,
            openai_flags,
            Settings.load(),
            keep_equal=True,
            with_messages=True,
        )
        longest = group_flags.max_token_length
        with progress_bar(hidden=as_json) as bar:
            task = bar.add_task("groups", total=total_steps)
            async with llm:
                return await process(
                    player, total_steps, out, longest, lambda done: bar.update(task, completed=done)
                )

    counts = run_until_signal(play())
    if counts is None:  # SIGTERM.
        return 1
    fields = {"groups": counts.pushed, "games": counts.games, "out": str(out)}
    print_result(as_json, fields, f"{out}, to read in {out.with_suffix('.html')}: {counts}")
    return 0


@app.command("evaluate", cls=ArenaCommand)
@flag_groups
def evaluate_command(
    game: GameName,
    game_flags: GameFlags,
    openai_flags: OpenAIFlags,
    flags: ExperimentFlags,
    report_flags: ReportFlags,
    model_flags: ModelFlags,
    against: AgainstFlag = [],  # noqa: B006
    baseline: BaselineFlag = None,
    games: DealsFlag = None,
    seed: SeedFlag = None,
) -> int:
    """Measure a served model as `arena eval` does."""
    if openai_flags.key:
        # The backend of a URL takes its key from there.
        os.environ["ARENA_API_KEY"] = openai_flags.key
    # The function behind the flags, which takes them in their groups.
    code: int = unwrap(eval_command)(
        game,
        game_flags,
        [openai_flags.spec],
        flags,
        report_flags,
        model_flags,
        against=against,
        baseline=baseline,
        games=games,
        seed=seed,
    )
    return code
