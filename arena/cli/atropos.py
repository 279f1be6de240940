"""`arena atropos`: Atropos' trajectory API, its environments and its server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.common.flags import Flag, flag_groups

app = typer.Typer(
    help="Exchange training games with Atropos (atroposlib 0.4.0).", no_args_is_help=True
)


@app.command("api")
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
    from trainers.atropos.server import TrajectoryServerOptions, serve_trajectories

    return serve_trajectories(TrajectoryServerOptions(host, port, data, max_groups, max_body_bytes))
