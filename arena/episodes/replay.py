"""Reading replays back, playing them again, and verifying them.

A replay is untrusted input: every line is validated, and nothing in it is executed.
"""

from __future__ import annotations

import json
import math
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG

from pydantic import JsonValue, ValidationError

from arena.core.action import CHANCE, Action
from arena.core.errors import ActionError, ReplayError, UsageError
from arena.core.event import Decision, Ply
from arena.core.game import Game, State
from arena.core.observation import Observation
from arena.core.spec import stream
from arena.core.text import first_fault, pluralize, shorten
from arena.core.version import __version__
from arena.episodes.match import outcome_of
from arena.episodes.record import (
    LINE,
    SCHEMA_VERSION,
    ChanceLine,
    DecisionLine,
    EventLine,
    Header,
    OutcomeLine,
    dump,
    turns_played,
)
from arena.plugins.catalog import make_game

NO_HEADER = "line 1 is not a replay header; this is not a replay"
UNPROVEN = "Not proven: who gave the recorded decisions and replies, their tokens, cost and times."
"""Limits of `verify`, for people."""


@dataclass(slots=True)
class Replay:
    """A replay as read from disk: its lines, checked one by one but not yet played again."""

    path: Path
    header: Header
    moves: list[DecisionLine | ChanceLine] = field(default_factory=list)
    events: list[EventLine] = field(default_factory=list)
    outcome: OutcomeLine | None = None
    notice: str | None = None
    """Message for people if the file is unfinished or cut off."""

    def make_game(self) -> Game:
        """Make the game of this replay.

        Raises ReplayError for an unknown game, and if the header or the outcome has another number
        of players than the game.
        """
        header, where = self.header, f"{self.path}: line 1"
        try:
            game = make_game(header.game, **header.options)
        except UsageError as error:
            raise ReplayError(f"{where}: {shorten(str(error))}") from error
        seats = game.num_players
        if len(header.players) != seats:
            raise ReplayError(f"{where}: {len(header.players)} players in a game for {seats}")
        for branch in header.branches:
            if len(branch.players) != seats:
                raise ReplayError(
                    f"{where}: the branch at position {branch.ply} names {len(branch.players)} "
                    f"players in a game for {seats}"
                )
        self._check_outcome(seats)
        return game

    def _check_outcome(self, players: int) -> None:
        """Check that there is a finite return for each seat, and that the winner is a seat.

        If there are roles or teams, each seat has one.
        """
        line = self.outcome
        if line is None:
            return
        # The header is line 1, and the outcome follows all moves and events.
        where = f"{self.path}: line {2 + len(self.moves) + len(self.events)}"
        if len(line.returns) != players:
            raise ReplayError(f"{where}: {len(line.returns)} returns in a game for {players}")
        if not all(map(math.isfinite, line.returns)):
            raise ReplayError(f"{where}: a return that is not a finite number")
        if line.winner is not None and not 0 <= line.winner < players:
            raise ReplayError(f"{where}: the winner is seat {line.winner} of {players}")
        for name, of_seats in (("roles", line.roles), ("teams", line.teams)):
            if of_seats and len(of_seats) != players:
                raise ReplayError(f"{where}: {len(of_seats)} {name} in a game for {players}")

    def walk(self) -> Iterator[Walked]:
        """Play the game again; yield each ply with the state after it, which is not copied.

        Raises ReplayError for a move against the rules.
        """
        state, seeds = self.make_game().initial_state(), self.header.chance_seeds()
        for number, move in enumerate(self.moves):
            if number in seeds:  # As 0 always is.
                chance = stream(seeds[number], "chance")
            player = move.player if isinstance(move, DecisionLine) else CHANCE
            # All of this is read before the move, because `apply` changes the state in place.
            before, turn = len(state.log.events), state.turn
            moves = player != CHANCE and player in state.to_act
            seen = state.observe(player) if moves else None
            # Drawn even if the replay has another result, so that the stream stays in step with the
            # game.
            drawn = state.sample_chance(chance) if state.to_act == (CHANCE,) else None
            try:
                # The text is untrusted: `parse` and `apply` accept only actions that the rules
                # allow here.
                action = state.parse(move.action)
                state.apply(player, action)
            except ActionError as error:
                where = f"{self.path}: ply {number + 1}"
                raise ReplayError(f"{where}: {shorten(str(error))}") from error
            decision, seconds = Decision(action), None
            if isinstance(move, DecisionLine):
                decision, seconds = Decision(action, move.failure, move.details), move.seconds
            events = tuple(state.log.events[before:])
            yield Walked(state, Ply(number, player, decision, events, seconds), turn, drawn, seen)


