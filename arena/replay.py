"""Reading replays back, playing them again, and verifying them.

A replay is untrusted input: every line is validated, and nothing in it is executed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from arena.action import CHANCE, Action
from arena.agent import Decision
from arena.episode import (
    LINE,
    SCHEMA_VERSION,
    ChanceLine,
    DecisionLine,
    EventLine,
    Header,
    OutcomeLine,
    Ply,
    ReplayLine,
    dump,
    turns_played,
)
from arena.errors import ActionError, ReplayError, UsageError
from arena.game import Game, State
from arena.observation import Json, Observation
from arena.playing import outcome_of, stream
from arena.registry import make_game
from arena.version import __version__


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
        """The game of this replay; raises ReplayError if there is no such game here."""
        try:
            game = make_game(self.header.game, **self.header.options)
        except UsageError as error:
            raise ReplayError(f"{self.path}: line 1: {error}") from error
        if len(self.header.players) != game.num_players:
            raise ReplayError(
                f"{self.path}: line 1: {len(self.header.players)} players in a game for "
                f"{game.num_players}"
            )
        for branch in self.header.branches:
            if len(branch.players) != game.num_players:
                raise ReplayError(
                    f"{self.path}: line 1: the branch at ply {branch.ply} names "
                    f"{len(branch.players)} players in a game for {game.num_players}"
                )
        return game

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
                raise ReplayError(f"{self.path}: ply {number}: {error}") from error
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
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ReplayError(f"cannot read {path}: {error.strerror}") from error
    raw = data.splitlines(keepends=True)
    notice = None
    if raw and not raw[-1].endswith(b"\n"):
        notice = f"the last line is cut off; the replay is read up to line {len(raw) - 1}"
        raw.pop()
    if not raw:
        raise ReplayError(f"{path}: empty, no replay")
    replay = Replay(path, _parse_header(path, raw[0]), notice=notice)
    for number, line in enumerate(raw[1:], start=2):
        _add_line(replay, number, line)
    if replay.outcome is None and notice is None:
        replay.notice = f"the game is unfinished; it has {len(replay.moves)} plies so far"
    return replay


def _parse_header(path: Path, line: bytes) -> Header:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):  # The latter for brackets nested thousands deep.
        raise ReplayError(f"{path}: line 1 is not JSON; this is no replay") from None
    if not isinstance(fields, dict) or fields.get("type") != "header":
        raise ReplayError(f"{path}: line 1 is no replay header; this is no replay")
    version = fields.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ReplayError(
            f"{path}: written with replay schema {version!r}; this arena ({__version__}) "
            f"reads schema {SCHEMA_VERSION}"
        )
    header = _parse_line(path, 1, line)
    assert isinstance(header, Header)
    return header


def _parse_line(path: Path, number: int, line: bytes) -> ReplayLine:
    try:
        return LINE.validate_json(line)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise ReplayError(f"{path}: line {number}: {where or 'line'}: {fault['msg']}") from None


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
        return f"ply {len(replay.moves)}: the end, before the branch at ply {latest} begins"
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
        return f"ply {surplus.ply}: an event '{surplus.event}' that the rules do not give"
    return _verify_outcome(replay, state)


def _verify_move(replay: Replay, walked: Walked) -> str | None:
    number, action = walked.ply.number, str(walked.ply.decision.action)
    found = replay.moves[number].action
    if found != action:
        return f"ply {number}: the move is written '{found}' for '{action}'"
    limit = replay.header.max_turns
    if limit is not None and walked.turn_before > limit:
        return f"ply {number} ({action}): a move after the limit of {limit} turns"
    return None


def _verify_chance(walked: Walked) -> str | None:
    action = walked.ply.decision.action
    if walked.drawn in (None, action):
        return None
    return f"ply {walked.ply.number}: the seed draws '{walked.drawn}', the replay has '{action}'"


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
                f"ply {number} ({walked.ply.decision.action}): "
                f"the rules give {dump(expected).strip()}, "
                f"the replay has {dump(found).strip() if found else 'no such event'}"
            )
    return None


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
            return f"outcome: {name} is {found!r} in the replay, {expected!r} by the rules"
    return None
