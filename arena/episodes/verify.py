"""Verification of replays: the rules must give the same events and outcome again."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import JsonValue

from arena.core.game import State
from arena.core.text import shorten
from arena.episodes.record import DecisionLine, EventLine, dump, turns_played
from arena.episodes.replay import Replay, Walked
from arena.episodes.runner import outcome_of


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
    if line is None:
        return None
    if state is None:
        return "an outcome without any move"
    if not state.is_terminal and (limit is None or state.turn <= limit):
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
