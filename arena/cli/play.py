"""`arena play`: play games and write their replays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from arena.agents.names import HUMAN
from arena.agents.seating import Level
from arena.cli.completion import complete_seat
from arena.cli.flags import Flag, GameFlags, GameName, JsonFlag, SeedFlag, first_seed, flag_groups
from arena.cli.play_flags import (
    LOCAL,
    BackendFlag,
    DryRunFlag,
    ExecutorFlags,
    MaxConcurrentFlag,
    ModelFlags,
    has_models,
    seat_specs,
)
from arena.cli.terminal import settle_accounts
from arena.core.errors import UsageError
from arena.core.spec import Spec, redacted
from arena.llm.config import Config, setting
from arena.plugins.catalog import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arena.agents.chat import ChatOptions
    from arena.cli.game_run import GameRun
    from arena.core.game import Game
    from arena.episodes.match import Match
    from arena.episodes.record import Header

PACE = 0.7
"""Seconds between moves in the browser, so that a person can follow them."""

SeatFlag = Annotated[
    list[str],
    Flag(
        autocompletion=complete_seat,
        help="I=SPEC, e.g. 0=bot:oracle or 1=human ('arena list agents'). Default: the game's bot.",
    ),
]


class BrowserFlags(Config):
    """How people play in a browser, and the pace of a game that is watched."""

    web: bool = setting(False, flag="--web")
    """Play in the browser: each seat 'human' gets a link."""
    host: str = setting("127.0.0.1")
    """With --web: address to listen on; 0.0.0.0 lets other machines join."""
    port: int = setting(0, ge=0, le=65535)
    """With --web: the port; 0 is a free one."""
    clock: float | None = setting(None, flag=False, ge=1, le=86_400)
    """With --web: seconds for a decision. Default: no limit."""
    assist: Literal["none", "notes", "deductions", "posterior"] = setting("posterior", flag=False)
    """With --web: the most help on the page."""
    delay: float | None = setting(None, flag=False, ge=0, le=3600)
    """Seconds between moves. Default: 0, with --web 0.7."""

    def check_unused(self) -> None:
        """Raise UsageError for a flag that needs --web, if that is not given."""
        usual = BrowserFlags()
        for name in ("host", "port", "clock", "assist"):
            if getattr(self, name) != getattr(usual, name):
                raise UsageError(f"{name} needs --web")


@flag_groups
def play_command(
    game: GameName,
    game_flags: GameFlags,
    model_flags: ModelFlags,
    browser: BrowserFlags,
    executor: ExecutorFlags,
    seat: SeatFlag = [],  # noqa: B006 - typer reads the default and never changes it.
    level: Annotated[
        Level | None,
        Flag(metavar="TEXT", help="Bots of the seats without --seat: easy, fair or strong."),
    ] = None,
    seed: SeedFlag = None,
    games: Annotated[int, Flag(min=1, max=10**9, help="Games, on seeds SEED, SEED+1, …")] = 1,
    out: Annotated[Path, Flag(help="Folder for the replays.")] = Path("runs/play"),
    resume: Annotated[
        bool, Flag("--resume", help="Keep the finished games in --out and play the missing ones.")
    ] = False,
    watch: Annotated[
        bool | None, Flag("--watch/--no-watch", help="Show the game. Default: one game.")
    ] = None,
    as_json: JsonFlag = False,
    max_concurrent: MaxConcurrentFlag = 16,
    backend: BackendFlag = None,
    dry_run: DryRunFlag = False,
) -> int:
    """Play games and write a replay of each; with --web, people play in the browser."""
    from arena.cli.game_run import GameRun
    from arena.cli.model_estimate import print_game_estimate

    played = game_flags.make(game)
    specs = seat_specs(played, seat, backend, level)
    first = _earlier_seed(out, played) if resume and seed is None else first_seed(seed)
    llm = model_flags.service(dry_run) if has_models(specs) else None
    chat = model_flags.options(played, specs, game_flags.max_turns, llm)
    run = GameRun(
        match=_match(played, specs, game_flags, chat if llm or browser.web else None),
        seeds=range(first, first + games),
        out=out,
        delay=browser.delay or 0.0,
        watch=games == 1 and not (as_json or executor.has_workers) if watch is None else watch,
        max_concurrent=max_concurrent,
        llm=llm,
        executor=LOCAL if executor == ExecutorFlags() else executor,
        probe=model_flags.probe,
    )
    if browser.web:
        return _serve(run, browser, by_hand=bool(seat), is_refused=resume or dry_run or as_json)
    browser.check_unused()
    run.check()
    if resume:
        _keep_finished(run, dry_run)
    if dry_run:
        print_game_estimate(run, model_flags, as_json)
        return 0
    return run.run(as_json)


def _match(game: Game, specs: Sequence[str], flags: GameFlags, chat: ChatOptions | None) -> Match:
    """Return what is played; `chat` is that of models, which in the browser may join later."""
    from arena.episodes.match import Match

    return Match(game, specs, text_level=flags.text_level, chat=chat, max_turns=flags.max_turns)


def _earlier_seed(out: Path, game: Game) -> int:
    """Return the first seed of a game's replays in a folder. Raises UsageError if it has none."""
    from arena.episodes.files import game_stem

    stem = game_stem(game, 0).removesuffix("0")
    names = (path.name.partition(".")[0] for path in out.glob(f"{stem}*.jsonl*"))
    seeds = [int(digits) for name in names if (digits := name.removeprefix(stem)).isdigit()]
    if not seeds:
        raise UsageError(f"--resume: {out} has no replay {stem}N.jsonl; name its folder with --out")
    return min(seeds)


