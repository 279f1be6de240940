"""`arena play --web`: people play in the browser."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from arena.cli.common.flags import one_of
from arena.cli.common.models import has_models
from arena.cli.playing.browser_flags import BrowserFlags
from arena.core.errors import UsageError
from arena.core.spec import Spec
from arena.plugins.extras import require

if TYPE_CHECKING:
    from arena.cli.playing.table import Table

PACE = 0.7
"""Seconds between moves, so that a person can follow them."""
HUMAN = "human"


def serve_table(table: Table, flags: BrowserFlags, delay: float | None, by_hand: bool) -> int:
    """Serve a table until Ctrl-C; return the exit code.

    Args:
        table: The game of the command.
        flags: How people play.
        delay: Seconds between moves; None for the usual pace.
        by_hand: Seats were named with --seat; otherwise seat 0 is a person's.

    Raises:
        UsageError: The flags do not fit together, or the address cannot be used.
    """
    require("arena play --web", ("starlette", "uvicorn", "websockets"), "web")
    from replays.web.play.documents import Help
    from replays.web.play.new_game import NewGames
    from replays.web.play.places import TableSetup
    from replays.web.play.server import PlayServer

    if len(table.seeds) > 1:
        raise UsageError("--games: with --web one game is played; more are started on the page")
    if table.executor.has_workers:
        raise UsageError("--executor: with --web the game runs in this process")
    match = table.match.with_seed(table.seeds[0])
    if not by_hand:
        match = replace(match, specs=(HUMAN, *match.specs[1:]))
    if not any(Spec.parse(spec).is_human for spec in match.specs):
        raise UsageError("--web: no seat is a person's: add --seat 0=human")
    one_of("--assist", flags.assist, Help)
    assist = cast("Help", flags.assist)
    setup = TableSetup(match, PACE if delay is None else delay, flags.clock, assist)
    models = [spec for spec in dict.fromkeys(match.specs) if has_models([spec])]
    new_games = NewGames(models, match.chat)
    return PlayServer(table.out, setup, new_games, table.llm, flags.host, flags.port).run()
