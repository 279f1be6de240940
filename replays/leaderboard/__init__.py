"""Leaderboards: a static site of submissions to a benchmark suite; it needs no server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arena.plugins.catalog import require

if TYPE_CHECKING:
    from pydantic import JsonValue

    from arena.evaluation.benchmark.submission import Submission


def require_site_packages() -> None:
    """Raise MissingDependency if a package that the site needs is not installed."""
    require("a leaderboard", ("jinja2",), "web")


def write_site(
    submissions: Sequence[Submission],
    out: Path,
    verified: Collection[Path] = (),
    show: Callable[[str], None] = lambda name: None,
) -> dict[str, JsonValue]:
    """Write the site into a folder, with `index.html` first to open; return its numbers.

    Pages load nothing but each other, and open from disk. Equal submissions, of one version of one
    suite, give equal bytes. The folder is new or empty, or one that this function wrote before.
    `verified` are the folders of the submissions that were verified; `show` is called with the name
    of each page before it is written.

    Raises:
        MissingDependency: If jinja2 is not installed.
        ArenaError: If the submissions do not belong together or the site cannot be written.
    """
    require_site_packages()
    from arena.evaluation.benchmark.standings import make_standings
    from replays.leaderboard.site import LeaderboardSite

    site = LeaderboardSite(make_standings(submissions), out, verified)
    site.write(show)
    return site.to_json()
