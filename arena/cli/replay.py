"""`arena replay`: look at finished games, check them, ask what if, take them out as data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli import models
from arena.cli.flags import Flag, JsonFlag, flag_groups
from arena.errors import UsageError

if TYPE_CHECKING:
    from arena.replay import Replay


@dataclass(frozen=True, slots=True)
class PageFlags:
    """Looking at replays in a browser."""

    web: Annotated[bool, Flag("--web", help="Serve a page to a browser on this machine.")] = False
    port: Annotated[int, Flag(min=0, max=65535, help="Of the page; 0: any that is free.")] = 8765
    html: Annotated[
        Path | None, Flag(help="Write the page with this one game to a file that works offline.")
    ] = None


@dataclass(frozen=True, slots=True)
class WhatIfFlags:
    """What other players would have done."""

    branch: Annotated[
        int | None,
        Flag(min=0, help="Play on from the position after so many plies, with --seat I=SPEC."),
    ] = None
    ask: Annotated[
        str | None, Flag(help="SPEC: ask this agent for its move at each decision of --seat.")
    ] = None
    seed: Annotated[
        int | None, Flag(min=0, max=2**53, help="Of chance from --branch on. Default: drawn.")
    ] = None
    games: Annotated[int, Flag(min=1, max=10**6, help="Times to play on from --branch.")] = 1
    at_once: models.AtOnceFlag = 16


@dataclass(frozen=True, slots=True)
class ExportFlags:
    """Replays as data."""

    export: Annotated[
        str | None, Flag(help="chat, parquet or art: what models read and wrote, as data.")
    ] = None
    reward: Annotated[
        str | None, Flag(help="TERM=WEIGHT,…: also export this reward, as --reward of train.")
    ] = None
    out: Annotated[
        Path | None, Flag(help="File of --export; folder of --branch (runs/branch).")
    ] = None


@dataclass(frozen=True, slots=True)
class LookFlags:
    """Looking at one replay in the terminal."""

    ply: Annotated[int | None, Flag(min=0, help="The position after this ply.")] = None
    seat: Annotated[
        list[str],
        Flag(help="I: only what this seat could see. I=SPEC, with --branch: who plays on there."),
    ] = field(default_factory=list)
    verify: Annotated[bool, Flag("--verify", help="Play it again and compare.")] = False
    schema: Annotated[bool, Flag("--schema", help="Print the format's schema.")] = False
    svg: Annotated[Path | None, Flag(help="Write the position to this picture.")] = None


@flag_groups
def replay_command(
    look: LookFlags,
    page: PageFlags,
    what_if: WhatIfFlags,
    data: ExportFlags,
    asking: models.ModelFlags,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="A replay (.jsonl), or a folder of them.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Step through a replay, in the terminal or a browser; check it; ask what if; export it."""
    from arena.episode import replay_json_schema
    from arena.registry import catalog
    from arena.replay import read_replay

    if look.schema:
        print(json.dumps(replay_json_schema(), indent=2))
        return 0
    if not paths:
        raise UsageError("which replay? arena replay FILE, or arena replay FOLDER --web")
    if data.export is not None:
        from arena.cli.export import export

        return export(paths, data, as_json)
    if len(paths) > 1:
        raise UsageError(f"{paths[1]}: one replay at a time, except with --export")
    path = paths[0]
    if page.web:
        return int(catalog().load("viewer", "web")(path, page.port) or 0)
    if path.is_dir():
        raise UsageError(f"{path} is a folder: `arena replay {path} --web` lists what is in it")
    replay = read_replay(path)
    if what_if.branch is not None or what_if.ask is not None:
        from arena.cli.what_if import ask, branch

        run = branch if what_if.branch is not None else ask
        return run(replay, what_if, look.seat, data.out, asking, as_json)
    return _look(replay, look, page, as_json)


def _look(replay: Replay, look: LookFlags, page: PageFlags, as_json: bool) -> int:
    from arena.registry import catalog

    if look.verify:
        return _verify(replay, as_json)
    seat = _only_seat(replay, look.seat)
    if look.ply is not None and look.ply > len(replay.moves):
        raise UsageError(f"--ply {look.ply}: {replay.path} has {len(replay.moves)} plies")
    if page.html is not None:
        catalog().load("viewer", "html")(replay, seat, page.html)
    elif look.svg is not None:
        catalog().load("viewer", "svg")(replay, look.ply, seat, look.svg)
    else:
        view = "json" if as_json else "terminal"
        catalog().load("viewer", view)(replay, look.ply, seat)
    return 0


def _only_seat(replay: Replay, given: list[str]) -> int | None:
    """The seat whose view is asked for; None for everything open."""
    if not given:
        return None
    seats = replay.make_game().num_players
    if len(given) > 1 or not (given[0].isascii() and given[0].isdecimal()):
        raise UsageError(
            f"--seat {' --seat '.join(given)}: name one seat by its number to look through its "
            "eyes; I=SPEC goes with --branch"
        )
    if int(given[0]) >= seats:
        raise UsageError(f"--seat {given[0]}: {replay.path} has seats 0 to {seats - 1}")
    return int(given[0])


def _verify(replay: Replay, as_json: bool) -> int:
    """Exit code 1 on the first difference, which is named."""
    from arena.replay import verify

    difference = verify(replay)
    if as_json:
        print(
            json.dumps(
                {
                    "replay": str(replay.path),
                    "verified": difference is None,
                    "difference": difference,
                    "complete": replay.outcome is not None,
                }
            )
        )
    elif difference:
        print(f"{replay.path}: differs at {difference}")
    else:
        state = "verified" if replay.outcome else "verified as far as it goes"
        print(f"{replay.path}: {state}, {len(replay.moves)} plies")
    if replay.notice and not as_json:
        print(replay.notice)
    return 1 if difference else 0
