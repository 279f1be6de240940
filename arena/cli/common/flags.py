"""Declaration of flags, alone and in groups that several commands share."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from arena.cli.common.completion import complete_game
from arena.core.errors import UsageError
from arena.core.text import read_value

if TYPE_CHECKING:
    from pydantic import JsonValue

    from arena.core.game import Game
    from arena.core.observation import TextLevel

Flag = partial(typer.Option, show_envvar=False)
"""An option whose help omits its environment variable; docs/guides/settings.md gives the rule."""

GameName = Annotated[
    str, typer.Argument(help="The game; 'arena games' lists them.", autocompletion=complete_game)
]
SeedFlag = Annotated[int | None, Flag(min=0, max=2**53, help="Deal and dice. Default: drawn.")]
JsonFlag = Annotated[bool, Flag("--json", help="Result as JSON, last line.")]
MarkdownFlag = Annotated[bool, Flag("--markdown", help="Print the tables as Markdown.")]


@dataclass(frozen=True, slots=True)
class GameOptionFlags:
    """Options of the game."""

    variant: Annotated[str | None, Flag(help="Variant of the game.")] = None
    players: Annotated[int | None, Flag(help="Number of seats.")] = None
    option: Annotated[
        list[str], Flag("--option", "-o", help="NAME=VALUE, any option of the game.")
    ] = field(default_factory=list)

    def options(self) -> dict[str, JsonValue]:
        """Return the options of the game. Raises UsageError for one that is given twice."""
        given: dict[str, JsonValue] = {}
        for text in self.option:
            name, equals, value = text.partition("=")
            if not equals:
                raise UsageError(f"--option {text!r} is not NAME=VALUE")
            given[name] = read_value(value)
        for name, word in (("variant", self.variant), ("players", self.players)):
            if word is not None and name in given:
                both = f"--{name} {word} and --option {name}=…"
                raise UsageError(f"{both} give the same option twice")
            if word is not None:
                given[name] = word
        return given


@dataclass(frozen=True, slots=True)
class GameFlags(GameOptionFlags):
    """Options of the game and the level of help in the players' texts."""

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
        from arena.plugins.loader import make_game

        return make_game(name, **self.options())


def first_seed(seed: int | None) -> int:
    """Return the seed, or draw one if the flag is not given."""
    return random.SystemRandom().randrange(2**31) if seed is None else seed


def one_of(flag: str, value: str, words: Any) -> None:
    """Raise UsageError for a word that is not one of the choices."""
    if value not in get_args(words):
        raise UsageError(f"{flag} {value!r}: choose {', '.join(get_args(words))}")


def parameters_from(ctx: typer.Context, source: str) -> frozenset[str]:
    """Return the names of the parameters whose values come from COMMANDLINE or ENVIRONMENT."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return frozenset(name for name, found in sources.items() if found and found.name == source)


def flag_groups(
    command: Callable[..., int], more: Mapping[str, Any] | None = None
) -> Callable[..., int]:
    """Decorate a command whose parameters are groups of flags, which typer does not support.

    A parameter that is annotated with a dataclass is replaced by the fields of the dataclass, and
    `**name` by the flags `more`, whose annotations are given by name and whose default is None.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    flat = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            flat += _parameters_of(groups[name])
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            flat += [_parameter(each, None, hint) for each, hint in (more or {}).items()]
        else:
            flat.append(_parameter(name, parameter.default, hints[name]))

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
    return [
        _parameter(
            each.name,
            each.default if each.default_factory is MISSING else each.default_factory(),
            hints[each.name],
        )
        for each in fields(group)
    ]


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)
