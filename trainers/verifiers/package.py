"""Writer of a Python package with which verifiers 1 plays one game.

The package only names the game and its seats; all code is in arena, so a newer arena improves it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from pprint import pformat

from pydantic import JsonValue

from arena.agents.seating import default_opponent, make_agent
from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.spec import Spec
from arena.core.version import __version__
from arena.episodes.match import Match
from arena.plugins.loader import catalog
from trainers.rewards import Rewards, default_reward

MODEL = "model"
"""Player of a seat whose model verifiers serves."""

PYPROJECT = """\
[project]
name = "{dash}"
version = "0.1.0"
description = "{game} of arena, as an environment of verifiers 1."
requires-python = ">=3.11"
dependencies = ["arena-games[verifiers]>={arena}"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["{module}"]
"""

MODULE = '''\
"""{game} of arena, as an environment of verifiers 1."""

from typing import ClassVar

import verifiers.v1 as vf

from trainers.verifiers.environment import (
    GameEnv,
    GameEnvConfig,
    GameHarness,
    GameTaskset,
    SeatConfig,
)

__all__ = ["GameHarness", "{prefix}Env", "{prefix}Taskset"]


class {prefix}Taskset(GameTaskset):
    """The deals."""

    game = "{game}"
    options: ClassVar = {options}


class {prefix}EnvConfig(GameEnvConfig):
    """The players: "model" is a model that verifiers serves, anything else a SPEC of arena."""

{fields}


class {prefix}Env(GameEnv, vf.Env[{prefix}EnvConfig]):
    """One game for each episode."""
'''

README = """\
# {dash}

The game {game} as an environment of [verifiers](https://github.com/PrimeIntellect-ai/verifiers) 1,
written by `arena verifiers package`. The code is that of arena.

```shell
pip install -e .
export ARENA_API_KEY=none
vf-eval {dash} -n 8 -r 4 --no-push --model MODEL \\
  --client.base-url http://127.0.0.1:8000/v1 --client.api-key-var ARENA_API_KEY
```

A task is a deal (`--env.taskset.seed` is the first one), so the episodes of one task are a group
with a common baseline. Every seat is a field:

| seat | player |
| --- | --- |
{table}

- `--env.seat_1.player bot:random` seats the agent of another SPEC (`arena agents` lists them).
- `--env.seat_1.player model` lets the same model play that seat too, with a trace of its own.
- `--env.seat_1.player model --env.seat_1.model NAME` seats another model, which is not trained.

The reward is `--env.reward NAME=WEIGHT,...`, by default `{reward}`:

| term | meaning |
| --- | --- |
{terms}

`--env.text-level deductions` helps the models more, and `--env.replays FOLDER` keeps a replay of
each game, for `arena replay FOLDER --web`.
"""


def write_package(
    game: Game, options: Mapping[str, JsonValue], seats: Mapping[int, str], folder: Path
) -> str:
    """Write the package of a game into a new or empty folder.

    Args:
        game: The game.
        options: Those of its options that are not the default.
        seats: SPECs by seat, or `model`. Default: a model at seat 0, and the game's default
            opponent at the others.
        folder: Where to write.

    Returns:
        The name by which verifiers finds the package.

    Raises:
        UsageError: A SPEC names no agent, no seat has a model, or the folder is not empty.
        ArenaError: The folder cannot be written.
    """
    players = _players(game, seats)
    words = re.findall("[a-z0-9]+", game.name.lower())
    names = {
        "game": game.name,
        "module": "_".join(("arena", *words)),
        "dash": "-".join(("arena", *words)),
        "prefix": "".join(word.capitalize() for word in words),
        "arena": __version__,
    }
    defaults = [_field(seat, player) for seat, player in enumerate(players)]
    module = MODULE.format(
        **names, options=pformat(dict(options), width=80), fields="\n".join(defaults)
    )
    files = {
        "pyproject.toml": PYPROJECT.format(**names),
        "README.md": _readme(game, players, names),
        f"{names['module']}/__init__.py": module,
    }
    _write(folder, files)
    return names["dash"]


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


def _readme(game: Game, players: Sequence[str], names: Mapping[str, str]) -> str:
    rewards = Rewards.parse("", game)
    return README.format(
        dash=names["dash"],
        game=game.name,
        table="\n".join(f"| `seat_{n}` | `{player}` |" for n, player in enumerate(players)),
        reward=default_reward(game),
        terms="\n".join(f"| `{term.name}` | {term.about} |" for term in rewards.describe()),
    )


def _write(folder: Path, files: Mapping[str, str]) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists already and is not empty; nothing was written")
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArenaError(f"cannot write {folder}: {error.strerror}") from error
