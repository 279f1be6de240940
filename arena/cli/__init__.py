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

import click

from arena.cli.command import CommandEntry, CommandGroup
from arena.cli.terminal import echo
from arena.core.errors import ArenaError, PluginWarning, UsageError
from arena.core.text import shorten
from arena.llm.environment import redact_keys

DEBUG = "ARENA_DEBUG"
"""Variable of the flag --debug."""
COMPLETE = "_ARENA_COMPLETE"
"""Variable by which a shell asks for completions: `eval "$(_ARENA_COMPLETE=bash_source arena)"`."""
MAX_ERROR_LENGTH = 3000
"""Characters of an error message; the longest useful ones list names."""

COMMANDS = {
    "play": CommandEntry("Play games and write a replay of each.", "play:play"),
    "replay": CommandEntry(
        "View, verify, branch or export replays.",
        commands={
            "view": CommandEntry("Step through a replay, or show it in a browser.", "replay:view"),
            "verify": CommandEntry("Play the game again and compare.", "replay:verify_replay"),
            "branch": CommandEntry("Let other players play on from a position.", "replay:branch"),
            "export": CommandEntry("Write replays as training data.", "replay:export"),
        },
        default="view",
    ),
    "web": CommandEntry("Show a folder's games, results and runs in a browser.", "web:web"),
    "eval": CommandEntry("Measure a player, or finished games.", "evaluate:evaluate"),
    "tournament": CommandEntry("Rate players against each other.", "tournament:tournament"),
    "exploit": CommandEntry("Compute how exploitable a bot is.", "exploit:exploit"),
    "train": CommandEntry("Train a model by GRPO over full games.", "train:train"),
    "pretrain": CommandEntry("Make a small model that imitates bots.", "pretrain:pretrain"),
    "serve": CommandEntry("Serve a model to OpenAI-compatible clients.", "serve:serve"),
    "mcp": CommandEntry("Let MCP clients play, such as coding agents.", "mcp:mcp"),
    "list": CommandEntry(
        "List games, players and models.",
        commands={
            "games": CommandEntry("List the games, or show one.", "listing:list_games"),
            "agents": CommandEntry("List who can take a seat.", "listing:list_agents"),
            "models": CommandEntry("List the models on this machine.", "listing:list_models"),
        },
    ),
    "doctor": CommandEntry("Check what is installed, and the keys.", "doctor:doctor"),
    "bench": CommandEntry("Measure a player by a benchmark suite.", "bench:bench"),
    "atropos": CommandEntry(
        "Exchange training games with Atropos.",
        commands={
            "train": CommandEntry("Train a model on batches of games.", "atropos:train"),
            "serve": CommandEntry("Play games, and push them for training.", "atropos:serve"),
        },
    ),
    "openenv": CommandEntry(
        "Serve games as environments of OpenEnv.",
        commands={"serve": CommandEntry("Serve a game.", "openenv:serve")},
    ),
}
"""The commands by name; each file is imported when its command is used."""

WELCOME = """\
Three things to try, in any folder:

  arena web                       play in the browser; games and results appear there
  arena play cluedo               watch four bots deduce
  arena eval cluedo --player bot:detective --baseline bot:novice
                                  how much better is one of them, and how sure is that?
"""

GROUPS = {
    "Play": "play replay web list",
    "Evaluate": "eval tournament bench exploit",
    "Train": "train pretrain",
    "Connect": "serve mcp atropos openenv",
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


def _print_version(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
    if is_given:
        from arena.core.version import __version__

        print(f"arena {__version__}")
        ctx.exit()


def _debug(_: click.Context, __: click.Parameter, is_given: bool) -> None:
    if is_given:  # `run` reads it, which also reports errors of other parameters.
        os.environ[DEBUG] = "1"


app = CommandGroup(
    "arena",
    COMMANDS,
    "Language models, bots and people play games with hidden information. Cluedo first.",
    titles=GROUPS,
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            callback=_print_version,
            help="Print the version.",
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_debug,
            help="Show the trace of an error.",
        ),
    ],
)


def main() -> None:
    """Run the command line and exit."""
    warnings.showwarning = partial(_show_warning, warnings.showwarning)
    codecs.register_error("similar", _replace_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="similar")
    if instruction := os.environ.get(COMPLETE):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(app, {}, "arena", COMPLETE, instruction))
    stopped_by = stop_as_ctrl_c()
    code = run(sys.argv[1:])
    sys.exit(128 + stopped_by[0] if stopped_by and code == INTERRUPTED else code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; without a command, show the help."""
    if not arguments:
        print(WELCOME)
    try:
        with app.make_context("arena", arguments or ["--help"]) as ctx:
            code = app.invoke(ctx)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
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
        case click.ClickException():
            return error.format_message().rstrip("."), error.exit_code
        case ArenaError():
            return str(error), 2 if isinstance(error, UsageError) else 1
        case KeyboardInterrupt() | click.Abort():
            return "interrupted", INTERRUPTED
        case MemoryError():
            return "out of memory; what was written is kept", 1
        case OSError():
            return _os_error_text(error), 1
    fault = f"unexpected {type(error).__name__}: {error}"
    return f"{fault}; 'arena --debug COMMAND' shows where it comes from", 1


def _show_warning(
    usual: Callable[..., None], message: Warning | str, category: type[Warning], *place: Any
) -> None:
    """Print a plugin that is left out in one line, other warnings as Python usually does."""
    if issubclass(category, PluginWarning):
        _fail(f"warning: {message}", 0)
    else:
        usual(message, category, *place)


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
