"""`arena play`: play games and write their replays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from arena.cli.common import models
from arena.cli.common.completion import complete_seat
from arena.cli.common.executors import ExecutorFlags
from arena.cli.common.flags import (
    Flag,
    GameFlags,
    GameName,
    JsonFlag,
    SeedFlag,
    first_seed,
    flag_groups,
)
from arena.cli.playing.browser_flags import BrowserFlags

if TYPE_CHECKING:
    from arena.cli.playing.table import Table

SeatFlag = Annotated[
    list[str],
    Flag(
        autocompletion=complete_seat,
        help="I=SPEC, e.g. 0=bot:oracle or 1=human ('arena agents'). Default: the game's bot.",
    ),
]
DelayFlag = Annotated[
    float | None, Flag(min=0, max=3600, help="Seconds between moves. Default: 0, with --web 0.7.")
]


@flag_groups
def play_command(
    game: GameName,
    game_flags: GameFlags,
    model_flags: models.ModelFlags,
    seat: SeatFlag = [],  # noqa: B006 - typer reads the default and never changes it.
    seed: SeedFlag = None,
    games: Annotated[
        int, Flag(min=1, max=10**9, help="Games to play, on seeds SEED, SEED+1, …")
    ] = 1,
    out: Annotated[Path, Flag(help="Folder for the replays.")] = Path("runs/play"),
    resume: Annotated[
        bool, Flag("--resume", help="Keep the finished games in --out and play the missing ones.")
    ] = False,
    delay: DelayFlag = None,
    watch: Annotated[
        bool | None, Flag("--watch/--no-watch", help="Show the game. Default: one game.")
    ] = None,
    as_json: JsonFlag = False,
    browser: BrowserFlags = BrowserFlags(),  # noqa: B008 - frozen.
    executor: ExecutorFlags = ExecutorFlags(),  # noqa: B008 - frozen.
    max_concurrent: models.MaxConcurrentFlag = 16,
    backend: models.BackendFlag = None,
    dry_run: models.DryRunFlag = False,
) -> int:
    """Play games and write a replay of each; with --web, people play in the browser."""
    from arena.cli.common.seats import seat_specs
    from arena.cli.playing.earlier_games import earlier_seed, keep_finished
    from arena.cli.playing.in_browser import serve_table
    from arena.cli.playing.table import Table, check, run
    from arena.cli.replaying.rerun import check_recordings
    from arena.episodes.match import Match

    played = game_flags.make(game)
    specs = seat_specs(played, seat, backend)
    first = earlier_seed(out, played) if resume and seed is None else first_seed(seed)
    chat = model_flags.options(played, specs, game_flags.max_turns)
    table = Table(
        match=Match(
            played, specs, text_level=game_flags.level, chat=chat, max_turns=game_flags.max_turns
        ),
        seeds=range(first, first + games),
        out=out,
        delay=delay or 0.0,
        watch=games == 1 and not (as_json or executor.has_workers) if watch is None else watch,
        max_concurrent=max_concurrent,
        llm=model_flags.service(dry_run) if models.has_models(specs) else None,
        executor=executor.or_local(),
        probe=model_flags.probe,
    )
    check_recordings(table)
    if browser.web:
        return serve_table(table, browser, delay, by_hand=bool(seat))
    browser.check_unused()
    check(table)
    if resume:
        keep_finished(table, dry_run)
    return _estimate(table, model_flags, as_json) if dry_run else run(table, as_json)


def _estimate(table: Table, model_flags: models.ModelFlags, as_json: bool) -> int:
    from arena.cli.common.dry_run import print_table_estimate

    print_table_estimate(table, model_flags, as_json)
    return 0