def _keep_finished(run: GameRun, dry_run: bool = False) -> None:
    """Add the finished games in `out` to the results; remove the unfinished ones.

    A dry run removes nothing.

    An unfinished game is played again from its start: the random numbers that its bots have drawn
    are not stored. Raises UsageError for a replay of another set-up.
    """
    from arena.cli.game_run import PlayedGame
    from arena.episodes.files import is_written
    from arena.episodes.replay import read_replay

    for seed in run.seeds:
        path = run.out / f"{run.stem(seed)}.jsonl"
        if path.exists():
            replay = read_replay(path)
            _check_same(run, seed, replay.header, path)
            if replay.outcome is not None:
                run.results.append(PlayedGame.of(run.match, seed, replay.outcome, path))
                continue
        part = path.with_name(f"{path.name}.part")
        # Another process may be playing this game now.
        if not dry_run and part.exists() and not is_written(part):
            part.unlink()


def _check_same(run: GameRun, seed: int, found: Header, path: Path) -> None:
    """Raise UsageError if a replay was made with other flags."""
    from arena.episodes.record import Header

    match = run.match
    present = Header.of(
        match.game,
        seed,
        [redacted(spec) for spec in match.specs],
        match.turn_limit,
        match.text_level,
        match.chat,
    )
    for name in Header.model_fields.keys() - {"arena", "created", "schema_version"}:
        if (stored := getattr(found, name)) != getattr(present, name):
            raise UsageError(
                f"--resume: {path} was made with {name} = {stored}; use the same flags, or another "
                "--out"
            )


def _serve(run: GameRun, flags: BrowserFlags, by_hand: bool, is_refused: bool) -> int:
    """Serve a game until Ctrl-C; return the exit code. Seat 0 is a person's if none was named.

    Raises UsageError if flags do not fit together, or the address cannot be used.
    """
    if is_refused:
        raise UsageError("--resume, --dry-run, --json: not with --web")
    require("arena play --web", ("starlette", "uvicorn", "websockets"), "web")
    from replays.web.play.links import WebGameSetup
    from replays.web.play.new_game import NewGames
    from replays.web.server import PlayServer

    if len(run.seeds) > 1:
        raise UsageError("--games: with --web one game is played; more are started on the page")
    if run.executor.has_workers:
        raise UsageError("--executor: with --web the game runs in this process")
    match = run.match.with_seed(run.seeds[0])
    if not by_hand:
        match = replace(match, specs=(HUMAN, *match.specs[1:]))
    if not any(Spec.parse(spec).is_human for spec in match.specs):
        raise UsageError("--web needs a human seat: add --seat 0=human")
    pace = PACE if flags.delay is None else flags.delay
    setup = WebGameSetup(match, pace, flags.clock, flags.assist)
    known = [spec for spec in dict.fromkeys(match.specs) if has_models([spec])]
    new_games = NewGames(known, match.chat)
    code = PlayServer(run.out, setup, new_games, run.llm, flags.host, flags.port).run()
    settle_accounts(run.llm, run.out, run.stem(match.seed))
    return code
