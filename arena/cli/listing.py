"""`arena list`: games with their options, players with the bots of each game, and models."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from arena.cli.options import OutputOptions
from arena.cli.terminal import echo, print_grids
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import SCAFFOLDS, redacted
from arena.core.text import UNKNOWN, short_count, size_text
from arena.llm.config import argument, setting
from arena.llm.environment import config_table

if TYPE_CHECKING:
    from arena.core.game import Game
    from arena.evaluation.document import Grid
    from arena.plugins.catalog import CatalogEntry, OptionJson


class GamesOptions(OutputOptions):
    """Options of `arena list games`."""

    game: str | None = argument(None)
    """Only this game, with its rules, also as GAME:OPTION=VALUE; or this family of games."""


def list_games(options: GamesOptions) -> int:
    """List the games, one a line; or show one game with its rules, options and bots.

    A game that cannot be loaded is a warning.
    """
    from arena.plugins.catalog import catalog, make_game

    name = options.game
    if name in catalog().names("game_family"):
        family = _family(name)
        if options.as_json:
            print(json.dumps(family))
        else:
            _print_family(family)
        return 0
    games = []
    for each in [name] if name else catalog().names("game"):
        try:
            games.append(describe(each))
        except ArenaError as error:
            if name:
                raise
            echo(f"warning: {error}", file=sys.stderr)
    # Options may change the rules. Wrong ones are an error here, also with --json.
    made = make_game(name) if name else None
    entries = [] if name else catalog().entries("game_family")
    if options.as_json:
        families = [{"name": entry.name, "summary": entry.summary} for entry in entries]
        print(json.dumps({"games": games, "families": families}))
        return 0
    if made is not None:
        _print_game(games[0], made)
        return 0
    # The catalog has the shorter summary.
    short = {entry.name: entry.summary for entry in catalog().entries("game")}
    rows = [("game", "players", "")]
    rows += [(g["name"], g["players"], short[g["name"]] or g["summary"]) for g in games]
    rows += [(f"{e.name}/GAME", "", e.summary) for e in entries]
    width = max(len(name) for name, *_ in rows)
    for game, players, summary in rows:
        echo(f"{game:<{width}}  {players:>7}  {summary}".rstrip(), indent=" " * (width + 11))
    echo("\nRules, options and bots of a game, or the games of a library: arena list games NAME")
    return 0


def _print_game(game: dict[str, Any], made: Game) -> None:
    """Print a game with its rules, bots, measures, and the meaning of its options."""
    echo(f"{game['name']}: {game['summary']}\n\n{made.text.rules()}\n")
    echo(f"  bots: {', '.join(game['bots'])}")
    measures = [each.name for each in made.analysis.measures if "/" not in each.name]
    if measures:
        echo(f"  measures: {', '.join(measures)}", indent=" " * 12)
    for option in game["options"]:
        echo(f"  {option['name']} = {option['default']!r}  ({option['allowed']})")
        echo(f"      {option['description']}")


def _family(name: str) -> dict[str, Any]:
    """Return the games of a family: players, kind of information, and what works."""
    from arena.plugins.catalog import game_family

    return {"family": name, "games": [asdict(game) for game in game_family(name).games()]}


def _print_family(family: dict[str, Any]) -> None:
    """Print the games of a family, one a line."""
    games = family["games"]
    width = max(len(game["name"]) for game in games)
    for game in games:
        players = f"{game['players'] or '?':>6} players"
        problem = game["problem"]
        works = f"not playable: {problem}" if problem else ", ".join(game["features"])
        echo(f"{game['name']:<{width}} {players}  {game['information']:<9}  {works}")


def describe(name: str) -> dict[str, Any]:
    """Return name, players, summary, bots and options of a game; options by their JSON schema."""
    from arena.agents.seating import bot_names
    from arena.plugins.catalog import game_class, options_of

    name = name.partition(":")[0]
    game = game_class(name)
    options = [{**option, "allowed": _allowed(option)} for option in options_of(game)]
    # A fixed number is an attribute of the class; else an option decides.
    players = str(game.num_players) if isinstance(game.num_players, int) else "?"
    for option in options:
        if option["name"] == "players":
            players = str(option["allowed"]).replace(" to ", "-")
    return {
        "name": name,
        "players": players,
        "summary": game.summary,
        "bots": bot_names(name),
        "options": options,
    }


def _allowed(option: OptionJson) -> str:
    if "low" in option:
        return f"{option['low']} to {option['high']}"
    is_choice = option["type"] != "boolean" and "choices" in option
    return ", ".join(map(str, option["choices"])) if is_choice else option["type"]


def list_agents(options: OutputOptions) -> int:
    """List who can take a seat: kinds of players, and the bots of each game."""
    from arena.plugins.catalog import catalog

    kinds = [{"spec": e.name, "summary": e.summary} for e in catalog().entries("agent")]
    models = [{"spec": e.name, "summary": e.summary} for e in catalog().entries("backend")]
    bots = _bots(catalog().entries("bot"))
    if options.as_json:
        print(json.dumps({"agents": kinds, "models": models, "bots": bots}))
        return 0
    echo("A SPEC says who sits where: arena play cluedo --seat 0=bot:oracle --seat 1=human\n")
    for agent in kinds:
        echo(f"{agent['spec']:<16} {agent['summary']}", indent=" " * 17)
    echo("\nModels; 'arena play --help' says how they are asked:")
    for model in models:
        echo(f"{model['spec']:<16} {model['summary']}", indent=" " * 17)
    echo(f"\nA model may end with its scaffold: {', '.join(f'+{name}' for name in SCAFFOLDS)}")
    echo("\nBots:")
    for line in bots:
        echo(f"{line['spec']:<16} {line['game']:<12} {line['summary']}", indent=" " * 30)
    return 0


def _bots(entries: Sequence[CatalogEntry]) -> list[dict[str, str]]:
    """Return the bots, each once: a bot of every game names the games that have their own."""
    summaries = {tuple(entry.name.rsplit("/", 1)): entry.summary for entry in entries}
    general = [bot for game, bot in summaries if game == "*"]
    for game, bot in list(summaries):
        if game != "*" and bot in general:
            summaries["*", bot] += f" ({game}: {summaries.pop((game, bot))})"
    return [
        {"spec": f"bot:{bot}", "game": "every game" if game == "*" else game, "summary": summary}
        for (game, bot), summary in summaries.items()
    ]


class ModelsOptions(OutputOptions):
    """Options of `arena list models`."""

    log_dir: Path | None = setting(None, variable="ARENA_TRAIN_LOG_DIR")
    """Folder of all experiments. Default: the one of arena train."""


def list_models(options: ModelsOptions) -> int:
    """List models: bundled ones, the newest checkpoint of each run, and those of arena.toml.

    A player with a model is --seat 0=embedded:MODEL.
    """
    from arena.llm.settings import KeylessSettings
    from trainers.config.config import TrainConfig

    default = TrainConfig.model_fields["log_dir"].default
    home = options.log_dir or Path(str(config_table("train").get("log_dir", default)))
    models = [_describe_model(*place) for place in _checkpoints(home)]
    stated: dict[str, JsonValue] = {
        redacted(spec): facts.model_dump(exclude_none=True)
        for spec, facts in KeylessSettings.load().models.items()
    }
    if options.as_json:
        print(json.dumps({"models": models, "configured": stated}, allow_nan=False))
        return 0
    print_grids([_model_table(models)])
    for spec, facts in stated.items():
        echo(f"{spec}: {json.dumps(facts)}")
    return 0


def _checkpoints(home: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield name, source and folder of bundled models and the newest checkpoint of each run."""
    from backends.embedded import bundled_checkpoints

    for name, folder in bundled_checkpoints().items():
        yield name, "bundled", folder
    places = ("checkpoints", "art/*/models/*/checkpoints")  # Of the embedded host, and of ART.
    for run in sorted(home.glob("*/")) if home.is_dir() else ():
        steps = [path.parent for each in places for path in run.glob(f"{each}/[0-9]*/config.json")]
        if steps:
            newest = max(steps, key=lambda folder: folder.name)
            yield str(newest), f"run {run.name}", newest


