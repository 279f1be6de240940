"""Where a recorded game can be left, so that others play on from there (`play`'s `start`)."""

from __future__ import annotations

import hashlib

from pydantic import TypeAdapter, ValidationError

from arena.agents.prompt import ChatOptions
from arena.core.action import CHANCE
from arena.core.errors import ReplayError, UsageError
from arena.core.game import Game, State
from arena.core.ply import Ply
from arena.core.text import clean, counted, shortened
from arena.episodes.record import ChanceLine, Position, dump
from arena.episodes.replay import Replay, Walked

MOST_ATTEMPTS = 20
"""Replies per decision that --max-attempts allows."""
LONGEST_SYSTEM = 20_000
"""Characters of a system message, which is sent with every request."""

_CHAT_OPTIONS = TypeAdapter(ChatOptions)


def turn_limit(replay: Replay, game: Game) -> int | None:
    """Turns after which the game is cut off, whoever plays on."""
    given = replay.header.max_turns
    return game.default_max_turns if given is None else given


def turns_left(replay: Replay, start: Position, game: Game) -> int | None:
    """The limit of a branch: the replay's, but no more turns than a game of its own would have.

    A replay may come from anywhere, and every turn of a model costs.
    """
    limit, usual, turn = turn_limit(replay, game), game.default_max_turns, 0
    if limit is None or usual is None:
        return limit
    for walked in replay.walk():
        if walked.ply.number >= len(start.plies):
            break
        turn = walked.state.turn
    return min(limit, turn + usual)


def position(replay: Replay, ply: int) -> Position:
    """The position after `ply` plies of a replay, which may be unfinished.

    Raises UsageError where nobody can play on, and ReplayError where the replay does not fit the
    rules or its own seeds: what grows out of it could not be verified.
    """
    plies, last = list[Ply](), 0
    limit = turn_limit(replay, replay.make_game())
    for walked in replay.walk():
        if len(plies) < ply:
            plies.append(_checked(replay, walked))
        if _goes_on(walked.state, limit):
            last = walked.ply.number + 1
    if not 0 <= ply <= last:
        over = last < len(replay.moves)
        why = "the game is over there" if over else f"{replay.path} has {counted(last, 'ply')}"
        raise UsageError(f"--branch {ply}: {why}; choose --branch 0 to {last}")
    return Position(clean(replay.path.name), _sha256(replay), replay.header, tuple(plies))


def deals_anew(replay: Replay, start: Position) -> bool:
    """Whether nobody has moved yet, and what chance has dealt from here on is drawn again: then
    hidden cards may be others than in the replay."""
    ahead = replay.moves[len(start.plies) : len(start.plies) + 1]
    nobody_moved = all(ply.player == CHANCE for ply in start.plies)
    return nobody_moved and any(isinstance(move, ChanceLine) for move in ahead)


def models_of(replay: Replay) -> ChatOptions | None:
    """How models were asked in the replay; None if there were none.

    Raises ReplayError for what no run of ours has written: it could make requests expensive.
    """
    if replay.header.models is None:
        return None
    try:
        options = _CHAT_OPTIONS.validate_python(replay.header.models)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise ReplayError(
            f"{replay.path}: line 1: models.{shortened(where, 80)}: {shortened(fault['msg'])}"
        ) from None
    sampling, system = options.sampling, options.system or ""
    limits = (
        ("max_attempts", options.max_attempts, 1, MOST_ATTEMPTS),
        ("sampling.temperature", sampling.temperature, 0, 2),
        ("sampling.top_p", sampling.top_p, 0, 1),
        ("sampling.max_tokens", sampling.max_tokens, 1, 10**6),
        ("sampling.n", sampling.n, 1, 1),
        ("the length of system", len(system), 0, LONGEST_SYSTEM),
    )
    for name, value, least, most in limits:
        if not least <= value <= most:
            raise ReplayError(
                f"{replay.path}: line 1: models: {name} is {value}, not {least} to {most}"
            )
    return options


def _goes_on(state: State, limit: int | None) -> bool:
    return not state.is_terminal and (limit is None or state.turn <= limit)


def _checked(replay: Replay, walked: Walked) -> Ply:
    """The ply, if a branch that begins with it can be written and verified."""
    ply = walked.ply
    if walked.drawn not in (None, ply.decision.action):
        raise ReplayError(
            f"{replay.path}: ply {ply.number + 1}: the seed draws '{walked.drawn}', the replay has "
            f"'{ply.decision.action}': it was changed, and nobody can play on from it"
        )
    try:
        for line in ply.lines():
            dump(line)
    except ValueError as error:  # For example NaN, which is no JSON.
        raise ReplayError(
            f"{replay.path}: ply {ply.number + 1}: {shortened(str(error))}"
        ) from error
    return ply


def _sha256(replay: Replay) -> str:
    try:
        with replay.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ReplayError(f"cannot read {replay.path}: {error.strerror}") from error
