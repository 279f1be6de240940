"""`arena replay`: look at finished games, check them, play on from them, export data."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.flags import JsonFlag, flag_groups, typed_names
from arena.cli.play_flags import ModelFlags
from arena.core.errors import UsageError
from arena.llm.config import Config, setting

if TYPE_CHECKING:
    from arena.episodes.replay import Replay

MODEL_FLAGS = frozenset(ModelFlags.model_fields)


class LookFlags(Config):
    """Views of one replay in the terminal."""

    position: int | None = setting(None, "Look", ge=0)
    """Position N, after N plies."""
    seat: list[str] = setting([], "Look")
    """I: only what this seat could see. I=SPEC, with --branch: who plays on there."""
    verify: bool = setting(False, "Look", flag="--verify")
    """Play it again and compare."""


class PageFlags(Config):
    """Views of replays in a browser."""

    web: bool = setting(False, "Page", flag="--web")
    """Serve a page to a browser on this machine; takes --position, --seat."""
    port: int = setting(8765, "Page", ge=0, le=65535)
    """Of the page; 0: any that is free."""
    html: Path | None = setting(None, "Page")
    """Write the page with this one game to a file that works offline."""


class WhatIfFlags(Config):
    """Other players from a position of a replay on."""

    branch: int | None = setting(None, "What if", ge=0)
    """Play on from position N, after N plies."""
    seed: int | None = setting(None, "What if", ge=0, le=2**53)
    """Of chance from --branch on. Default: drawn."""
    games: int = setting(1, "What if", ge=1, le=10**6)
    """Times to play on from --branch."""
    max_concurrent: int = setting(16, "What if", ge=1, le=10_000)
    """Games of --branch at a time."""


class ExportFlags(Config):
    """Replays as data."""

    export: str | None = setting(None, "Data")
    """chat or parquet: what models read and wrote."""
    reward: str | None = setting(None, "Data")
    """TERM=WEIGHT,…: what the column 'reward' of --export holds, in the words of arena train
    --reward. Default: the game's own reward."""
    out: Path | None = setting(None, "Data")
    """File of --export; folder of --branch (runs/branch)."""


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments of one call."""

    look: LookFlags
    page: PageFlags
    what_if: WhatIfFlags
    data: ExportFlags
    model_flags: ModelFlags
    paths: tuple[Path, ...]
    as_json: bool
    named: frozenset[str]
    """Flags of the command line, by their names in Python."""

    @property
    def path(self) -> Path:
        """The one path. Raises UsageError for none or several."""
        if not self.paths:
            raise UsageError(
                "missing argument: FILE; arena replay FILE, or arena replay FOLDER --web"
            )
        if len(self.paths) > 1:
            raise UsageError(f"{self.paths[1]}: one replay at a time, except with --export")
        return self.paths[0]

    def replay(self) -> Replay:
        """Read the one replay. Raises ReplayError for another file."""
        from arena.episodes.replay import read_replay

        return read_replay(self.path)


@dataclass(frozen=True, slots=True)
class Mode:
    """One mode of the command."""

    flag: str
    """Flag that selects it, by its name in Python; "" for the default mode."""
    takes: Set[str]
    """Other flags that it accepts."""
    target: str
    """`"module:function"` of `arena.cli.replay_…`, imported on use: each needs other libraries."""

    def run(self, call: Call) -> int:
        module, _, function = self.target.partition(":")
        code: int = getattr(import_module(f"arena.cli.replay_{module}"), function)(call)
        return code


MODES = (
    Mode("web", {"port", "position", "seat"}, "views:serve_page"),
    Mode("html", {"seat"}, "views:write_html"),
    Mode("verify", {"as_json"}, "views:verify_replay"),
    Mode(
        "branch",
        {"seat", "seed", "games", "out", "max_concurrent", "as_json", *MODEL_FLAGS},
        "branch:branch",
    ),
    Mode("export", {"reward", "out", "as_json"}, "views:export"),
    Mode("", {"position", "seat"}, "views:step_through"),
)
"""The first mode whose flag is given applies; the last is the default."""

OF_FOLDERS = frozenset({"web", "export"})
"""Flags of modes that need no replay, or take many."""


def mode_of(ctx: typer.Context, call: Call) -> Mode:
    """Return the mode of this call. Raises UsageError for a flag that the mode ignores."""
    groups = (call.look, call.page, call.what_if, call.data)
    values = {name: value for group in groups for name, value in group}
    # Position 0 of --branch is a value too.
    given = {name for name, value in values.items() if value is not None and value is not False}
    mode = next(each for each in MODES if each.flag in {"", *given})
    for name in sorted(call.named - mode.takes - {mode.flag, "paths"}):
        raise UsageError(_refusal(ctx, name, mode))
    if mode.flag not in OF_FOLDERS and len(call.paths) == 1 and call.path.is_dir():
        doing = _spelled(ctx).get(mode.flag, "the terminal")
        raise UsageError(
            f"{doing} takes one file: {call.path} is a folder; `arena replay {call.path} --web` "
            "lists what is in it"
        )
    return mode


def _spelled(ctx: typer.Context) -> dict[str, str]:
    """Return the flags as they are typed, by their names in Python."""
    keys = {name: f"--set {name}" for name in ModelFlags.model_fields}
    return keys | {each.name: each.opts[0] for each in ctx.command.params if each.name}


def _refusal(ctx: typer.Context, name: str, mode: Mode) -> str:
    spelled = _spelled(ctx)
    flag, here = spelled[name], spelled.get(mode.flag)
    if any(each.flag == name for each in MODES):
        return f"{flag} and {here}: one of them at a time"
    users = [spelled.get(each.flag, "the terminal") for each in MODES if name in each.takes]
    return f"{flag} goes with {_listed(users)}, not with {here or 'stepping through a replay'}"


def _listed(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


@flag_groups
def replay_command(
    ctx: typer.Context,
    look: LookFlags,
    page: PageFlags,
    what_if: WhatIfFlags,
    data: ExportFlags,
    model_flags: ModelFlags,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="A replay (.jsonl), or a folder of them.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Step through a replay, in the terminal or a browser; check it; branch it; export it.

    Look: arena replay FILE --position 20 --seat 0

    Page: arena replay FOLDER --web

    What if: arena replay FILE --branch 20 --seat 0=bot:oracle --games 10

    Data: arena replay FOLDER --export chat --out games.jsonl

    """
    named = typed_names(ctx)
    call = Call(look, page, what_if, data, model_flags, tuple(paths or ()), as_json, named)
    return mode_of(ctx, call).run(call)