def _describe_model(name: str, source: str, folder: Path) -> dict[str, JsonValue]:
    """Return the fields of a model; those of one that cannot be used are null, and its fault."""
    from backends.embedded.architecture import FAMILIES, read_architecture, weight_files

    known: dict[str, JsonValue] = {"name": name, "spec": f"embedded:{name}", "source": source}
    known |= {"folder": str(folder), "fault": None}
    fields = ("family", "parameters", "context", "file_bytes")
    try:
        shape = read_architecture(folder)
        size = sum(path.stat().st_size for path in weight_files(folder))
    except UsageError as error:
        return {**known, **dict.fromkeys(fields), "fault": str(error)}
    values = (FAMILIES[shape.family].title, shape.parameters, shape.context, size)
    return {**known, **dict(zip(fields, values, strict=True))}


def _model_table(models: Sequence[Mapping[str, Any]]) -> Grid:
    from arena.evaluation.document import Grid

    rows = [
        (m["name"], m["family"], short_count(m["parameters"]), f"{m['context']:,}",
         size_text(m["file_bytes"]))
        if m["fault"] is None
        else (f"{m['name']}: {m['fault']}", *[UNKNOWN] * 4)
        for m in models
    ]  # fmt: skip
    headings = ("model", "family", "parameters", "context", "file")
    return Grid("Models on this machine", headings, rows)
