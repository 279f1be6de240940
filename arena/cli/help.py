"""Help of the commands: `--help` shows basic flags and two examples, `--help-all` all flags."""

from __future__ import annotations

import textwrap
from collections import UserDict
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from typer import Typer
from typer.core import TyperArgument, TyperCommand, TyperOption
from typer.main import get_command

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from typer._click import Command, Context, HelpFormatter


class Basics(NamedTuple):
    """The part of a command that its short help shows."""

    flags: str
    """Names of at most a dozen parameters, in the order of the help."""
    examples: tuple[str, ...]


BASICS = {
    "play": Basics(
        "seat level web backend players option text_level games seed out max_cost as_json",
        (
            "arena play cluedo --web",
            "arena play cluedo --seat 0=embedded:clue-tiny --text-level deductions",
        ),
    ),
    "replay": Basics(
        "position seat verify web html branch games export out as_json",
        (
            "arena replay runs/play --web",
            "arena replay FILE --branch 20 --seat 0=bot:oracle --games 10",
        ),
    ),
    "eval": Basics(
        "player against baseline from_ players text_level games seed out resume max_cost html",
        (
            "arena eval cluedo --player bot:oracle --baseline bot:detective --games 200",
            "arena eval --from runs/play --csv out.csv",
        ),
    ),
    "tournament": Basics(
        "player players text_level games tables seed out resume max_cost markdown html as_json",
        (
            "arena tournament cluedo --player bot:novice --player bot:detective --games 100",
            "arena tournament kuhn_poker --player bot:random --player embedded:FOLDER",
        ),
    ),
    "exploit": Basics(
        "player players option as_json",
        (
            "arena exploit kuhn_poker --player bot:random",
            "arena exploit liars_dice --option dice=1 --player bot:counter",
        ),
    ),
    "bench run": Basics(
        "player name text_level out resume executor max_concurrent max_cost dry_run as_json",
        (
            "arena bench run mini --player bot:detective --out detective",
            "arena bench run hidden-info-8 --player openai:gpt-4o-mini --max-cost 5",
        ),
    ),
    "serve": Basics(
        "host port lora_root context slots device",
        ("arena serve clue-tiny --port 5001", "arena serve FOLDER --lora-root adapters"),
    ),
    "mcp": Basics(
        "seat http host port turn_seconds players option text_level seed out",
        ("arena mcp cluedo", "arena mcp kuhn_poker --seat 0=mcp --seat 1=mcp --http"),
    ),
    "pretrain": Basics(
        "base_model lora_rank out games epochs bot text_level resume seed as_json",
        (
            "arena pretrain cluedo --out models/clue",
            "arena pretrain kuhn_poker --base-model FOLDER --lora-rank 8",
        ),
    ),
    "train": Basics(
        "backend preset steps base_model text_level opponents reward learning_rate server "
        "max_cost resume dry_run",
        (
            "arena train cluedo --backend art --preset demo",
            "arena train kuhn_poker --steps 50 --dry-run",
        ),
    ),
    "atropos train": Basics(
        "base_model url batch_size accumulation weight_sync server steps learning_rate lora_rank "
        "device log_dir resume",
        (
            "arena atropos train --model-name FOLDER --training-steps 20",
            "arena atropos train --model clue-tiny --server vllm --weight-sync lora_only",
        ),
    ),
    "atropos serve": Basics(
        "players option text_level rollout_server_url rollouts_per_group total_steps self_play "
        "opponents reward max_tokens seed base_url",
        (
            "arena atropos serve cluedo --openai.base_url http://127.0.0.1:5001/v1",
            "arena atropos serve kuhn_poker --env.group_size 8 --env.total_steps 100",
        ),
    ),
    "openenv serve": Basics(
        "players option text_level opponents reward host port max_sessions session_timeout out",
        (
            "arena openenv serve cluedo --opponents bot:detective --port 8000",
            "arena openenv serve kuhn_poker --opponents openai:gpt-4o-mini",
        ),
    ),
}
"""By command, without `arena`; a command that is not listed shows all its flags."""

MAX_NAME = 28
"""Widest name that has its text beside it."""
HELP_ALL = "--help-all"
KEYS = "Keys of --set KEY=VALUE and of arena.toml"
TYPE_NAMES = {"str": "TEXT", "int": "INT", "float": "FLOAT", "bool": "BOOL", "Path": "PATH"}