@dataclass(frozen=True, slots=True)
class Walked:
    """Ply of a replay that is played again, and the position after it."""

    state: State
    ply: Ply
    turn_before: int
    """The turn in which the move was made."""
    drawn: Action | None
    """Action that the seed of the replay draws here; None for the move of a player."""
    observation: Observation | None
    """Observation of the player before its move; None for chance."""


def read_replay(path: Path | str) -> Replay:
    """Read a replay. Raises ReplayError with the line at fault; a cut-off end is a notice."""
    path = Path(path)
    # Line ends are kept, to detect a last line that was cut off. Bytes, because a cut may split a
    # character.
    try:
        check_regular(path)
        raw = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise ReplayError(f"cannot read {path}: {error.strerror}") from error
    notice = None
    while raw and not raw[-1].strip():  # Editors add empty lines.
        raw.pop()
    if raw and not raw[-1].endswith(b"\n") and not _is_line(raw[-1]):
        notice = f"the last line is cut off; the replay is read up to line {len(raw) - 1}"
        raw.pop()
    if not raw:
        raise ReplayError(f"{path}: the file is empty, not a replay")
    try:
        header = read_header(raw[0])
    except ReplayError as error:
        raise ReplayError(f"{path}: {error}") from None
    if header is None:
        raise ReplayError(f"{path}: {NO_HEADER}")
    replay = Replay(path, header, notice=notice)
    for number, line in enumerate(raw[1:], start=2):
        _add_line(replay, number, line)
    if replay.outcome is None and notice is None:
        replay.notice = (
            f"the game is unfinished; it has {pluralize(len(replay.moves), 'ply')} so far"
        )
    return replay


def _is_line(raw: bytes) -> bool:
    """Return whether a last line without a line end is whole, as editors may leave it."""
    try:
        LINE.validate_json(raw)
    except ValidationError:
        return False
    return True


def check_regular(path: Path) -> None:
    """Raise ReplayError for a pipe or a device, which could be read for ever.

    Raises OSError for a missing file. A folder passes: opening it gives a clear error.
    """
    mode = path.stat().st_mode
    if not (S_ISREG(mode) or path.is_dir()):
        raise ReplayError(f"cannot read {path}: it is not a regular file")


def read_header(line: bytes) -> Header | None:
    """Return the header in the first line of a file; None for other JSON.

    Raises ReplayError, which does not name the file, for a header of another version.
    """
    line = line.removeprefix(BOM_UTF8)
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):  # The latter for brackets nested thousands deep.
        raise ReplayError("line 1 is not JSON; this is not a replay") from None
    if not isinstance(fields, dict) or fields.get("type") != "header":
        return None
    # Checked before the fields: a header of another version may have other fields.
    version = fields.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ReplayError(
            f"written with replay schema {shorten(repr(version), 40)}; this arena "
            f"({__version__}) reads schema {SCHEMA_VERSION}"
        )
    try:
        return Header.model_validate_json(line)
    except ValidationError as error:
        raise ReplayError(f"line 1: {shorten(first_fault(error, 'line'))}") from None


def _add_line(replay: Replay, number: int, raw: bytes) -> None:
    where = f"{replay.path}: line {number}"
    try:
        line = LINE.validate_json(raw)
    except ValidationError as error:
        raise ReplayError(f"{where}: {shorten(first_fault(error, 'line'))}") from None
    if isinstance(line, Header):
        raise ReplayError(f"{where}: a second header")
    if replay.outcome is not None:
        raise ReplayError(f"{where}: there is a line after the outcome")
    if isinstance(line, OutcomeLine):
        replay.outcome = line
        return
    # A move starts the next ply; an event belongs to the ply of the last move.
    expected = len(replay.moves) - isinstance(line, EventLine)
    if line.ply != expected:
        raise ReplayError(f"{where}: ply {line.ply} where {expected} was expected")
    if isinstance(line, EventLine):
        replay.events.append(line)
    else:
        replay.moves.append(line)


