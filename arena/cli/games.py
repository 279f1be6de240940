"""`arena games`: what can be played, with options."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from arena.cli.flags import JsonFlag
from arena.cli.terminal import echo
from arena.core.errors import ArenaError


def games_command(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Only this game, with its rules, also as GAME:OPTION=VALUE; or this family of "
            "games."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the games, one a line; or show one game with its rules, options and bots.

    A game that cannot be loaded is a warning.
    """
    from arena.plugins.loader import catalog, make_game

    if name in catalog().names("game_family"):
        _list_family(name, as_json)
        return
    games = []
    for each in [name] if name else catalog().names("game"):
        try:
            games.append(describe(each))
        except ArenaError as error:
            if name:
                raise
            echo(f"warning: {error}", file=sys.stderr)
    # Options may change the rules. Wrong ones are an error here, also with --json.
    rules = make_game(name).text.rules() if name else None
    families = [] if name else catalog().entries("game_family")
    if as_json:
        listed = [{"name": entry.name, "summary": entry.summary} for entry in families]
        print(json.dumps({"games": games, "families": listed}))
        return
    if rules is not None:
        _print_game(games[0], rules)
        return
    # The catalog has the shorter summary.
    short = {entry.name: entry.summary for entry in catalog().entries("game")}
    rows = [("game", "players", "")]
    rows += [(g["name"], g["players"], short[g["name"]] or g["summary"]) for g in games]
    rows += [(f"{e.name}/GAME", "", f"{e.summary}: arena games {e.name}") for e in families]
    width = max(len(name) for name, *_ in rows)
    for game, players, summary in rows:
        echo(f"{game:<{width}}  {players:>7}  {summary}".rstrip(), indent=" " * (width + 11))
    echo("\nRules, options and bots of one: arena games NAME")


def _print_game(game: dict[str, Any], rules: str) -> None:
    """Print a game with its rules, its bots, and the meaning of its options."""
    echo(f"{game['name']}: {game['summary']}\n\n{rules}\n\n  bots: {', '.join(game['bots'])}")
    for option in game["options"]:
        echo(f"  {option['name']} = {option['default']!r}  ({option['allowed']})")
        echo(f"      {option['description']}")


def _list_family(name: str, as_json: bool) -> None:
    """Print the games of a family: players, kind of information, and what works."""
    from arena.plugins.loader import game_family

    games = game_family(name).games()
    if as_json:
        print(json.dumps({"family": name, "games": [asdict(game) for game in games]}))
        return
    width = max(len(game.name) for game in games)
    for game in games:
        players = f"{game.players or '?':>6} players"
        works = f"not playable: {game.problem}" if game.problem else ", ".join(game.features)
        echo(f"{game.name:<{width}} {players}  {game.information:<9}  {works}")


def describe(name: str) -> dict[str, Any]:
    """Return name, players, summary, bots and options of a game; options by their JSON schema."""
    from arena.agents.seating import bot_names
    from arena.plugins.loader import game_class

    name = name.partition(":")[0]
    game = game_class(name)
    fields = game.Options.model_json_schema().get("properties", {})
    options = [
        {
            "name": option,
            "default": field.get("default"),
            "allowed": _allowed(field),
            "description": field.get("description", ""),
        }
        for option, field in fields.items()
    ]
    # A fixed number is an attribute of the class; else an option decides.
    players = str(game.num_players) if isinstance(game.num_players, int) else "?"
    if "players" in fields:
        players = _allowed(fields["players"]).replace(" to ", "-")
    return {
        "name": name,
        "players": players,
        "summary": game.summary,
        "bots": bot_names(name),
        "options": options,
    }


def _allowed(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(map(str, field["enum"]))
    if "minimum" in field:
        return f"{field['minimum']} to {field['maximum']}"
    return str(field.get("type", "any"))
