"""`arena play`: play games and write their replays."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from arena.agents.names import HUMAN
from arena.agents.seating import Level
from arena.cli.options import (
    ModelOptions,
    OutputOptions,
    SeedOptions,
    TextOptions,
    has_models,
    seat_specs,
)
from arena.cli.terminal import check_folder, echo, settle_accounts
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import Spec
from arena.llm.config import argument, setting
from arena.llm.settings import MODELS
from arena.plugins.catalog import require

if TYPE_CHECKING:
    from arena.cli.game_run import GameRun

PACE = 0.7
"""Seconds between moves in the browser, so that a person can follow them."""


class PlayOptions(TextOptions, SeedOptions, ModelOptions, OutputOptions):
    """Options of `arena play`."""

    short_help = "seat level web backend players option text_level games seed out max_cost as_json"
    help_examples = (
        "arena play cluedo --web",
        "arena play cluedo --seat 0=embedded:clue-tiny --text-level deductions",
    )

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

    game: str = argument("")
    """The game; 'arena list games' lists them. Default: asked for, and seat 0 is yours."""
    seat: list[str] = setting([])
    """I=SPEC, e.g. 0=bot:oracle or 1=human ('arena list agents'). Default: the game's bot."""
    level: Level | None = setting(None)
    """Bots of the seats without --seat."""
    games: int = setting(1, ge=1, le=10**9)
    """Games, on seeds SEED, SEED+1, …"""
    out: Path = setting(Path("runs/play"))
    """Folder for the replays."""
    watch: bool | None = setting(None)
    """Show the game. Default: one game."""
    max_concurrent: int = setting(16, ge=1, le=10_000)
    """Games played at once."""
    backend: str | None = setting(None, MODELS)
    """BACKEND or BACKEND:MODEL for the first seat without --seat, and for every seat I=model.
    Environment: LLM_BACKEND."""
    dry_run: bool = setting(False, MODELS, flag="--dry-run")
    """Estimate calls, tokens and cost from a few games of bots, without calling a model."""


def play(options: PlayOptions) -> int:
    """Play games and write a replay of each; with --web, people play in the browser."""
    from arena.cli.game_run import GameRun
    from arena.episodes.match import Match

    if not options.game:
        # Who chooses a game at the terminal wants to play it.
        seats = options.seat or [f"0={HUMAN}"]
        options = options.model_copy(update={"game": _chosen_game(), "seat": seats})
    game, turns = options.make_game(), options.max_turns
    specs = seat_specs(game, options.seat, options.backend, options.level)
    first = options.first_seed()
    llm = options.service(options.dry_run) if has_models(specs) else None
    chat = options.chat_options(game, specs, turns, llm)
    # In the browser, models may join later.
    chat_of_match = chat if llm or options.web else None
    is_watched = options.games == 1 and not options.as_json
    run = GameRun(
        match=Match(
            game, specs, text_level=options.text_level, chat=chat_of_match, max_turns=turns
        ),
        seeds=range(first, first + options.games),
        out=options.out,
        delay=options.delay or 0.0,
        watch=is_watched if options.watch is None else options.watch,
        max_concurrent=options.max_concurrent,
        llm=llm,
    )
    if options.web:
        return _serve(run, options)
    for name in ("host", "port", "clock", "assist"):
        if getattr(options, name) != type(options).model_fields[name].default:
            raise UsageError(f"{name} needs --web")
    run.check()
    if options.dry_run:
        _print_estimate(run, options)
        return 0
    return run.run(options.as_json)


def _chosen_game() -> str:
    """Ask which game is played. Raises UsageError where there is no terminal to ask at."""
    from arena.plugins.catalog import catalog, make_game

    games = catalog().entries("game")
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("name a game, e.g. arena play cluedo; 'arena list games' lists them")
    for number, entry in enumerate(games, 1):
        echo(f"{number:>3}  {entry.name:<13} {entry.summary}", indent=" " * 19)
    choices = {str(number): entry.name for number, entry in enumerate(games, 1)}

    def name_of(answer: str) -> str:
        name = choices.get(answer.strip(), answer.strip())
        try:
            make_game(name)
        except ArenaError as error:
            raise click.UsageError(str(error)) from None  # It is asked again.
        return name

    name: str = click.prompt("Game, its number or its name", default="cluedo", value_proc=name_of)
    return name


def _print_estimate(run: GameRun, options: PlayOptions) -> None:
    """Print what the games would ask of the models."""
    from arena.cli.model_estimate import SAMPLE_GAMES, print_estimate

    # Of a single game, too, several deals are sampled: one says little about its length.
    seeds = range(run.seeds.start, run.seeds.start + SAMPLE_GAMES)
    line_ups = {tuple(run.match.specs): len(run.seeds)}
    matches = map(run.match.with_seed, seeds)
    print_estimate(line_ups, matches, run.llm, options, options.as_json)


def _serve(run: GameRun, options: PlayOptions) -> int:
    """Serve a game until Ctrl-C; return the exit code. Seat 0 is a person's if none was named.

    Raises UsageError if flags do not fit together, or the address cannot be used.
    """
    if options.dry_run or options.as_json:
        raise UsageError("--dry-run, --json: not with --web")
    require("arena play --web", ("starlette", "uvicorn", "websockets"), "web")
    from replays.web.play.links import WebGameSetup
    from replays.web.play.new_game import NewGames
    from replays.web.server import run_play

    if len(run.seeds) > 1:
        raise UsageError("--games: with --web one game is played; more are started on the page")
    match = run.match.with_seed(run.seeds[0])
    if not options.seat:
        match = replace(match, specs=(HUMAN, *match.specs[1:]))
    if not any(Spec.parse(spec).is_human for spec in match.specs):
        raise UsageError("--web needs a human seat: add --seat 0=human")
    pace = PACE if options.delay is None else options.delay
    setup = WebGameSetup(match, pace, options.clock, options.assist)
    known = [spec for spec in dict.fromkeys(match.specs) if has_models([spec])]
    new_games = NewGames(known, match.chat)
    check_folder("--out", run.out)
    code = run_play(run.out, setup, new_games, run.llm, options.host, options.port)
    settle_accounts(run.llm, run.out, run.stem(match.seed))
    return code
