"""Reading replays back, playing them again, and verifying them.

A replay is untrusted input: every line is validated, and nothing in it is executed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG

from pydantic import ValidationError

from arena.core.action import CHANCE, Action
from arena.core.errors import ActionError, ReplayError, UsageError
from arena.core.game import Game, State
from arena.core.json import Json
from arena.core.observation import Observation
from arena.core.ply import Decision, Ply
from arena.core.seeds import stream
from arena.core.text import counted, shortened
from arena.core.version import __version__
from arena.episodes.record import (
    LINE,
    SCHEMA_VERSION,
    ChanceLine,
    DecisionLine,
    EventLine,
    Header,
    OutcomeLine,
    ReplayLine,
    dump,
    turns_played,
)
from arena.episodes.runner import outcome_of
from arena.plugins.loader import make_game

NO_HEADER = "line 1 is no replay header; this is no replay"


@dataclass(slots=True)
class Replay:
    """A replay as read from disk: its lines, checked one by one but not yet played."""

    path: Path
    header: Header
    moves: list[DecisionLine | ChanceLine] = field(default_factory=list)
    events: list[EventLine] = field(default_factory=list)
    outcome: OutcomeLine | None = None
    notice: str | None = None
    """What a reader should know about the file: that it is unfinished, or cut off."""

    def make_game(self) -> Game:
        """The game of this replay.

        Raises ReplayError if there is no such game here, and where the header or the outcome is
        not about as many players as it has.
        """
        try:
            game = make_game(self.header.game, **self.header.options)
        except UsageError as error:
            raise ReplayError(f"{self.path}: line 1: {shortened(str(error))}") from error
        if len(self.header.players) != game.num_players:
            raise ReplayError(
                f"{self.path}: line 1: {len(self.header.players)} players in a game for "
                f"{game.num_players}"
            )
        for branch in self.header.branches:
            if len(branch.players) != game.num_players:
                raise ReplayError(
                    f"{self.path}: line 1: the branch at position {branch.ply} names "
                    f"{len(branch.players)} players in a game for {game.num_players}"
                )
        self._check_outcome(game.num_players)
        return game

    def _check_outcome(self, players: int) -> None:
        """Whoever reads the returns or the winner finds one of each seat, and a seat."""
        line = self.outcome
        if line is None:
            return
        where = f"{self.path}: line {2 + len(self.moves) + len(self.events)}"
        if len(line.returns) != players:
            raise ReplayError(f"{where}: {len(line.returns)} returns in a game for {players}")
        if not all(map(math.isfinite, line.returns)):
            raise ReplayError(f"{where}: a return that is no finite number")
        if line.winner is not None and not 0 <= line.winner < players:
            raise ReplayError(f"{where}: the winner is seat {line.winner} of {players}")

    def walk(self) -> Iterator[Walked]:
        """Play the game again; yields the state after each ply. The state goes on changing.

        Raises ReplayError where a move does not fit the rules.
        """
        state, seeds = self.make_game().initial_state(), self.header.chance_seeds()
        for number, move in enumerate(self.moves):
            if number in seeds:  # As 0 always is.
                chance = stream(seeds[number], "chance")
            player = move.player if isinstance(move, DecisionLine) else CHANCE
            before, turn = len(state.log.events), state.turn
            moves = player != CHANCE and player in state.to_act
            seen = state.observe(player) if moves else None
            drawn = state.sample_chance(chance) if state.to_act == (CHANCE,) else None
            try:
                action = state.parse(move.action)
                state.apply(player, action)
            except ActionError as error:
                where = f"{self.path}: ply {number + 1}"
                raise ReplayError(f"{where}: {shortened(str(error))}") from error
            decision, seconds = Decision(action), None
            if isinstance(move, DecisionLine):
                decision = Decision(action, move.failure, move.details)
                seconds = move.seconds
            events = tuple(state.log.events[before:])
            yield Walked(state, Ply(number, player, decision, events, seconds), turn, drawn, seen)


@dataclass(frozen=True, slots=True)
class Walked:
    """One ply of a replay that is played again, and the position after it."""

    state: State
    ply: Ply
    turn_before: int
    """The turn in which the move was made."""
    drawn: Action | None
    """What the replay's seed draws here; None where a player moves."""
    seen: Observation | None
    """What the player could know when it moved; None for chance."""


def read_replay(path: Path | str) -> Replay:
    """Read a replay. Raises ReplayError with the line at fault; a cut-off end is a notice."""
    path = Path(path)
    raw = _read(path).splitlines(keepends=True)
    notice = None
    if raw and not raw[-1].endswith(b"\n"):
        notice = f"the last line is cut off; the replay is read up to line {len(raw) - 1}"
        raw.pop()
    if not raw:
        raise ReplayError(f"{path}: empty, no replay")
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
        replay.notice = f"the game is unfinished; it has {counted(len(replay.moves), 'ply')} so far"
    return replay


