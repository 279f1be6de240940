"""`arena train`: train a model by playing games."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.core import TyperOption

from arena.cli.common.help import ArenaCommand

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter, Parameter


class TrainCommand(ArenaCommand):
    """Command that creates its flags when they are needed.

    The flags are the fields of TrainConfig, whose import would slow down `arena --help`.
    """

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Return the parameters; at the first call, create them."""
        if not self.params:
            import typer

            from arena.cli.training.command import train_command

            app = typer.Typer(add_completion=False)
            app.command()(train_command)
            command = typer.main.get_command(app)
            self.params, self.callback = command.params, command.callback
        return super().get_params(ctx)

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse the command line. Former names of flags are accepted, and those of Atropos.

        Raises UsageError for a flag of Atropos without an equivalent.
        """
        from arena.cli.training.flags import OTHER_FLAGS
        from arena.core.errors import UsageError
        from trainers.config.names import REFUSED_FLAGS

        renamed = []
        for argument in args:
            flag, equals, value = argument.partition("=")
            if flag in REFUSED_FLAGS:
                raise UsageError(f"{flag}: {REFUSED_FLAGS[flag]}")
            renamed.append(f"{OTHER_FLAGS.get(flag, flag)}{equals}{value}")
        return super().parse_args(ctx, renamed)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the help with the defaults that hold in this folder."""
        from arena.cli.training.flags import default_texts

        defaults = default_texts()
        for param in self.get_params(ctx):
            if isinstance(param, TyperOption) and param.name in defaults:
                param.help = f"{param.help} {defaults[param.name]}"
        super().format_help(ctx, formatter)


def train_without_flags() -> None:
    """Train a model by GRPO over full games. The same command resumes an interrupted run.

    Each flag is also an environment variable (--steps: ARENA_TRAIN_STEPS), a
    key of the table `train` in arena.toml, and a key of presets. The first
    source in this list that has a setting decides.
    """
