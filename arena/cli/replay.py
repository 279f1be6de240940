"""`arena replay`: look at finished games, check them, ask what if, take them out as data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli import models
from arena.cli.flags import Flag, JsonFlag, flag_groups
from arena.errors import UsageError
from arena.printable import clean
from arena.words import counted

if TYPE_CHECKING:
    from arena.replay import Replay

LookFlag = partial(Flag, rich_help_panel="Look")
PageFlag = partial(Flag, rich_help_panel="Page")
WhatIfFlag = partial(Flag, rich_help_panel="What if")
DataFlag = partial(Flag, rich_help_panel="Data")


@dataclass(frozen=True, slots=True)
class LookFlags:
    """Looking at one replay in the terminal."""

    ply: Annotated[int | None, LookFlag(min=0, help="Position N, after N plies.")] = None
    seat: Annotated[
        list[str],
        LookFlag(
            help="I: only what this seat could see; with --ask: at its decisions only. "
            "I=SPEC, with --branch: who plays on there."
        ),
    ] = field(default_factory=list)
    verify: Annotated[bool, LookFlag("--verify", help="Play it again and compare.")] = False
    schema: Annotated[bool, LookFlag("--schema", help="Print the format's schema.")] = False
    svg: Annotated[Path | None, LookFlag(help="Write the position to this picture.")] = None


@dataclass(frozen=True, slots=True)
class PageFlags:
    """Looking at replays in a browser."""

    web: Annotated[
        bool,
        PageFlag("--web", help="Serve a page to a browser on this machine; takes --ply, --seat."),
    ] = False
    port: Annotated[int, PageFlag(min=0, max=65535, help="Of the page; 0: any that is free.")] = (
        8765
    )
    html: Annotated[
        Path | None,
        PageFlag(help="Write the page with this one game to a file that works offline."),
    ] = None


@dataclass(frozen=True, slots=True)
class WhatIfFlags:
    """What other players would have done."""

    branch: Annotated[
        int | None,
        WhatIfFlag(min=0, help="Play on from position N, after N plies."),
    ] = None
    ask: Annotated[
        str | None,
        WhatIfFlag(help="SPEC: ask this agent for its move at each decision of --seat."),
    ] = None
    seed: Annotated[
        int | None,
        WhatIfFlag(
            min=0,
            max=2**53,
            help="Of chance from --branch on (default: drawn), and of what --ask draws (default: "
            "the seed of the replay).",
        ),
    ] = None
    games: Annotated[int, WhatIfFlag(min=1, max=10**6, help="Times to play on from --branch.")] = 1
    at_once: Annotated[
        int,
        WhatIfFlag(min=1, max=10_000, help="Games of --branch, or questions of --ask, at a time."),
    ] = 16


@dataclass(frozen=True, slots=True)
class ExportFlags:
    """Replays as data."""

    export: Annotated[
        str | None, DataFlag(help="chat, parquet or art: what models read and wrote, as data.")
    ] = None
    reward: Annotated[
        str | None,
        DataFlag(
            help="TERM=WEIGHT,…: what the column 'reward' of --export holds, in the words of "
            "arena train --reward. Default: the game's own reward."
        ),
    ] = None
    out: Annotated[
        Path | None, DataFlag(help="File of --export; folder of --branch (runs/branch).")
    ] = None


@dataclass(frozen=True, slots=True)
class Call:
    """What the command was called with."""

    look: LookFlags
    page: PageFlags
    what_if: WhatIfFlags
    data: ExportFlags
    asking: models.ModelFlags
    paths: tuple[Path, ...]
    as_json: bool
    named: frozenset[str]
    """The flags that stand in the command line, by their names in Python."""

    @property
    def path(self) -> Path:
        """The one path. Raises UsageError for none and for several."""
        if not self.paths:
            raise UsageError("which replay? arena replay FILE, or arena replay FOLDER --web")
        if len(self.paths) > 1:
            raise UsageError(f"{self.paths[1]}: one replay at a time, except with --export")
        return self.paths[0]

    def replay(self) -> Replay:
        """The one replay. Raises UsageError for a folder, ReplayError for what is no replay."""
        from arena.replay import read_replay

        if self.path.is_dir():
            raise UsageError(
                f"{self.path} is a folder: `arena replay {self.path} --web` lists what is in it"
            )
        return read_replay(self.path)


@flag_groups
def replay_command(
    ctx: typer.Context,
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
    """Step through a replay, in the terminal or a browser; check it; ask what if; export it.

    Look: arena replay FILE --ply 20 --seat 0

    Page: arena replay FOLDER --web

    What if: arena replay FILE --branch 20 --seat 0=bot:oracle --games 10

    Data: arena replay FOLDER --export chat --out games.jsonl

    Models: arena replay FILE --ask openai:gpt-4o-mini --max-cost 0.50
    """
    from arena.cli.replay_modes import named_flags, run_of

    call = Call(look, page, what_if, data, asking, tuple(paths or ()), as_json, named_flags(ctx))
    return run_of(ctx, call)(call)


def print_schema(call: Call) -> int:
    from arena.episode import replay_json_schema

    print(json.dumps(replay_json_schema(), indent=2))
    return 0


def serve_page(call: Call) -> int:
    """Until Ctrl-C."""
    from arena.registry import catalog

    serve = catalog().load("viewer", "web")
    return int(serve(call.path, call.page.port, moment_address(call)) or 0)


def moment_address(call: Call) -> str:
    """How the address ends of the position of --ply as --seat saw it; "" if neither is given."""
    look = call.look
    if look.ply is None and not look.seat:
        return ""
    if call.path.is_dir():
        raise UsageError("--ply and --seat with --web: name the replay that they are about")
    replay = call.replay()
    check_ply(replay, look.ply)
    fields = {"at": look.ply, "seat": only_seat(replay, look.seat)}
    return "#" + "&".join(f"{name}={value}" for name, value in fields.items() if value is not None)


def write_html(call: Call) -> int:
    from arena.registry import catalog

    replay = call.replay()
    seat = only_seat(replay, call.look.seat)
    catalog().load("viewer", "html")(replay, seat, call.page.html)
    return 0


def write_svg(call: Call) -> int:
    from arena.registry import catalog

    file = call.look.svg
    if file is not None and file.suffix.lower() not in ("", ".svg"):
        raise UsageError(f"--svg {file}: it writes SVG; name the file {file.with_suffix('.svg')}")
    replay, ply = call.replay(), call.look.ply
    seat = only_seat(replay, call.look.seat)
    check_ply(replay, ply)
    catalog().load("viewer", "svg")(replay, ply, seat, file)
    return 0


def step_through(call: Call) -> int:
    from arena.registry import catalog

    replay, ply = call.replay(), call.look.ply
    seat = only_seat(replay, call.look.seat)
    check_ply(replay, ply)
    catalog().load("viewer", "json" if call.as_json else "terminal")(replay, ply, seat)
    return 0


def check_ply(replay: Replay, ply: int | None) -> None:
    if ply is not None and ply > len(replay.moves):
        raise UsageError(f"--ply {ply}: {replay.path} has {counted(len(replay.moves), 'ply')}")


def only_seat(replay: Replay, given: list[str]) -> int | None:
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


def verify_replay(call: Call) -> int:
    """Exit code 1 on the first difference, which is named."""
    from arena.replay import verify

    replay = call.replay()
    difference = verify(replay)
    if call.as_json:
        found = {"verified": difference is None, "difference": difference}
        complete = replay.outcome is not None
        print(json.dumps({"replay": str(replay.path), **found, "complete": complete}))
    elif difference:
        print(clean(f"{replay.path}: differs at {difference}"))
    else:
        state = "verified" if replay.outcome else "verified as far as it goes"
        print(clean(f"{replay.path}: {state}, {counted(len(replay.moves), 'ply')}"))
    if replay.notice and not call.as_json:
        print(replay.notice)
    return 1 if difference else 0
