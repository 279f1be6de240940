"""`arena games`: what can be played, with options."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from arena.cli.common.flags import JsonFlag
from arena.core.errors import ArenaError


def games_command(
    name: Annotated[str | None, typer.Argument(help="Only this game, with its rules.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the games and their options. A game that cannot be loaded is a warning."""
    from arena.plugins.loader import catalog

    games = []
    for each in [name] if name else catalog().names("game"):
        try:
            games.append(describe(each))
        except ArenaError as error:
            if name:
                raise
            print(f"warning: {error}", file=sys.stderr)
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


def describe(name: str) -> dict[str, Any]:
    """Return name, summary, bots and options of a game; options by their JSON schema."""
    from arena.agents.seating import bot_names
    from arena.plugins.loader import catalog

    game = catalog().load("game", name)
    options = [
        {
            "name": option,
            "default": field.get("default"),
            "allowed": _allowed(field),
            "description": field.get("description", ""),
        }
        for option, field in game.Options.model_json_schema().get("properties", {}).items()
    ]
    return {"name": name, "summary": game.summary, "bots": bot_names(name), "options": options}


def _allowed(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(map(str, field["enum"]))
    if "minimum" in field:
        return f"{field['minimum']} to {field['maximum']}"
    return str(field.get("type", "any"))