class CommandEntry(NamedTuple):
    """A command or a group of commands, which is imported when it is used."""

    target: str
    """`"module:function"` below arena.cli, or `"module:app"` of a group."""
    summary: str
    """Its line in the list of commands."""
    class_name: str = ""
    """Its class in the module; empty for `ArenaCommand`."""

    def load(self) -> Command:
        """Import the command."""
        module_name, _, name = self.target.partition(":")
        module = import_module(f"arena.cli.{module_name}")
        found = getattr(module, name)
        if isinstance(found, Typer):
            return get_command(found)
        app = Typer(add_completion=False, rich_markup_mode=None)
        cls = getattr(module, self.class_name) if self.class_name else ArenaCommand
        app.command(cls=cls)(found)
        return get_command(app)


class Commands(UserDict[str, Any]):
    """Commands by name, made from their entries; each is imported when it is looked up."""

    def __getitem__(self, name: str) -> Command:
        if isinstance(self.data[name], CommandEntry):
            self.data[name] = self.data[name].load()
        command: Command = self.data[name]
        return command


class ArenaCommand(TyperCommand):
    """Command with a short and a complete help, both at most 80 columns wide."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse the command line; --help-all asks for the complete help."""
        if HELP_ALL in args:
            ctx.ensure_object(dict)[HELP_ALL] = True
            args = ["--help"]
        return super().parse_args(ctx, args)

    @property
    def keys(self) -> Mapping[str, FieldInfo]:
        """The settings without a flag, which --set and arena.toml take."""
        return getattr(self.callback, "settings_keys", {})

    def defaults(self) -> Mapping[str, str]:
        """Return texts about defaults that depend on files in this folder, by setting."""
        return {}

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write usage, summary, examples and flags; the complete help has the keys too."""
        # The list of commands needs no flags.
        from arena.cli.flags import command_words

        command = " ".join(command_words(ctx))
        shown = basics = BASICS.get(command)
        if ctx.obj and ctx.obj.get(HELP_ALL):
            basics = None
        formatter.width = min(formatter.width, 80)
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        if shown:
            formatter.write("\nExamples:\n" + "".join(f"  {each}\n" for each in shown.examples))
        params = [each for each in self.get_params(ctx) if not getattr(each, "hidden", False)]
        options = {p.name or "": p for p in params if isinstance(p, TyperOption)}
        arguments = [p for p in params if isinstance(p, TyperArgument)]
        sections = {"Arguments": [(_spelling(p), p.help or "") for p in arguments], "Options": []}
        defaults = self.defaults()
        for name in basics.flags.split() if basics else options:
            option = options[name]
            text = " ".join(filter(None, (_help(option), defaults.get(name))))
            title = "Options" if basics else option.rich_help_panel or "Options"
            sections.setdefault(title, []).append((_spelling(option), text))
        if self.keys and not basics:
            sections[KEYS] = list(self._key_rows(defaults))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    write_definitions(formatter, rows)
        if basics:
            formatter.write(f"\nAll flags and keys: arena {command} {HELP_ALL}\n")

    def _key_rows(self, defaults: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        from arena.cli.flags import help_text, value_type

        for name, info in self.keys.items():
            kind = getattr(value_type(info), "__name__", "str")
            default = None if defaults else info.default
            text = " ".join(filter(None, (help_text(info, default), defaults.get(name))))
            yield f"{name} {TYPE_NAMES.get(kind, 'TEXT')}", text


def write_definitions(
    formatter: HelpFormatter, rows: Sequence[tuple[str, str]], column: int = 0
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


def _spelling(param: TyperArgument | TyperOption) -> str:
    """Return the name as it is typed, with the type of its value: `--games INT`."""
    if isinstance(param, TyperArgument):
        return (param.metavar or param.display_name_raw).upper()
    spelling = ", ".join(sorted(param.opts, key=len))
    if param.secondary_opts:
        spelling += "/" + "/".join(param.secondary_opts)
    if param.is_flag:
        return spelling
    bare = param.bare_type().removeprefix("list[").removesuffix("]")
    return f"{spelling} {param.metavar or TYPE_NAMES.get(bare, bare.upper())}"


def _help(param: TyperArgument | TyperOption) -> str:
    """Return the description, with the default value if it is worth showing."""
    text = param.help or ""
    default = param.default
    if not isinstance(param, TyperOption) or param.show_default is False or param.is_flag:
        return text
    if callable(default) or default in (None, "", [], ()):
        return text
    return text if "Default:" in text else f"{text} Default: {default}."
