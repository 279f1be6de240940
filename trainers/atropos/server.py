"""`arena atropos api`: the trajectory API as a process."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from arena.plugins.extras import require

if TYPE_CHECKING:
    from trainers.atropos.store import TrajectoryStore


@dataclass(frozen=True, slots=True)
class TrajectoryServerOptions:
    """Options of `arena atropos api`."""

    host: str = "127.0.0.1"
    port: int = 8002
    """0 selects a free port."""
    data: Path = Path("runs/atropos")
    """Folder of the queue, which survives the process."""
    max_groups: int = 4096
    """Groups that may wait for a batch."""
    max_body_bytes: int = 64_000_000
    drain_seconds: float = 10.0
    """Time limit for running requests after the first signal."""


def serve_trajectories(options: TrajectoryServerOptions) -> int:
    """Serve until a signal and return the exit code.

    The bearer token is the variable ARENA_API_KEY, from the environment or `.env`. Raises
    ArenaError if the address or the folder cannot be used.
    """
    require("arena atropos api", ("starlette", "uvicorn"), "serve")
    from arena.http.server import (
        bind_socket,
        resolve_address,
        run_server,
        server_key,
        server_url,
    )
    from trainers.atropos.app import make_trajectory_app
    from trainers.atropos.store import TrajectoryStore

    # Everything that can be refused is refused before anything is written.
    address = resolve_address(options.host)
    key = server_key(options.host, address)
    # Bound before the folder is opened: a port in use is reported first, and leaves no files.
    with (
        bind_socket(address, options.port) as listener,
        closing(TrajectoryStore(options.data)) as store,
    ):
        app = make_trajectory_app(
            store,
            key=key,
            max_groups=options.max_groups,
            max_body_bytes=options.max_body_bytes,
        )
        greeting = f"Trajectory API on {server_url(listener)} ({_summary(store)})"
        asyncio.run(run_server(app, listener, greeting, drain_seconds=options.drain_seconds))
    return 0


def _summary(store: TrajectoryStore) -> str:
    """Return what the folder holds, so that an earlier run is noticed."""
    if store.run is None:
        return f"{store.path}: new"
    step, waiting = store.run.step, len(store.waiting)
    return f"{store.path}: a run at step {step} with {waiting} waiting groups"
