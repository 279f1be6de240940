"""A replay, played once: its plies, and what must be remembered of the positions between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from arena import CHANCE, ActionSet, Event, Game, Ply, Replay, State


@dataclass(frozen=True, slots=True)
class Played:
    """One ply, and the positions before and after it."""

    ply: Ply
    turn: int
    """In which it was made."""
    legal: ActionSet
    """What its player might do; empty for chance."""
    to_act: tuple[int, ...]
    """Who must act after it."""
    sealed: bool
    """Whether several commit at once: then nobody may know who has done so first."""


@dataclass
class Course:
    """A game from its beginning as far as the replay goes."""

    replay: Replay
    game: Game
    plies: list[Played] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The number of the last position."""
        return len(self.plies)

    @cached_property
    def talk(self) -> dict[int, str]:
        """Each event, by its identity, as the table tells it; the same for all who witness it."""
        narrate = self.game.narrate
        return {id(event): narrate(event) for each in self.plies for event in each.ply.events}

    def witnessed(self, ply: int, seat: int | None) -> Sequence[Event]:
        """What `seat` witnesses of a ply; None stands for a viewer to whom everything is open."""
        events = self.plies[ply].ply.events
        return events if seat is None else [event for event in events if event.seen_by(seat)]


def play_again(replay: Replay) -> Course:
    """Raises ReplayError where a move does not fit the rules, or there is no such game."""
    game = replay.make_game()
    course = Course(replay, game)
    before = _Before.of(game.initial_state(), replay, 0, sealed=False)
    for walked in replay.walk():
        ply, state = walked.ply, walked.state
        played = Played(ply, walked.turn_before, before.legal, state.to_act, before.sealed)
        course.plies.append(played)
        others = tuple(player for player in before.to_act if player != ply.player)
        # Whoever is left of those who commit at once is sealed as well.
        going_on = before.sealed and state.to_act == others
        before = _Before.of(state, replay, ply.number + 1, going_on)
    return course


@dataclass(frozen=True, slots=True)
class _Before:
    """What a position allows; kept because the state goes on changing."""

    to_act: tuple[int, ...]
    legal: ActionSet
    sealed: bool

    @staticmethod
    def of(state: State, replay: Replay, number: int, sealed: bool) -> _Before:
        move = replay.moves[number] if number < len(replay.moves) else None
        player = getattr(move, "player", CHANCE)
        return _Before(state.to_act, state.legal_actions(player), sealed or len(state.to_act) > 1)
