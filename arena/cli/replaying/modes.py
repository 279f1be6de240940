"""Modes of `arena replay`, and the flags that each accepts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib import import_module

import typer

from arena.cli.common.models import ModelFlags
from arena.cli.replaying.call import Call
from arena.core.errors import UsageError

MODEL_FLAGS = frozenset(each.name for each in fields(ModelFlags))
UNASKED = frozenset({"chat", "fallback", "beliefs", "logprobs"})
"""Flags about models that --ask ignores: each decision is a chat of its own, a reply without a
legal action is counted, and no replay is written."""
FILM = "film"
FILM_FORMATS = frozenset({"gif", "mp4"})
"""Values of --export that make a film instead of data."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One mode of the command."""

    flag: str
    """Flag that selects it, by its name in Python; "" for the default mode, FILM for --export with
    the format of a film."""
    takes: frozenset[str]
    """Other flags that it accepts."""
    target: str
    """`"module:function"`, imported on use: each needs other libraries."""

    def run(self, call: Call) -> int:
        module, _, function = self.target.partition(":")
        code: int = getattr(import_module(module), function)(call)
        return code


def _mode(flag: str, takes: str, target: str, more: frozenset[str] = frozenset()) -> Mode:
    return Mode(flag, frozenset(takes.split()) | more, f"arena.cli.replaying.{target}")


MODES = (
    _mode("web", "port position seat", "look:serve_page"),
    _mode("html", "seat", "look:write_html"),
    _mode("svg", "position seat", "look:write_svg"),
    _mode("verify", "as_json", "look:verify_replay"),
    _mode("schema", "", "look:print_schema"),
    _mode("branch", "seat seed games max_concurrent out as_json", "what_if:branch", MODEL_FLAGS),
    _mode("ask", "seat seed max_concurrent as_json", "what_if:ask", MODEL_FLAGS - UNASKED),
    _mode(FILM, "export position until seat seconds size dark out as_json", "film:film"),
    _mode("export", "reward out as_json", "export:export"),
    _mode("", "position seat as_json", "look:step_through"),
)
"""The first mode whose flag is given applies; the last is the default."""

OF_FOLDERS = frozenset({"web", "schema", "export"})
"""Modes that need no replay, or take many."""


def mode_of(ctx: typer.Context, call: Call) -> Mode:
    """Return the mode of this call. Raises UsageError for a flag that the mode ignores."""
    groups = (call.look, call.page, call.what_if, call.data, call.film)
    values = {each.name: getattr(group, each.name) for group in groups for each in fields(group)}
    # Position 0 of --branch is a value too.
    given = {name for name, value in values.items() if value is not None and value is not False}
    given |= {FILM} if call.data.export in FILM_FORMATS else set()
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
    flags = {each.name: each.opts[0] for each in ctx.command.params if each.name}
    return {**flags, FILM: "--export of a film (mp4, gif)"}


def _refusal(ctx: typer.Context, name: str, mode: Mode) -> str:
    spelled = _spelled(ctx)
    flag, here = spelled[name], spelled.get(mode.flag)
    if any(each.flag == name for each in MODES):
        return f"{flag} and {here}: one of them at a time"
    users = [spelled.get(each.flag, "the terminal") for each in MODES if name in each.takes]
    return f"{flag} goes with {_listed(users)}, not with {here or 'stepping through a replay'}"


def _listed(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
