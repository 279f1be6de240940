"""Timeline of a replay: all plies with the positions around them, from playing it once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from arena import Action, Event, Game, Ply, Replay


@dataclass(frozen=True, slots=True)
class TimelinePly:
    """One ply, and facts of the positions before and after it."""

    ply: Ply
    turn: int
    """The turn in which it was made."""
    legal: Sequence[Action]
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
    to_act, simultaneous = game.initial_state().to_act, False
    for walked in replay.walk():
        ply, next_to_act = walked.ply, walked.state.to_act
        simultaneous = simultaneous or len(to_act) > 1
        legal = walked.observation.legal_actions if walked.observation else ()
        timeline.plies.append(
            TimelinePly(ply, walked.turn_before, legal, next_to_act, simultaneous)
        )
        # The last of several who commit together is alone to act, but belongs to the same group.
        remaining = tuple(player for player in to_act if player != ply.player)
        simultaneous = simultaneous and next_to_act == remaining
        to_act = next_to_act
    return timeline
