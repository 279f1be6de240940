"""Open files: games at the same time need one each, and the limit of the process is often 1,024."""

from __future__ import annotations

from arena.core.errors import UsageError

PER_GAME = 2
"""The replay that is written, and a connection or a file that is read meanwhile."""
RESERVE = 192
"""Libraries, the terminal, the database of results, and the connections to providers."""


def reserve_descriptors(games: int) -> None:
    """Raise the soft limit of open files so that this number of games fits.

    Raises UsageError if the hard limit is too low.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return
    needed = RESERVE + PER_GAME * games
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= needed:
        return
    if hard != unlimited and hard < needed:
        most = max(1, (hard - RESERVE) // PER_GAME)
        raise UsageError(
            f"--max-concurrent {games}: this process may open {hard} files (ulimit -Hn), enough "
            f"for {most} games at once; choose {most}, or raise the limit"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
