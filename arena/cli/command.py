"""Commands, made from the fields of their options; `--help` shows the basic ones, `--help-all` all.

A command is a function with the parameter `options`, a `Config`. Each field is a flag, a positional
argument, or a key of `--set KEY=VALUE`.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

import click
from click.core import ParameterSource

from arena.core.errors import UsageError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from arena.llm.config import Config, Setting

MAX_NAME = 28
"""Widest name that has its text beside it."""
HELP_ALL = "--help-all"
KEYS = "Keys of --set KEY=VALUE and of arena.toml"
TYPE_NAMES = {bool: "BOOL", int: "INT", float: "FLOAT", Path: "PATH"}
HELP_NAMES = {"help_option_names": ["-h", "--help"]}


class CommandEntry(NamedTuple):
    """A command or a group of commands, which is imported when it is used."""

    summary: str
    """Its line in the list of commands."""
    target: str = ""
    """`"module:function"` below arena.cli; empty for a group."""
    commands: Mapping[str, CommandEntry] = {}
    """The commands of a group."""
    default: str = ""
    """Command of a group that is meant if none is named."""

    def load(self, name: str) -> click.Command:
        """Import the command."""
        if self.commands:
            return CommandGroup(name, self.commands, self.summary, default=self.default)
        module_name, _, function = self.target.partition(":")
        module = import_module(f"arena.cli.{module_name}")
        return OptionsCommand(name, getattr(module, function))


class CommandGroup(click.Group):
    """Commands by name, below the headings `titles`: names with spaces between them."""

    def __init__(
        self,
        name: str,
        entries: Mapping[str, CommandEntry],
        summary: str,
        titles: Mapping[str, str] | None = None,
        default: str = "",
        params: list[click.Parameter] | None = None,
    ) -> None:
        super().__init__(name, help=summary, params=params, context_settings=HELP_NAMES)
        self.entries = entries
        self.titles = titles or {"Commands": " ".join(entries)}
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; without a command the default one is meant, or the help."""
        if self.default and not {*args[:1]} & {*self.entries, *ctx.help_option_names}:
            args = [self.default, *args]
        if not args and not ctx.resilient_parsing:
            click.echo(self.get_help(ctx), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        return self.entries[cmd_name].load(cmd_name) if cmd_name in self.entries else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is named first. Raises UsageError for a misspelt one."""
        if not args[0].startswith("-") and args[0] not in self.entries:
            from arena.core.text import did_you_mean

            near = did_you_mean(args[0], self.entries)
            raise UsageError(
                f"there is no command '{args[0]}'; {near}`{ctx.command_path} --help` lists them"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by group, without importing them."""
        formatter.width = min(formatter.width, 80)
        column = max(map(len, self.entries)) + 4
        for title, names in self.titles.items():
            with formatter.section(title):
                rows = [(name, self.entries[name].summary) for name in names.split()]
                write_definitions(formatter, rows, column)


class OptionsCommand(click.Command):
    """Command of a function that takes its options; both helps are at most 80 columns wide."""

    def __init__(self, name: str, function: Callable[[Any], int]) -> None:
        self.function = function
        self.config: type[Config] = get_type_hints(function)["options"]
        text = inspect.getdoc(function)
        params = [*parameters(self.config)]
        super().__init__(name, help=text, params=params, context_settings=HELP_NAMES)

    def invoke(self, ctx: click.Context) -> int:
        """Load the options and call the function."""
        from_command_line = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in ctx.params.items()
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
            and value not in (None, ())
        }
        keys = assigned(from_command_line.pop("set_values", ()), self.config)
        game = from_command_line.get("game")
        if isinstance(game, str) and game.endswith(".py"):
            from arena.plugins.catalog import load_game_file

            from_command_line["game"] = load_game_file(Path(game))
        if isinstance(app := ctx.find_root().command, CommandGroup):
            check_tables(app.entries)
        return self.function(self.config.of_command(words_of(ctx), {**keys, **from_command_line}))

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage, summary, examples and flags; the complete help has the keys too."""
        formatter.width = min(formatter.width, 80)
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        if self.config.help_examples:
            lines = "".join(f"  {each}\n" for each in self.config.help_examples)
            formatter.write(f"\nExamples:\n{lines}")
        is_short = bool(self.config.short_help) and not ctx.meta.get(HELP_ALL)
        for title, rows in help_sections(self.config, is_short).items():
            with formatter.section(title):
                write_definitions(formatter, rows)
        if is_short:
            command = " ".join(words_of(ctx))
            formatter.write(f"\nAll flags and keys: arena {command} {HELP_ALL}\n")


def check_tables(commands: Iterable[str]) -> None:
    """Raise UsageError for a table of arena.toml that is of no command and no setting of models."""
    from arena.llm.config import unknown_key
    from arena.llm.environment import config_file, config_path
    from arena.llm.settings import Settings

    known = [*commands, *Settings.model_fields]
    for name in config_file():
        if name not in known:
            raise unknown_key(str(config_path()), name, known)


def words_of(ctx: click.Context) -> list[str]:
    """Return the words of the command behind `arena`: `["play"]`, `["atropos", "train"]`."""
    return ctx.command_path.split()[1:]


def parameters(config: type[Config]) -> Iterator[click.Parameter]:
    """Yield a parameter for each argument and flag; their values are checked by the config."""
    settings = config.settings()
    # Arguments come in the order of the fields: those of base classes first.
    for setting in (settings[name] for name in config.model_fields if name in settings):
        if setting.metavar:
            bare = setting.is_required or setting.is_list
            yield click.Argument(
                [setting.name],
                nargs=-1 if setting.is_list else 1,
                required=False,
                metavar=setting.metavar if bare else f"[{setting.metavar}]",
            )
    for setting in settings.values():
        if setting.flag and setting.is_bool:
            # The second name is the opposite; click reads both from one text.
            yield click.Option([setting.name, setting.flag], is_flag=True, default=None)
        elif setting.flag:
            yield click.Option([setting.name, *setting.flag.split("/")], multiple=setting.is_list)
    if any(setting.is_key for setting in settings.values()):
        yield click.Option(["set_values", "--set"], multiple=True)
    yield click.Option([HELP_ALL], is_flag=True, is_eager=True, expose_value=False, callback=_help)


def _help(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
    """Print the complete help and exit, if the flag asks for it."""
    if is_given:
        ctx.meta[HELP_ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


def assigned(assignments: Iterable[str], config: type[Config]) -> dict[str, JsonValue]:
    """Return the values of --set by key. Raises UsageError for an unknown key."""
    from arena.llm.config import unknown_key

    given: dict[str, JsonValue] = {}
    settings = config.settings()
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text!r} is not KEY=VALUE, for example temperature=0.7")
        if key not in settings or settings[key].metavar:
            raise unknown_key(f"--set {text}", key, config.keys_of_files())
        given[key] = [value] if settings[key].is_list else value
    return given


def help_sections(config: type[Config], is_short: bool = False) -> dict[str, list[tuple[str, str]]]:
    """Return arguments, flags and keys as they are typed, with their texts, by heading."""
    settings, texts = config.settings(), config.help_texts()
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    keys = []
    for setting in settings.values():
        if setting.metavar:
            sections["Arguments"].append((setting.metavar.rstrip("."), texts[setting.name]))
        elif setting.is_key:
            keys.append((f"{setting.name} {_type_name(setting)}", texts[setting.name]))
        elif not is_short:
            row = _spelling(setting), texts[setting.name]
            sections.setdefault(setting.panel or "Options", []).append(row)
    if is_short:
        names = config.short_help.split()
        sections["Options"] = [(_spelling(settings[name]), texts[name]) for name in names]
    elif keys:
        row = "--set KEY=VALUE", f"A setting that {HELP_ALL} lists as a key."
        sections["Options"].append(row)
        sections[KEYS] = keys
    return {title: rows for title, rows in sections.items() if rows}


def _spelling(setting: Setting) -> str:
    """Return a flag as it is typed, with the type of its value: `--games INT`."""
    if setting.is_bool:
        return setting.flag
    names = ", ".join(sorted(setting.flag.split("/"), key=len))
    return f"{names} {_type_name(setting)}"


def _type_name(setting: Setting) -> str:
    kind = get_args(setting.kind)[0] if setting.is_list else setting.kind
    return TYPE_NAMES.get(kind, "TEXT")


def write_definitions(
    formatter: click.HelpFormatter, rows: Sequence[tuple[str, str]], column: int = 0
) -> None:
    """Write a list of names and texts in two columns, the second one at least at `column`.

    Unlike `write_dl`, it never breaks a text at a hyphen, so flags such as --dry-run stay whole.
    """
    longest = max(len(name) for name, _ in rows)
    column = max(column, formatter.current_indent + min(longest, MAX_NAME) + 2)
    for name, text in rows:
        lines = textwrap.wrap(
            text, formatter.width - column, break_on_hyphens=False, break_long_words=False
        )
        start = " " * formatter.current_indent + name
        # A long name has a line of its own.
        if len(start) > column - 2 or not lines:
            formatter.write(f"{start}\n")
            start = ""
        for line in lines:
            formatter.write(f"{start:<{column}}{line}\n")
            start = ""
