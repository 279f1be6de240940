"""Branches: positions of a replay from which a new game can start (`play(start=…)`)."""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from arena.agents.chat import ChatOptions
from arena.core.action import CHANCE
from arena.core.errors import ReplayError, UsageError
from arena.core.event import Ply
from arena.core.game import Game
from arena.core.text import first_fault, pluralize, printable, shorten
from arena.episodes.files import sha256
from arena.episodes.record import ChanceLine, Position, dump
from arena.episodes.replay import Replay, Walked

MAX_ATTEMPTS = 20
"""Replies per decision that max_attempts allows."""
MAX_SYSTEM_LENGTH = 20_000
"""Characters of a system message, which is sent with every request."""

_CHAT_OPTIONS = TypeAdapter(ChatOptions)


def turns_left(replay: Replay, start: Position, game: Game) -> int | None:
    """Return the turn limit of a branch.

    It is that of the replay, but allows no more further turns than a new game has: a replay is
    untrusted, and every turn of a model costs.
    """
    limit, usual, turn = game.turn_limit(replay.header.max_turns), game.default_max_turns, 0
    if limit is None or usual is None:
        return limit
    for walked in replay.walk():
        # `turn` is then the turn that is reached at the start of the branch.
        if walked.ply.number >= len(start.plies):
            break
        turn = walked.state.turn
    # A forged header may allow a million turns; the sum bounds what a branch can cost.
    return min(limit, turn + usual)


def position(replay: Replay, ply: int) -> Position:
    """Return the position after `ply` plies of a replay, which may be unfinished.

    Raises UsageError if the game is over there, and ReplayError if the replay does not fit the
    rules or its own seeds: a branch of it could not be verified.
    """
    plies, last = list[Ply](), 0
    limit = replay.make_game().turn_limit(replay.header.max_turns)
    for walked in replay.walk():
        # The walk goes on after the wanted ply, because the error message names the last possible
        # one.
        if len(plies) < ply:
            plies.append(_checked(replay, walked))
        state = walked.state
        if not state.is_terminal and (limit is None or state.turn <= limit):
            last = walked.ply.number + 1
    if not 0 <= ply <= last:
        # More moves than playable positions: the game ends before the file does.
        over = last < len(replay.moves)
        why = "the game is over there" if over else f"{replay.path} has {pluralize(last, 'ply')}"
        raise UsageError(f"--position {ply}: {why}; choose --position 0 to {last}")
    try:
        digest = sha256(replay.path)
    except OSError as error:
        raise ReplayError(f"cannot read {replay.path}: {error.strerror}") from error
    return Position(printable(replay.path.name), digest, replay.header, tuple(plies))


def redraws_deal(replay: Replay, start: Position) -> bool:
    """Return whether chance moves before the first decision are drawn again.

    The deal of the branch then differs from that of the replay.
    """
    # The next move of the replay, as a list that is empty at its end.
    ahead = replay.moves[len(start.plies) : len(start.plies) + 1]
    before_first_move = all(ply.player == CHANCE for ply in start.plies)
    return before_first_move and any(isinstance(move, ChanceLine) for move in ahead)


def models_of(replay: Replay) -> ChatOptions | None:
    """Return the chat options of the replay; None if no model played.

    Raises ReplayError for values out of range: a forged replay could make requests expensive.
    """
    if replay.header.models is None:
        return None
    try:
        options = _CHAT_OPTIONS.validate_python(replay.header.models)
    except ValidationError as error:
        fault = shorten(first_fault(error))
        raise ReplayError(f"{replay.path}: line 1: models.{fault}") from None
    sampling, system = options.sampling, options.system or ""
    # The replay is untrusted: these are the values that decide the cost of a request.
    limits = (
        ("max_attempts", options.max_attempts, 1, MAX_ATTEMPTS),
        ("sampling.temperature", sampling.temperature, 0, 2),
        ("sampling.top_p", sampling.top_p, 0, 1),
        ("sampling.max_tokens", sampling.max_tokens, 1, 10**6),
        ("the length of system", len(system), 0, MAX_SYSTEM_LENGTH),
    )
    for name, value, least, most in limits:
        if not least <= value <= most:
            raise ReplayError(
                f"{replay.path}: line 1: models: {name} is {value}, not {least} to {most}"
            )
    return options


def _checked(replay: Replay, walked: Walked) -> Ply:
    """Return the ply. Raises ReplayError if a branch with it could not be written or verified."""
    ply = walked.ply
    if walked.drawn not in (None, ply.decision.action):
        raise ReplayError(
            f"{replay.path}: ply {ply.number + 1}: the seed draws '{walked.drawn}', the replay has "
            f"'{ply.decision.action}': the replay was changed and cannot be continued"
        )
    try:
        for line in ply.lines():
            # A dry run: what cannot be written as JSON must fail here, not in the middle of the new
            # game.
            dump(line)
    except ValueError as error:  # For example NaN, which is not JSON.
        raise ReplayError(f"{replay.path}: ply {ply.number + 1}: {shorten(str(error))}") from error
    return ply
