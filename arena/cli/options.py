"""What several commands share: reading game options and seats from flags."""

from __future__ import annotations

import json
from collections.abc import Sequence

from arena.agent import bot_names
from arena.errors import UsageError
from arena.game import Game
from arena.observation import Json
from arena.registry import make_game


def game_from_flags(
    name: str, variant: str | None, players: int | None, options: Sequence[str]
) -> Game:
    """The game that the flags describe. Raises UsageError for an unknown game or option."""
    given: dict[str, Json] = dict(map(_option, options))
    if variant is not None:
        given["variant"] = variant
    if players is not None:
        given["players"] = players
    return make_game(name, **given)


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
    for text in seats:
        number, equals, spec = text.partition("=")
        if not equals or not spec or not (number.isascii() and number.isdecimal()):
            raise UsageError(f"--seat {text!r} is not I=SPEC, for example 0=bot:oracle")
        if int(number) >= game.num_players:
            raise UsageError(
                f"--seat {text!r}: {game.name} has seats 0 to {game.num_players - 1} here"
            )
        specs[int(number)] = spec
    return specs
