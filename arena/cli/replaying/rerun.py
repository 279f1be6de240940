"""`recorded:REPLAY` at the table of `arena play`: whether that game can come out of these flags."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from arena.cli.common.flags import GameFlags
from arena.cli.common.models import ModelFlags, has_models
from arena.core.errors import ReplayError, UsageError
from arena.core.spec import shown
from arena.core.text import shortened

if TYPE_CHECKING:
    from arena.agents.prompt import ChatOptions
    from arena.cli.common.table import Table
    from arena.core.game import Game
    from arena.core.json import Json
    from arena.episodes.replay import Replay

Flags = Mapping[str, "Json"]
"""What shapes a request to a model, by the flag that says it."""


def check_recordings(table: Table) -> None:
    """A recorded model answers only what it was asked: in another game it would fall silent.

    Raises UsageError that tells the command which plays the game of the recording again.
    """
    from arena.episodes.replay import read_replay

    for spec in dict.fromkeys(table.specs):
        prefix, _, path = spec.partition(":")
        if prefix == "recorded":
            with suppress(ReplayError):  # The backend says what is wrong with the file.
                _check(table, read_replay(path))


def _check(table: Table, replay: Replay) -> None:
    header, path = replay.header, replay.path
    if header.branches:
        last = header.branches[-1]
        seats = " ".join(_seats(replay))
        raise UsageError(
            f"recorded:{path}: this game left another one, so play that one on: arena replay "
            f"{shlex.quote(last.parent)} --branch {last.ply} --seed {last.seed} {seats}"
        )
    then = _recorded_with(replay)
    now = _flags(table.game, table.seeds[0], table.text_level, table.chat)
    others = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    if table.game.name != header.game:
        raise UsageError(f"recorded:{path}: a game of {header.game}; {_again(replay, then)}")
    if others:
        told = " ".join(_spelled(name, then.get(name)) for name in others)
        raise UsageError(f"recorded:{path}: it was played with {told}; {_again(replay, then)}")
    if table.chat.beliefs:  # It is a question of its own, which leaves no request in a replay.
        raise UsageError(f"recorded:{path} has no answers to --beliefs: leave it out")
    if len(table.seeds) > 1:
        raise UsageError(f"recorded:{path} is one game; leave out --games")
    if (table.out / f"{table.stem(header.seed)}.jsonl").resolve() == path.resolve():
        raise UsageError(f"recorded:{path} would be replaced: choose another folder with --out")


def _recorded_with(replay: Replay) -> Flags:
    from arena.episodes.branch import models_of

    header = replay.header
    models = models_of(replay) or ModelFlags().options()
    return _flags(replay.make_game(), header.seed, header.text_level, models)


def _flags(game: Game, seed: int, level: str, models: ChatOptions) -> Flags:
    known = ("variant", "players")
    options = game.options.model_dump(mode="json").items()
    return {
        **{f"--{n}" if n in known else f"--option {n}=": value for n, value in options},
        "--seed": seed,
        "--text-level": level,
        "--chat": models.chat,
        "--answers": models.answers,
        "--guided": models.guided,
        "--max-attempts": models.max_attempts,
        "--fallback": models.fallback,
        "--temperature": models.sampling.temperature,
        "--top-p": models.sampling.top_p,
        "--answer-tokens": models.sampling.max_tokens,
    }


def _spelled(name: str, value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    if name.endswith("="):
        return f"{name}{shlex.quote(text)}"
    if isinstance(value, bool):
        return name if value else f"no {name}"
    return f"{name} {shlex.quote(text)}"


def _again(replay: Replay, flags: Flags) -> str:
    """The command; what is usual needs no flag."""
    from arena.plugins.loader import make_game

    header = replay.header
    game = make_game(header.game)
    usual = _flags(game, -1, GameFlags().text_level, ModelFlags().options())
    words = [_spelled(n, value) for n, value in flags.items() if value != usual.get(n)]
    if header.max_turns not in (None, game.default_max_turns):
        words.append(f"--max-turns {header.max_turns}")
    told = ["arena play", game.name, *words, *_seats(replay), "--out runs/again"]
    return f"the same again: {shortened(' '.join(told), 2000)}"


def _seats(replay: Replay) -> Iterator[str]:
    """Who sat where, and the recording wherever a model did."""
    for seat, spec in enumerate(replay.header.players):
        again = f"recorded:{replay.path}" if has_models([spec]) else shown(spec)
        yield f"--seat {shlex.quote(f'{seat}={again}')}"
