"""Help of the commands: `--help` shows basic flags and two examples, `--help-all` all flags."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from typer import Abort
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from arena.core.errors import UsageError

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter


class Basics(NamedTuple):
    """The part of a command that its short help shows."""

    flags: str
    """Names of at most a dozen parameters, in the order of the help."""
    examples: tuple[str, ...]


BASICS = {
    "play": Basics(
        "seat web backend players variant option text_level games seed out max_cost as_json",
        (
            "arena play cluedo --web",
            "arena play cluedo --seat 0=embedded:clue-tiny --text-level deductions",
        ),
    ),
    "replay": Basics(
        "position seat verify web html branch games ask export out as_json",
        (
            "arena replay runs/play --web",
            "arena replay FILE --branch 20 --seat 0=bot:oracle --games 10",
        ),
    ),
    "eval": Basics(
        "player against baseline players text_level games until_ci seed out resume max_cost html",
        (
            "arena eval cluedo --player bot:oracle --baseline bot:detective --games 200",
            "arena eval cluedo --player openai:gpt-4o-mini --games 20 --max-cost 2",
        ),
    ),
    "tournament": Basics(
        "player players text_level games tables seed out resume max_cost markdown html as_json",
        (
            "arena tournament cluedo --player bot:novice --player bot:detective --games 100",
            "arena tournament kuhn_poker --player bot:random --player embedded:FOLDER",
        ),
    ),
    "analyze": Basics(
        "csv score markdown html as_json explain",
        ("arena analyze runs/eval/RUN --html report.html", "arena analyze runs/play --csv out.csv"),
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
    "pretrain": Basics(
        "base_model lora_rank out games epochs bot text_level resume seed as_json",
        (
            "arena pretrain cluedo --out models/clue",
            "arena pretrain kuhn_poker --base-model smollm2 --lora-rank 8",
        ),
    ),
    "train": Basics(
        "backend preset steps base_model text_level opponents reward learning_rate server wandb "
        "resume dry_run",
        (
            "arena train cluedo --backend art --preset demo",
            "arena train kuhn_poker --steps 50 --dry-run",
        ),
    ),
    "atropos train": Basics(
        "model_name url batch_size accumulation weight_sync server steps learning_rate lora_rank "
        "device log_dir resume",
        (
            "arena atropos train --model-name smollm2 --training-steps 20",
            "arena atropos train --model clue-tiny --server vllm --weight-sync lora_only",
        ),
    ),
    "atropos serve": Basics(
        "players option text_level rollout_server_url group_size total_steps seats opponents "
        "reward max_tokens seed base_url",
        (
            "arena atropos serve cluedo --openai.base_url http://127.0.0.1:5001/v1",
            "arena atropos serve kuhn_poker --env.group_size 8 --env.total_steps 100",
        ),
    ),
    "openenv serve": Basics(
        "players option text_level opponents reward host port token max_sessions session_timeout "
        "out",
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
RENAMED = {
    "--answer-tokens": "--max-tokens",
    "--at-once": "--max-concurrent",
    "--concurrency": "--max-concurrent",
    "--ply": "--position",
    "--stop-legality": "--stop-legal-rate",
}
"""Flags of earlier versions and their present names."""
TYPE_NAMES = {"str": "TEXT", "int": "INT", "float": "FLOAT", "Path": "PATH"}


class ArenaGroup(TyperGroup):
    """The group of all commands."""

    def invoke(self, ctx: Context) -> object:
        """Run the command. Ctrl-C becomes an Abort: Typer would end without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Abort from None


class ArenaCommand(TyperCommand):
    """Command with a short and a complete help, both at most 80 columns wide."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse the command line. Raises UsageError for a flag that has a new name."""
        known = {name for each in self.get_params(ctx) for name in each.opts}
        for argument in args:
            flag = argument.partition("=")[0]
            if flag in RENAMED and flag not in known:
                raise UsageError(f"{flag} is called {RENAMED[flag]} now")
        if HELP_ALL in args:
            ctx.ensure_object(dict)[HELP_ALL] = True
            args = ["--help"]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write usage, summary, examples and flags."""
        command = _path(ctx)
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
        sections: dict[str, list[TyperArgument | TyperOption]] = {
            "Arguments": [p for p in params if isinstance(p, TyperArgument)]
        }
        if basics:
            sections["Options"] = [options[name] for name in basics.flags.split()]
        else:
            for option in options.values():
                sections.setdefault(option.rich_help_panel or "Options", []).append(option)
        for title, members in sections.items():
            if members:
                with formatter.section(title):
                    _write_definitions(formatter, [(_spelling(p), _help(p)) for p in members])
        if basics:
            formatter.write(f"\nAll flags: arena {command} {HELP_ALL}\n")


def _write_definitions(formatter: HelpFormatter, rows: Sequence[tuple[str, str]]) -> None:
    """Write a list of names and texts in two columns.

    Unlike `write_dl`, it never breaks a text at a hyphen, so flags such as --dry-run stay whole.
    """
    longest = max(len(name) for name, _ in rows)
    column = formatter.current_indent + min(longest, MAX_NAME) + 2
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


def _path(ctx: Context) -> str:
    """Return the words of the command behind `arena`: `play`, `atropos train`."""
    words = [ctx.info_name or ""]
    while ctx.parent is not None and ctx.parent.parent is not None:
        ctx = ctx.parent
        words.insert(0, ctx.info_name or "")
    return " ".join(words)


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
