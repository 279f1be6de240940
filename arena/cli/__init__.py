"""The command line. One file per command, wiring only.

Every fault ends in one line on stderr: exit code 2 for wrong usage, 1 otherwise, 130 for Ctrl-C.
"""

from __future__ import annotations

import os
import sys

import typer

from arena.cli import (
    agents,
    analyze,
    doctor,
    evaluate,
    games,
    play,
    pretrain,
    replay,
    runs,
    serve,
    tournament,
    train,
)
from arena.core.errors import ArenaError, UsageError
from arena.core.text import shortened

LONGEST = 3000
"""Characters of a complaint: the longest that says something lists names."""

app = typer.Typer(
    name="arena",
    help="Language models, bots and people play games that hide things. Cluedo first.",
    no_args_is_help=True,
    add_completion=False,
    # Every flag can also be set in the environment: --out of play is ARENA_PLAY_OUT.
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "ARENA"},
)
app.command("play")(play.play_command)
app.command("replay")(replay.replay_command)
app.command("eval")(evaluate.eval_command)
app.command("tournament")(tournament.tournament_command)
app.command("analyze")(analyze.analyze_command)
app.command("serve")(serve.serve_command)
app.command("pretrain")(pretrain.pretrain_command)
app.command("train", cls=train.TrainCommand)(train.train_without_flags)
app.add_typer(runs.app, name="runs")
app.command("games")(games.games_command)
app.command("agents")(agents.agents_command)
app.command("doctor")(doctor.doctor_command)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        from arena.core.version import __version__

        print(f"arena {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; the exit code."""
    try:
        code = app(arguments, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except typer.TyperException as error:
        told = error.format_message().rstrip(".")
        return _complain("; ".join(filter(None, [told, _origin(error)])), error.exit_code)
    except ArenaError as error:
        return _complain(str(error), 2 if isinstance(error, UsageError) else 1)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", 130)
    except OSError as error:
        # What is left in the buffer must not be tried again on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        reader_has_gone = isinstance(error, BrokenPipeError)
        return _complain("" if reader_has_gone else f"cannot write the output: {error.strerror}", 1)
    return code if isinstance(code, int) else 0


def _origin(error: typer.TyperException) -> str:
    """Where a bad value stands if it does not stand in the command line."""
    ctx, param = getattr(error, "ctx", None), getattr(error, "param", None)
    if ctx is None or param is None or param.name is None:
        return ""
    source = ctx.get_parameter_source(param.name)
    if source is None or source.name != "ENVIRONMENT":
        return ""
    variable = param.envvar or f"{ctx.auto_envvar_prefix}_{param.name.upper()}"
    return f"it comes from the environment variable {variable}"


def _complain(message: str, code: int) -> int:
    if message:
        # It may quote a file, which must neither steer the terminal nor fill it.
        print(f"arena: {shortened(' '.join(message.split()), LONGEST)}", file=sys.stderr)
    return code
