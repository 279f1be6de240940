"""`arena games`: what can be played, with options."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.common.flags import Flag

if TYPE_CHECKING:
    from arena.core.game import Game
    from arena.core.json import Json


def games_command(
    name: Annotated[str | None, typer.Argument(help="Only this game, with its rules.")] = None,
    as_json: Annotated[bool, Flag("--json", help="As JSON.")] = False,
) -> None:
    """List the games and their options."""
    from arena.plugins.loader import catalog

    names = [name] if name else catalog().names("game")
    games = [describe_game(game, catalog().load("game", game)) for game in names]
    if as_json:
        print(json.dumps({"games": games}))
        return
    for game in games:
        print(f"{game['name']}: {game['summary']}")
        if name:
            print(f"\n{catalog().load('game', name)().rules()}\n")
        print(f"  bots: {', '.join(game['bots'])}")
        for option in game["options"]:
            print(f"  {option['name']} = {option['default']!r}  ({option['allowed']})")
            if name:
                print(f"      {option['description']}")


def describe_game(name: str, game: type[Game]) -> dict[str, Json]:
    """Name, summary, bots and options of a game."""
    from arena.agents.seating import bot_names

    schema = game.Options.model_json_schema()
    options = [
        {
            "name": option,
            "default": field.get("default"),
            "allowed": _allowed(field),
            "description": field.get("description", ""),
        }
        for option, field in schema.get("properties", {}).items()
    ]
    return {"name": name, "summary": game.summary, "bots": bot_names(name), "options": options}


def _allowed(field: dict[str, Json]) -> str:
    if "enum" in field:
        return ", ".join(map(str, field["enum"]))
    if "minimum" in field:
        return f"{field['minimum']} to {field['maximum']}"
    return str(field.get("type", "any"))
