"""Declaration of flags, alone and in groups that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from arena.cli.common.completion import complete_game
from arena.core.errors import UsageError

if TYPE_CHECKING:
    from arena.core.game import Game
    from arena.core.observation import TextLevel

Flag = partial(typer.Option, show_envvar=False)
"""An option whose help omits its environment variable; the documentation gives the rule."""

GameName = Annotated[
    str, typer.Argument(help="The game; 'arena games' lists them.", autocompletion=complete_game)
]
SeedFlag = Annotated[int | None, Flag(min=0, max=2**53, help="Deal and dice. Default: drawn.")]
JsonFlag = Annotated[bool, Flag("--json", help="Result as JSON, last line.")]


@dataclass(frozen=True, slots=True)
class GameFlags:
    """Options of the game and the level of help in the players' texts."""

    variant: Annotated[str | None, Flag(help="Variant of the game.")] = None
    players: Annotated[int | None, Flag(help="Number of seats.")] = None
    option: Annotated[
        list[str], Flag("--option", "-o", help="NAME=VALUE, any option of the game.")
    ] = field(default_factory=list)
    text_level: Annotated[str, Flag(help="Help in the text: events, notes or deductions.")] = (
        "notes"
    )
    max_turns: Annotated[int | None, Flag(min=1, help="Turns after which a game is cut off.")] = (
        None
    )

    @property
    def level(self) -> TextLevel:
        """The text level. Raises UsageError for an unknown word."""
        from arena.core.observation import TextLevel

        one_of("--text-level", self.text_level, TextLevel)
        return self.text_level  # type: ignore[return-value]

    def make(self, name: str) -> Game:
        """Make the game of these flags. Raises UsageError for a bad flag."""
        from arena.cli.common.options import game_from_flags

        return game_from_flags(name, self.variant, self.players, self.option)


def one_of(flag: str, value: str, words: Any) -> None:
    """Raise UsageError for a word that is not one of the choices."""
    if value not in get_args(words):
        raise UsageError(f"{flag} {value!r}: choose {', '.join(get_args(words))}")


def flag_groups(command: Callable[..., int]) -> Callable[..., int]:
    """Decorate a command whose parameters are groups of flags, which typer does not support.

    A parameter that is annotated with a dataclass is replaced by the fields of the dataclass.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters
    groups = {name: hints[name] for name in parameters if is_dataclass(hints[name])}
    flat = []
    for name, parameter in parameters.items():
        if name in groups:
            flat += _parameters_of(groups[name])
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            flat.append(parameter.replace(annotation=hints[name], kind=kind))

    @wraps(command)
    def flattened(**given: Any) -> int:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        return command(**given)

    flattened.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    flattened.__annotations__ = {each.name: each.annotation for each in flat}
    return flattened


def _parameters_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(each.name, kind, default=_default(each), annotation=hints[each.name])
        for each in fields(group)
    ]


def _default(each: Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()
