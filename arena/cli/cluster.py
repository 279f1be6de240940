"""`arena cluster`: what a Ray cluster can do for `--executor ray`."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.flags import Flag, JsonFlag
from arena.cli.help import ArenaCommand
from arena.cli.terminal import echo, print_grids

if TYPE_CHECKING:
    from arena.episodes.executors.ray_check import ClusterReport

app = typer.Typer(
    help="Check a Ray cluster for --executor ray.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    """Check a Ray cluster for --executor ray."""


@app.command("check", cls=ArenaCommand)
def check_command(
    address: Annotated[
        str | None, Flag(help="Of the cluster. Default: RAY_ADDRESS, or a new one here.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Start a worker on each node and print what the cluster can do.

    Exits with 1 if a node cannot run workers.
    """
    from arena.plugins.catalog import require

    require("arena cluster check", ["ray"], "ray")
    from arena.episodes.executors.ray_check import check_cluster

    report = asyncio.run(check_cluster(address))
    if as_json:
        print(json.dumps({"usable": report.is_usable, **asdict(report)}))
    else:
        _show(report)
    for warning in report.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return 0 if report.is_usable else 1


def _show(report: ClusterReport) -> None:
    from arena.evaluation.formatting import Grid

    headings = ("node", "cores", "GPUs", "memory", "object store", "workers")
    rows = []
    for node in report.nodes:
        state = node.problem or ("ready" if node.cpus else "none: no cores")
        sizes = (f"{node.memory_gib:.1f} GiB", f"{node.object_store_gib:.1f} GiB")
        rows.append((node.address, f"{node.cpus:g}", f"{node.gpus:g}", *sizes, state))
    print_grids([Grid(f"Ray {report.ray}, cluster {report.address}", headings, rows)])
    if report.messages_per_second is not None:
        echo(f"One worker takes {report.messages_per_second:,.0f} messages per second.")