def verify(replay: Replay) -> str | None:
    """Play a replay again; return the first difference in words, or None.

    Chance is drawn again from the seed, and after the start of a branch from the seed of the
    branch. Every move must be written as the rules write it, and events and outcome must be equal.
    """
    latest = max(replay.header.chance_seeds())
    # A branch without a ply of its own would be finished by its parent's moves alone.
    if replay.outcome is not None and 0 < latest >= len(replay.moves):
        return f"ply {len(replay.moves)} is the last, before the branch at position {latest} starts"
    recorded = iter(replay.events)
    state = None
    for walked in replay.walk():
        difference = (
            _verify_move(replay, walked)
            or _verify_chance(walked)
            or _verify_events(walked, recorded, cut_off=replay.outcome is None)
        )
        if difference:
            return difference
        state = walked.state
    # Each event of the rules has consumed one line, so none may be left.
    surplus = next(recorded, None)
    if surplus is not None:
        event = shorten(surplus.event)
        return f"ply {surplus.ply + 1}: an event '{event}' that the rules do not give"
    return _verify_outcome(replay, state)


def _verify_move(replay: Replay, walked: Walked) -> str | None:
    number, action = walked.ply.number, str(walked.ply.decision.action)
    found = replay.moves[number].action
    # A prefix or another case would parse to the same action, but a genuine replay has the exact
    # text.
    if found != action:
        return f"ply {number + 1}: the move is written '{shorten(found)}' for '{action}'"
    limit = replay.header.max_turns
    # The runner asks no player after the limit, so such a move was added later.
    if limit is not None and walked.turn_before > limit:
        return f"ply {number + 1} ({action}): a move after the limit of {limit} turns"
    return None


def _verify_chance(walked: Walked) -> str | None:
    action = walked.ply.decision.action
    if walked.drawn in (None, action):
        return None
    number = walked.ply.number + 1
    return f"ply {number}: the seed draws '{walked.drawn}', the replay has '{action}'"


def _verify_events(walked: Walked, recorded: Iterator[EventLine], cut_off: bool) -> str | None:
    """Compare event by event; a replay that is `cut_off` may end within its last ply."""
    number = walked.ply.number
    for event in walked.ply.events:
        # Through JSON, so that tuples become lists as in the file.
        expected = json.loads(dump({"type": "event", "ply": number, **event.to_json()}))
        line = next(recorded, None)
        if line is None and cut_off:
            return None
        found = line.model_dump(mode="json") if line else None
        if found != expected:
            return (
                f"ply {number + 1} ({walked.ply.decision.action}): "
                f"the rules give {dump(expected).strip()}, the replay has {_written(found)}"
            )
    return None


def _written(event: JsonValue) -> str:
    """Return the event as in the file, which may hold NaN and so not be strict JSON."""
    return shorten(json.dumps(event, separators=(",", ":"))) if event else "no such event"


def _verify_outcome(replay: Replay, state: State | None) -> str | None:
    line, limit = replay.outcome, replay.header.max_turns
    goes_on = state is None or not (state.is_terminal or (limit and state.turn > limit))
    if line is None:
        return None if goes_on else "the game is over, but the replay has no outcome"
    if state is None:
        return "an outcome without any move"
    if goes_on:
        return f"the replay ends at turn {state.turn}, where the game goes on"
    outcome = outcome_of(state, limit)
    facts: list[tuple[str, object, object]] = [
        ("status", line.status, outcome.status),
        ("reason", line.reason, outcome.reason),
        ("returns", line.returns, outcome.returns),
        ("winner", line.winner, outcome.winner),
        ("roles", line.roles, outcome.roles),
        ("teams", line.teams, outcome.teams),
        ("turns", line.turns, turns_played(state, limit)),
        ("decisions", line.decisions, sum(isinstance(m, DecisionLine) for m in replay.moves)),
    ]
    for name, found, expected in facts:
        if found != expected:
            read = shorten(repr(found))
            return f"outcome: {name} is {read} in the replay, {expected!r} by the rules"
    return None
