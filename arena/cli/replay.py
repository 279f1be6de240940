"""`arena replay`: look at finished games, check them, ask what if, export data and films."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from arena.cli.flags import JsonFlag, flag_groups, typed_names
from arena.cli.play_flags import ModelFlags
from arena.cli.replay_flags import Call, ExportFlags, FilmFlags, LookFlags, PageFlags, WhatIfFlags
from arena.core.errors import UsageError

MODEL_FLAGS = frozenset(ModelFlags.model_fields)
UNASKED = frozenset({"chat", "fallback", "beliefs", "logprobs"})
"""Flags about models that --ask ignores: each decision is a chat of its own, a reply without a
legal action is counted, and no replay is written."""
FILM_FORMATS = ("mp4", "gif")
"""Values of --export that make a film instead of data."""
FILM_FLAGS = "position until seat seconds size dark out as_json"


@dataclass(frozen=True, slots=True)
class Mode:
    """One mode of the command."""

    flag: str
    """Flag that selects it, by its name in Python; "" for the default mode."""
    takes: frozenset[str]
    """Other flags that it accepts."""
    target: str
    """`"module:function"`, imported on use: each needs other libraries."""
    formats: tuple[str, ...] = ()
    """Values of --export that select it; (): all."""

    def applies(self, given: set[str], export: str | None) -> bool:
        """Return whether flags, by their names in Python, select this mode."""
        return self.flag in {"", *given} and (not self.formats or export in self.formats)

    @property
    def takes_folders(self) -> bool:
        """Whether it needs no replay, or takes many."""
        return self.flag in OF_FOLDERS and not self.formats

    def spelled(self, flags: dict[str, str]) -> str | None:
        """Return the flag as it is typed; None for the default mode."""
        return " ".join(filter(None, [flags.get(self.flag), "/".join(self.formats)])) or None

    def run(self, call: Call) -> int:
        module, _, function = self.target.partition(":")
        code: int = getattr(import_module(module), function)(call)
        return code


def _mode(
    flag: str,
    takes: str,
    target: str,
    more: frozenset[str] = frozenset(),
    formats: tuple[str, ...] = (),
) -> Mode:
    return Mode(flag, frozenset(takes.split()) | more, f"arena.cli.replay_{target}", formats)


MODES = (
    _mode("web", "port position seat", "views:serve_page"),
    _mode("html", "seat", "views:write_html"),
    _mode("svg", "position seat", "views:write_svg"),
    _mode("verify", "as_json", "views:verify_replay"),
    _mode("print_schema", "", "views:print_schema"),
    _mode("branch", "seat seed games max_concurrent out as_json", "branch:branch", MODEL_FLAGS),
    _mode("ask", "seat seed max_concurrent as_json", "branch:ask", MODEL_FLAGS - UNASKED),
    _mode("export", FILM_FLAGS, "views:film", formats=FILM_FORMATS),
    _mode("export", "reward out as_json", "views:export"),
    _mode("", "position seat as_json", "views:step_through"),
)
"""The first mode whose flag is given applies; the last is the default."""

OF_FOLDERS = frozenset({"web", "print_schema", "export"})


def mode_of(ctx: typer.Context, call: Call) -> Mode:
    """Return the mode of this call. Raises UsageError for a flag that the mode ignores."""
    groups = (call.look, call.page, call.what_if, call.data)
    values = {name: value for group in groups for name, value in group}
    # Position 0 of --branch is a value too.
    given = {name for name, value in values.items() if value is not None and value is not False}
    mode = next(each for each in MODES if each.applies(given, call.data.export))
    for name in sorted(call.named - mode.takes - {mode.flag, "paths"}):
        raise UsageError(_refusal(ctx, name, mode))
    if not mode.takes_folders and len(call.paths) == 1 and call.path.is_dir():
        doing = mode.spelled(_spelled(ctx)) or "the terminal"
        raise UsageError(
            f"{doing} takes one file: {call.path} is a folder; `arena replay {call.path} --web` "
            "lists what is in it"
        )
    return mode


def _spelled(ctx: typer.Context) -> dict[str, str]:
    """Return the flags as they are typed, by their names in Python."""
    keys = {name: f"--set {name}" for name in (*ModelFlags.model_fields, *FilmFlags.model_fields)}
    return keys | {each.name: each.opts[0] for each in ctx.command.params if each.name}


def _refusal(ctx: typer.Context, name: str, mode: Mode) -> str:
    spelled = _spelled(ctx)
    flag, here = spelled[name], mode.spelled(spelled)
    if any(each.flag == name for each in MODES):
        return f"{flag} and {here}: one of them at a time"
    modes = [each for each in MODES if name in each.takes]
    flags = [each.flag for each in modes]
    # What films share with data goes with --export.
    modes = [each for each in modes if not each.formats or flags.count(each.flag) == 1]
    users = [each.spelled(spelled) or "the terminal" for each in modes]
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
    film: FilmFlags,
    model_flags: ModelFlags,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="A replay (.jsonl), or a folder of them.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Step through a replay, in the terminal or a browser; check it; ask what if; export it.

    Look: arena replay FILE --position 20 --seat 0

    Page: arena replay FOLDER --web

    What if: arena replay FILE --branch 20 --seat 0=bot:oracle --games 10

    Data: arena replay FOLDER --export chat --out games.jsonl

    Film: arena replay FILE --export mp4 --seat 0 --out game.mp4

    Models: arena replay FILE --ask openai:gpt-4o-mini --max-cost 0.50
    """
    named = typed_names(ctx)
    call = Call(look, page, what_if, data, film, model_flags, tuple(paths or ()), as_json, named)
    return mode_of(ctx, call).run(call)
