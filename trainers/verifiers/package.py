"""Writer of a Python package with which verifiers 1 plays one game.

The package only names the game and its seats; all code is in arena, so a newer arena improves it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from pprint import pformat
from string import Template

from pydantic import JsonValue

from arena.agents.seating import default_opponent, make_agent
from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.spec import Spec
from arena.core.version import __version__
from arena.episodes.match import Match
from arena.plugins.catalog import catalog
from trainers.rewards import Rewards, default_reward

MODEL = "model"
"""Player of a seat whose model verifiers serves."""
SUFFIX = ".tmpl"
"""Suffix of a template: its file is no module of this package."""


def write_package(
    game: Game, options: Mapping[str, JsonValue], seats: Mapping[int, str], folder: Path
) -> str:
    """Write the package of a game into a new or empty folder; return its name for verifiers.

    `options` are those that are not the default. By default a model has seat 0, and the game's
    default opponent the others.

    Raises:
        UsageError: A SPEC names no agent, no seat has a model, or the folder is not empty.
        ArenaError: The folder cannot be written.
    """
    players = _players(game, seats)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists already and is not empty; nothing was written")
    words = re.findall("[a-z0-9]+", game.name.lower())
    name, module = "-".join(("arena", *words)), "_".join(("arena", *words))
    values = {
        "game": game.name,
        "module": module,
        "dash": name,
        "prefix": "".join(word.capitalize() for word in words),
        "arena": __version__,
        "options": pformat(dict(options), width=80),
        "fields": "\n".join(_field(seat, player) for seat, player in enumerate(players)),
        "table": "\n".join(f"| `seat_{n}` | `{player}` |" for n, player in enumerate(players)),
        "reward": default_reward(game),
        "terms": "\n".join(
            f"| `{term.name}` | {term.about} |" for term in Rewards.parse("", game).describe()
        ),
    }
    templates = files("trainers.verifiers").joinpath("template")
    texts = {
        entry.name.removesuffix(SUFFIX): Template(entry.read_text("utf-8")).substitute(values)
        for entry in templates.iterdir()
        if entry.name.endswith(SUFFIX)
    }
    texts[f"{module}/__init__.py"] = texts.pop("package.py")
    try:
        (folder / module).mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArenaError(f"cannot write {folder}: {error.strerror}") from error
    return name


def _players(game: Game, seats: Mapping[int, str]) -> list[str]:
    """Return the player of each seat. Raises UsageError for one that cannot play."""
    opponent = default_opponent(game)
    usual = [MODEL, *[opponent] * (game.num_players - 1)]
    players = [seats.get(seat, player) for seat, player in enumerate(usual)]
    match = Match(game, players)
    for seat, spec in enumerate(players):
        # The key of a hosted model may be missing here, on another machine than that of the run.
        if spec != MODEL and Spec.parse(spec).prefix not in catalog().names("backend"):
            make_agent(spec, match.seat_of(seat))
    if MODEL not in players:
        raise UsageError(f"no seat has a model: give one, for example --seat 0={MODEL}")
    return players


def _field(seat: int, player: str) -> str:
    # A JSON string of ASCII characters is a string of Python too.
    given = "" if player == MODEL else f"player={json.dumps(player)}"
    return f"    seat_{seat}: SeatConfig = SeatConfig({given})"