def _read(path: Path) -> bytes:
    try:
        check_regular(path)
        return path.read_bytes()
    except OSError as error:
        raise ReplayError(f"cannot read {path}: {error.strerror}") from error


def check_regular(path: Path) -> None:
    """Opening a pipe would wait for its writer, and a device may never end.

    Raises ReplayError for these, and OSError for what is not there. A folder is left to whoever
    opens it, which says what it is.
    """
    mode = path.stat().st_mode
    if not (S_ISREG(mode) or path.is_dir()):
        raise ReplayError(f"cannot read {path}: it is no regular file")


def read_header(line: bytes) -> Header | None:
    """The header that a file's first line holds; None for JSON that is no header of a replay.

    Raises ReplayError, which does not name the file, for a header that is none of ours.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):  # The latter for brackets nested thousands deep.
        raise ReplayError("line 1 is not JSON; this is no replay") from None
    if not isinstance(fields, dict) or fields.get("type") != "header":
        return None
    version = fields.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ReplayError(
            f"written with replay schema {shortened(repr(version), 40)}; this arena "
            f"({__version__}) reads schema {SCHEMA_VERSION}"
        )
    try:
        return Header.model_validate_json(line)
    except ValidationError as error:
        raise ReplayError(f"line 1: {_fault(error)}") from None


def _parse_line(path: Path, number: int, line: bytes) -> ReplayLine:
    try:
        return LINE.validate_json(line)
    except ValidationError as error:
        raise ReplayError(f"{path}: line {number}: {_fault(error)}") from None


def _fault(error: ValidationError) -> str:
    """The first fault, and in which field; both may quote the line."""
    fault = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, fault["loc"])) or "line"
    return f"{shortened(where, 80)}: {shortened(fault['msg'])}"


def _add_line(replay: Replay, number: int, raw: bytes) -> None:
    line = _parse_line(replay.path, number, raw)
    if isinstance(line, Header):
        raise ReplayError(f"{replay.path}: line {number}: a second header")
    if replay.outcome is not None:
        raise ReplayError(f"{replay.path}: line {number}: there is a line after the outcome")
    if isinstance(line, OutcomeLine):
        replay.outcome = line
        return
    expected = len(replay.moves) - isinstance(line, EventLine)
    if line.ply != expected:
        raise ReplayError(
            f"{replay.path}: line {number}: ply {line.ply} where {expected} was expected"
        )
    if isinstance(line, EventLine):
        replay.events.append(line)
    else:
        replay.moves.append(line)


def verify(replay: Replay) -> str | None:
    """Play the replay again; the first difference in words, or None if there is none.

    Chance is drawn again from the seed, and from the ply at which a branch begins from the seed of
    the branch; every move must be written as the rules write it, every event be what the rules
    give, and the outcome be the one that was reached.
    """
    latest = max(replay.header.chance_seeds())
    if replay.outcome is not None and 0 < latest >= len(replay.moves):
        return f"ply {len(replay.moves)} is the last, before the branch at position {latest} begins"
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
    surplus = next(recorded, None)
    if surplus is not None:
        event = shortened(surplus.event)
        return f"ply {surplus.ply + 1}: an event '{event}' that the rules do not give"
    return _verify_outcome(replay, state)


def _verify_move(replay: Replay, walked: Walked) -> str | None:
    number, action = walked.ply.number, str(walked.ply.decision.action)
    found = replay.moves[number].action
    if found != action:
        return f"ply {number + 1}: the move is written '{shortened(found)}' for '{action}'"
    limit = replay.header.max_turns
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
    """Compare event by event; what is `cut_off` may end anywhere in its last ply."""
    number = walked.ply.number
    for event in walked.ply.events:
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


def _written(event: Json) -> str:
    """As it stands in the file, which need not be JSON by the letter: it may hold NaN."""
    return shortened(json.dumps(event, separators=(",", ":"))) if event else "no such event"


def _verify_outcome(replay: Replay, state: State | None) -> str | None:
    line, limit = replay.outcome, replay.header.max_turns
    if line is None:
        return None
    if state is None:
        return "an outcome without any move"
    if not state.is_terminal and (limit is None or state.turn <= limit):
        return f"the replay ends at turn {state.turn}, where the game goes on"
    outcome = outcome_of(state, limit)
    facts: list[tuple[str, Json, Json]] = [
        ("status", line.status, outcome.status),
        ("reason", line.reason, outcome.reason),
        ("returns", line.returns, outcome.returns),
        ("winner", line.winner, outcome.winner),
        ("turns", line.turns, turns_played(state, limit)),
        ("decisions", line.decisions, sum(isinstance(m, DecisionLine) for m in replay.moves)),
    ]
    for name, found, expected in facts:
        if found != expected:
            read = shortened(repr(found))
            return f"outcome: {name} is {read} in the replay, {expected!r} by the rules"
    return None
