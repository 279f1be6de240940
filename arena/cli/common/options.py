"""Game options and seats from flags."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import JsonValue

from arena.agents.seating import default_bot
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.spec import redacted
from arena.plugins.loader import make_game


def game_from_flags(
    name: str, variant: str | None, players: int | None, options: Sequence[str]
) -> Game:
    """Make the game of these flags. Raises UsageError for an unknown game or option."""
    return make_game(name, **options_from_flags(variant, players, options))


def options_from_flags(
    variant: str | None, players: int | None, options: Sequence[str]
) -> dict[str, JsonValue]:
    """Return the options of a game. Raises UsageError for one that is given twice."""
    given: dict[str, JsonValue] = dict(map(_option, options))
    for option, value in (("variant", variant), ("players", players)):
        if value is not None:
            if option in given:
                both = f"--{option} {value} and --option {option}=…"
                raise UsageError(f"{both} give the same option twice")
            given[option] = value
    return given


def _option(text: str) -> tuple[str, JsonValue]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--option {text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def specs_from_flags(game: Game, seats: Sequence[str]) -> list[str]:
    """Return the SPEC of every seat; seats without a flag get the default bot of the game."""
    specs = [default_bot(game)] * game.num_players
    named: set[int] = set()
    for text in seats:
        number, equals, spec = text.partition("=")
        if not equals or not spec or not (number.isascii() and number.isdecimal()):
            raise UsageError(f"--seat {redacted(text)!r} is not I=SPEC, for example 0=bot:oracle")
        if int(number) >= game.num_players:
            raise UsageError(
                f"--seat {redacted(text)!r}: {game.name} has seats 0 to {game.num_players - 1} here"
            )
        if int(number) in named:
            raise UsageError(f"--seat {redacted(text)!r}: seat {number} is named twice")
        named.add(int(number))
        specs[int(number)] = spec
    return specs


def unnamed_seats(game: Game, seats: Sequence[str]) -> list[int]:
    """Return the seats without --seat."""
    named = {text.partition("=")[0] for text in seats}
    return [seat for seat in range(game.num_players) if str(seat) not in named]
