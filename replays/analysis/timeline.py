"""Timeline of a replay: all plies with the positions around them, from playing it once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from arena import CHANCE, ActionSet, Event, Game, Ply, Replay, State


@dataclass(frozen=True, slots=True)
class TimelinePly:
    """One ply, and facts of the positions before and after it."""

    ply: Ply
    turn: int
    """The turn in which it was made."""
    legal: ActionSet
    """Legal actions of its player; empty for chance."""
    to_act: tuple[int, ...]
    """The players who must act after it."""
    simultaneous: bool
    """Several players commit at the same time, so the order in which they do so is secret."""


@dataclass
class Timeline:
    """A game from the beginning to the last recorded ply."""

    replay: Replay
    game: Game
    plies: list[TimelinePly] = field(default_factory=list)

    @property
    def last_position(self) -> int:
        """The number of the last position."""
        return len(self.plies)

    @cached_property
    def narration(self) -> dict[int, str]:
        """The text of each event, by `id(event)`; it is the same for all who witness it."""
        narrate = self.game.narrate
        return {id(event): narrate(event) for entry in self.plies for event in entry.ply.events}

    def events_seen_by(self, seat: int | None, ply: int) -> Sequence[Event]:
        """Return the events of a ply that `seat` witnesses; None means that everything is open."""
        events = self.plies[ply].ply.events
        return events if seat is None else [event for event in events if event.seen_by(seat)]


def build_timeline(replay: Replay) -> Timeline:
    """Play the replay once.

    Raises:
        ReplayError: A move does not fit the rules, or there is no such game.
    """
    game = replay.make_game()
    timeline = Timeline(replay, game)
    before = _position_facts(game.initial_state(), replay, 0, simultaneous=False)
    for walked in replay.walk():
        ply, state = walked.ply, walked.state
        timeline.plies.append(
            TimelinePly(ply, walked.turn_before, before.legal, state.to_act, before.simultaneous)
        )
        # The last of several who commit together is alone to act, but belongs to the same group.
        remaining = tuple(player for player in before.to_act if player != ply.player)
        same_group = before.simultaneous and state.to_act == remaining
        before = _position_facts(state, replay, ply.number + 1, same_group)
    return timeline


@dataclass(frozen=True, slots=True)
class _PositionFacts:
    """Facts of one position, copied because the state object changes with the next ply."""

    to_act: tuple[int, ...]
    legal: ActionSet
    simultaneous: bool


def _position_facts(
    state: State, replay: Replay, number: int, simultaneous: bool
) -> _PositionFacts:
    # After the last move the replay does not say who moves next.
    move = replay.moves[number] if number < len(replay.moves) else None
    player = getattr(move, "player", CHANCE)
    several = len(state.to_act) > 1
    return _PositionFacts(state.to_act, state.legal_actions(player), simultaneous or several)
