"""What several commands share: reading game options and seats from flags."""

from __future__ import annotations

import json
from collections.abc import Sequence

from arena.agents.seating import bot_names
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.json import Json
from arena.core.spec import shown
from arena.plugins.loader import make_game


def game_from_flags(
    name: str, variant: str | None, players: int | None, options: Sequence[str]
) -> Game:
    """The game that the flags describe. Raises UsageError for an unknown game or option."""
    return make_game(name, **options_from_flags(variant, players, options))


def options_from_flags(
    variant: str | None, players: int | None, options: Sequence[str]
) -> dict[str, Json]:
    """The options of a game that flags name. Raises UsageError for one that is named twice."""
    given: dict[str, Json] = dict(map(_option, options))
    for option, value in (("variant", variant), ("players", players)):
        if value is not None:
            if option in given:
                raise UsageError(f"--{option} {value} and --option {option}=… say it twice")
            given[option] = value
    return given


def _option(text: str) -> tuple[str, Json]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--option {text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def specs_from_flags(game: Game, seats: Sequence[str]) -> list[str]:
    """The SPEC of every seat; the ones that are not named are the game's standard bot."""
    bots = bot_names(game.name)
    specs = ["bot:detective" if "detective" in bots else "bot:random"] * game.num_players
    named: set[int] = set()
    for text in seats:
        number, equals, spec = text.partition("=")
        if not equals or not spec or not (number.isascii() and number.isdecimal()):
            raise UsageError(f"--seat {shown(text)!r} is not I=SPEC, for example 0=bot:oracle")
        if int(number) >= game.num_players:
            raise UsageError(
                f"--seat {shown(text)!r}: {game.name} has seats 0 to {game.num_players - 1} here"
            )
        if int(number) in named:
            raise UsageError(f"--seat {shown(text)!r}: seat {number} is named twice")
        named.add(int(number))
        specs[int(number)] = spec
    return specs


def unnamed_seats(game: Game, seats: Sequence[str]) -> list[int]:
    """The seats that no --seat names."""
    named = {text.partition("=")[0] for text in seats}
    return [seat for seat in range(game.num_players) if str(seat) not in named]
