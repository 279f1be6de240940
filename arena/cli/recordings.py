"""Check of `recorded:REPLAY` in `arena play`: the flags must give the recorded game."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import JsonValue

from arena.agents.chat import ChatOptions
from arena.cli.flags import GameFlags
from arena.cli.play_flags import ModelFlags, has_models
from arena.core.errors import ReplayError, UsageError
from arena.core.spec import Spec, redacted
from arena.core.text import shorten
from arena.plugins.loader import make_game

if TYPE_CHECKING:
    from arena.cli.game_run import GameRun
    from arena.core.game import Game
    from arena.episodes.replay import Replay

Flags = Mapping[str, "JsonValue"]
"""Values that shape the requests to a model, by flag."""


def check_recordings(run: GameRun) -> None:
    """Raise UsageError if a recorded model would get other requests than in its recording.

    The message holds the command that plays the recorded game again.
    """
    from arena.episodes.replay import read_replay

    for text in dict.fromkeys(run.match.specs):
        spec = Spec.parse(text)
        if spec.prefix == "recorded":
            with suppress(ReplayError):  # The backend says what is wrong with the file.
                _check(run, read_replay(spec.rest))


def _check(run: GameRun, replay: Replay) -> None:
    from arena.episodes.branch import models_of

    header, path = replay.header, replay.path
    if header.branches:
        last = header.branches[-1]
        seats = " ".join(_seats(replay))
        raise UsageError(
            f"recorded:{path}: this game left another one, so play that one on: arena replay "
            f"{shlex.quote(last.parent)} --branch {last.ply} --seed {last.seed} {seats}"
        )
    models = models_of(replay) or ModelFlags().options()
    then = _flags(replay.make_game(), header.seed, header.text_level, models)
    match, chat = run.match, run.match.chat or ChatOptions()
    now = _flags(match.game, run.seeds[0], match.text_level, chat)
    others = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    if match.game.name != header.game:
        raise UsageError(f"recorded:{path}: a game of {header.game}; {_again(replay, then)}")
    if others:
        flags = " ".join(_spelled(name, then.get(name)) for name in others)
        raise UsageError(f"recorded:{path}: it was played with {flags}; {_again(replay, then)}")
    if chat.beliefs:  # Questions about beliefs leave no request in a replay.
        raise UsageError(f"recorded:{path} has no answers about beliefs: leave out beliefs=true")
    if len(run.seeds) > 1:
        raise UsageError(f"recorded:{path} is one game; leave out --games")
    if (run.out / f"{run.stem(header.seed)}.jsonl").resolve() == path.resolve():
        raise UsageError(f"recorded:{path} would be replaced: choose another folder with --out")


def _flags(game: Game, seed: int, level: str, models: ChatOptions) -> Flags:
    options = game.options.model_dump(mode="json").items()
    return {
        **{"--players" if n == "players" else f"--option {n}=": value for n, value in options},
        "--seed": seed,
        "--text-level": level,
        "--chat": models.chat,
        "--answers": models.answers,
        "--guided": models.guided,
        "--set max_attempts=": models.max_attempts,
        "--set fallback=": models.fallback,
        "--temperature": models.sampling.temperature,
        "--set top_p=": models.sampling.top_p,
        "--max-tokens": models.sampling.max_tokens,
        "--reasoning-effort": models.sampling.reasoning_effort or None,
        "--set thinking_tokens=": models.sampling.thinking_tokens,
        "--set system=": models.system,
    }


def _spelled(name: str, value: JsonValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    if name.startswith("--set") and value is None:
        return f"no {name.removeprefix('--set ').removesuffix('=')}"
    if name.endswith("="):
        return f"{name}{shlex.quote(text)}"
    if value is None or isinstance(value, bool):
        return name if value else f"no {name}"
    return f"{name} {shlex.quote(text)}"


def _again(replay: Replay, flags: Flags) -> str:
    """Return the command; defaults need no flag."""
    header = replay.header
    game = make_game(header.game)
    usual = _flags(game, -1, GameFlags().text_level, ModelFlags().options())
    words = [_spelled(n, value) for n, value in flags.items() if value != usual.get(n)]
    if header.max_turns not in (None, game.default_max_turns):
        words.append(f"--max-turns {header.max_turns}")
    command = ["arena play", game.name, *words, *_seats(replay), "--out runs/again"]
    return f"the same again: {shorten(' '.join(command), 2000)}"


def _seats(replay: Replay) -> Iterator[str]:
    """Yield --seat flags: the SPEC of each seat, with recordings in place of models."""
    for seat, spec in enumerate(replay.header.players):
        again = f"recorded:{replay.path}" if has_models([spec]) else redacted(spec)
        yield f"--seat {shlex.quote(f'{seat}={again}')}"
