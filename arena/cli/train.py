"""`arena train`: make a model better at a game, by letting it play."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperOption

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter, Parameter


class TrainCommand(TyperCommand):
    """The command with flags that are made when they are needed.

    They are the fields of TrainConfig, and whoever asks for `arena --help` should not wait for it.
    """

    def get_params(self, ctx: Context) -> list[Parameter]:
        if not self.params:
            import typer

            from arena.cli.training.command import train_command

            made = typer.Typer(add_completion=False)
            made.command()(train_command)
            command = typer.main.get_command(made)
            self.params, self.callback = command.params, command.callback
        return super().get_params(ctx)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Help says what holds here and now, which files decide too."""
        from arena.cli.training.flags import defaults

        told = defaults()
        for each in self.get_params(ctx):
            if isinstance(each, TyperOption) and told.get(each.name or ""):
                each.help = f"{each.help} {told[each.name or '']}"
        super().format_help(ctx, formatter)


def train_without_flags() -> None:
    """Train a model by GRPO over full games; the same command goes on with what was interrupted.

    Each flag is also an environment variable (--steps: ARENA_TRAIN_STEPS), a
    key of the table `train` in arena.toml, and a key of presets. What comes
    first in this list decides.
    """
