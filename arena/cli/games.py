"""`arena games`: what can be played, with options."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena.cli.common.flags import Flag

if TYPE_CHECKING:
    from pydantic import JsonValue

    from arena.core.game import Game


def games_command(
    name: Annotated[str | None, typer.Argument(help="Only this game, with its rules.")] = None,
    as_json: Annotated[bool, Flag("--json", help="As JSON.")] = False,
) -> None:
    """List the games and their options."""
    from arena.plugins.loader import catalog

    names = [name] if name else catalog().names("game")
    games = [GameDescription.of(game, catalog().load("game", game)) for game in names]
    if as_json:
        print(json.dumps({"games": [asdict(game) for game in games]}))
        return
    for game in games:
        print(f"{game.name}: {game.summary}")
        if name:
            print(f"\n{catalog().load('game', name)().rules()}\n")
        print(f"  bots: {', '.join(game.bots)}")
        for option in game.options:
            print(f"  {option.name} = {option.default!r}  ({option.allowed})")
            if name:
                print(f"      {option.description}")


@dataclass(frozen=True, slots=True)
class OptionDescription:
    """One option of a game, its default and the allowed values."""

    name: str
    default: JsonValue
    allowed: str
    description: str


@dataclass(frozen=True, slots=True)
class GameDescription:
    """Name, summary, bots and options of a game."""

    name: str
    summary: str
    bots: list[str]
    options: list[OptionDescription]

    @classmethod
    def of(cls, name: str, game: type[Game]) -> GameDescription:
        """Describe a game class by the JSON schema of its options."""
        from arena.agents.seating import bot_names

        properties = game.Options.model_json_schema().get("properties", {})
        options = [
            OptionDescription(
                option, field.get("default"), _allowed(field), field.get("description", "")
            )
            for option, field in properties.items()
        ]
        return cls(name, game.summary, bot_names(name), options)


def _allowed(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(map(str, field["enum"]))
    if "minimum" in field:
        return f"{field['minimum']} to {field['maximum']}"
    return str(field.get("type", "any"))
