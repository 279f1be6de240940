"""Command line of arena: one file for each command.

Every error is one line on stderr; `arena --debug COMMAND` adds its trace. Exit codes: 2 wrong
usage, 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP, 1 any other error.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import typer
from typer._click import Context, HelpFormatter
from typer.core import TyperGroup

from arena.cli.help import CommandEntry, Commands, write_definitions
from arena.cli.terminal import echo
from arena.core.errors import ArenaError, PluginWarning, UsageError
from arena.core.text import shorten
from arena.llm.environment import DOTENV_FILE, dotenv, redact_keys

DEBUG = "ARENA_DEBUG"
"""Variable of the flag --debug."""
MAX_ERROR_LENGTH = 3000
"""Characters of an error message; the longest useful ones list names."""

COMMANDS = {
    "play": CommandEntry("play:play_command", "Play games and write a replay of each."),
    "replay": CommandEntry("replay:replay_command", "View, verify, branch or export replays."),
    "web": CommandEntry("web:web_command", "Show a folder's games, results and runs in a browser."),
    "eval": CommandEntry("evaluate:eval_command", "Measure a player, or finished games."),
    "tournament": CommandEntry("tournament:tournament_command", "Rate players against each other."),
    "exploit": CommandEntry("exploit:exploit_command", "Compute how exploitable a bot is."),
    "train": CommandEntry(
        "train:train_command", "Train a model by GRPO over full games.", "TrainCommand"
    ),
    "pretrain": CommandEntry("pretrain:pretrain_command", "Make a small model that imitates bots."),
    "serve": CommandEntry("serve:serve_command", "Serve a model to OpenAI-compatible clients."),
    "mcp": CommandEntry("mcp:mcp_command", "Let MCP clients play, such as coding agents."),
    "list": CommandEntry("listing:app", "List games, players and models."),
    "doctor": CommandEntry(
        "doctor:doctor_command", "Check what is installed; write a settings file."
    ),
    "bench": CommandEntry("bench:app", "Run a benchmark suite, verify it, rank players."),
    "atropos": CommandEntry("atropos:app", "Exchange training games with Atropos."),
    "openenv": CommandEntry("openenv:app", "Serve games as environments of OpenEnv."),
    "verifiers": CommandEntry("verifiers:app", "Package games as environments of verifiers."),
}
"""The commands by name; each file is imported when its command is used."""

GROUPS = {
    "Play": "play replay web list",
    "Evaluate": "eval tournament bench exploit",
    "Train": "train pretrain",
    "Connect": "serve mcp atropos openenv verifiers",
    "Set up": "doctor",
}
"""The commands as `arena --help` and the documentation group them."""

OUTPUT_ERRORS = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
"""Errors of writing to standard output."""

STOP_SIGNALS = ("SIGTERM", "SIGHUP")
"""Signals that end a command as Ctrl-C does: of `kill`, `timeout`, a batch system, a closed
terminal."""
INTERRUPTED = 128 + signal.SIGINT
"""Exit code of a command that a signal has ended: 128 and its number, as shells count."""

SIMILAR = str.maketrans(
    dict(zip("−–—·×→✓✗“”‘’", "---*x>yn\"\"''", strict=True)) | {"≤": "<=", "≥": ">=", "…": "..."}
)
"""Replacements of characters that the encoding of an output lacks."""

COLUMN = max(map(len, COMMANDS)) + 4
"""Where the summaries begin, in every group."""


class RootGroup(TyperGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": {}})
        self.commands = Commands(COMMANDS)

    def invoke(self, ctx: Context) -> object:
        """Run the command. Ctrl-C becomes an Abort: Typer would end without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Abort from None

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names of the commands."""
        return [name for names in GROUPS.values() for name in names.split()]

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the commands by group, without importing them."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                rows = [(name, COMMANDS[name].summary) for name in names.split()]
                write_definitions(formatter, rows, COLUMN)


app = typer.Typer(
    name="arena",
    cls=RootGroup,
    help="Language models, bots and people play games of hidden information. Cluedo first.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    # Every flag can also be set in the environment: --out of play is ARENA_PLAY_OUT.
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "ARENA"},
)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", show_envvar=False, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show the trace of an error."),
) -> None:
    if debug:  # `run` reads it, which also reports errors of other parameters.
        os.environ[DEBUG] = "1"
    if version:
        from arena.core.version import __version__

        print(f"arena {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line and exit."""
    warnings.showwarning = partial(_show_warning, warnings.showwarning)
    codecs.register_error("similar", _replace_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="similar")
    stopped_by = stop_as_ctrl_c()
    code = run(sys.argv[1:])
    sys.exit(128 + stopped_by[0] if stopped_by and code == INTERRUPTED else code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        _read_dotenv()
        code = app(arguments, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    # Other exceptions than arena's are faults of arena or of a plugin: one line for them, too.
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get(DEBUG) == "1":
            traceback.print_exc()
        return _fail(*_described(error))
    return code if isinstance(code, int) else 0


def stop_as_ctrl_c() -> list[int]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does; return the list that each adds its number to.

    A signal that is ignored, as by `nohup`, stays ignored.
    """
    received: list[int] = []
    owner = os.getpid()

    def stop(number: int, _: object) -> None:
        if os.getpid() != owner:  # A worker that was forked ends at once.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        received.append(number)
        # A terminal that was closed refuses the last lines: they must not end the clean-up.
        for stream in (sys.stdout, sys.stderr) if terminals else ():
            if stream.fileno() in terminals and not stream.isatty():
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        # A shell starts jobs in the background with SIGINT ignored.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    terminals = [s.fileno() for s in (sys.stdout, sys.stderr) if s is not None and s.isatty()]
    for name in STOP_SIGNALS:
        number = getattr(signal, name, None)  # Windows has no SIGHUP.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, stop)
    return received


def _replace_characters(error: UnicodeError) -> tuple[str, int]:
    """Return similar characters, or question marks, for those that the output cannot show."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(SIMILAR)
    return "".join(each if each.isascii() else "?" for each in text), error.end


def _described(error: BaseException) -> tuple[str, int]:
    """Return the message for an exception, "" for none, and the exit code."""
    while isinstance(error, BaseExceptionGroup):  # Of a group of tasks.
        error = error.exceptions[0]
    match error:
        case typer.TyperException():
            message = error.format_message().rstrip(".")
            return "; ".join(filter(None, [message, _origin(error)])), error.exit_code
        case ArenaError():
            return str(error), 2 if isinstance(error, UsageError) else 1
        case KeyboardInterrupt() | typer.Abort():
            return "interrupted", INTERRUPTED
        case MemoryError():
            return "out of memory; what was written is kept", 1
        case OSError():
            return _os_error_text(error), 1
    fault = f"unexpected {type(error).__name__}: {error}"
    return f"{fault}; 'arena --debug COMMAND' shows where it comes from", 1


def _read_dotenv() -> None:
    """Put the flags that `.env` sets into the environment, where Typer reads them.

    Keys of providers stay out of it: other programs that are started could read them there.
    """
    own = {name: text for name, text in dotenv().items() if not os.environ.get(name)}
    if not own:
        return
    from arena.llm.config import check_folder_values  # The import takes time.

    flags = tuple(f"ARENA_{name.upper()}_" for name in COMMANDS)
    for name, text in own.items():
        if name.startswith((*flags, "ARENA_VLLM_PYTHON", "LLM_BACKEND", "ART_WRAPPER_URL")):
            check_folder_values(DOTENV_FILE, text, name)
    os.environ |= {n: text for n, text in own.items() if n.startswith(flags)}


def _show_warning(
    usual: Callable[..., None], message: Warning | str, category: type[Warning], *place: Any
) -> None:
    """Print a plugin that is left out in one line, other warnings as Python usually does."""
    if issubclass(category, PluginWarning):
        _fail(f"warning: {message}", 0)
    else:
        usual(message, category, *place)


def _origin(error: typer.TyperException) -> str:
    """Return the source of a bad value that is not in the command line."""
    ctx, param = getattr(error, "ctx", None), getattr(error, "param", None)
    if ctx is None or param is None or param.name is None:
        return ""
    source = ctx.get_parameter_source(param.name)
    if source is None or source.name != "ENVIRONMENT":
        return ""
    variable = param.envvar or f"{ctx.auto_envvar_prefix}_{param.name.upper()}"
    return f"it comes from the environment variable {variable}"


def _os_error_text(error: OSError) -> str:
    """Return the message for an error of the system; "" if the reader of the output has gone."""
    if error.errno not in OUTPUT_ERRORS:
        return str(error)
    # The interpreter must not write the rest of the buffer on exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return ""
    return f"cannot write the output: {error.strerror}"


def _fail(message: str, code: int) -> int:
    if message:
        # It may quote a file, which must neither steer the terminal nor fill it.
        line = " ".join(redact_keys(message).split())
        echo(f"arena: {shorten(line, MAX_ERROR_LENGTH)}", sys.stderr)
    return code
