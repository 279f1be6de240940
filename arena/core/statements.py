"""Facet of a game: which moves are statements, when a statement is true and a promise kept.

A statement is a typed claim, so its truth is known exactly. Players attach statements to their
speech (see `Statement`); bids and accepted offers are statements by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from arena.core.action import Action, Promise, Speech, Statement
from arena.core.event import Event

if TYPE_CHECKING:
    from arena.core.observation import ObservedGame

Truth = Literal["lie", "bluff", "honest", "unsupported"]


class GameTalk:
    """Facet of a game: which moves are statements, when they are true, and when they are kept."""

    bluff_below: float = 0.2
    """A statement that is possible, but less probable than this by the speaker's exact knowledge,
    is a bluff."""
    game: ObservedGame

    def __init__(self, game: ObservedGame) -> None:
        self.game = game

    def statements(self, player: int, action: Action, events: Sequence[Event]) -> Sequence[Action]:
        """Return the statements of a legal move: those attached to speech, or the move itself.

        A game adds moves that state something: a bid, an accepted offer. `events` are all events
        before the move.
        """
        if isinstance(action, Speech):
            return self.game.actions.attached(action.text)
        return (action,) if isinstance(action, Statement) else ()

    def probability(self, statement: Action, speaker: int, knowledge: Any) -> float | None:
        """Return the exact probability of a statement by what its speaker knows.

        None means that it is about no fact: a promise. Opinions ("suspect Player 3") have the
        probability of what they are about.
        """
        return None

    def is_kept(
        self, promise: Promise, speaker: int, action: Action, events: Sequence[Event]
    ) -> bool | None:
        """Return whether a later move of the speaker keeps a promise; None: it does neither.

        `events` are all events before the move.
        """
        return None

    def contradict(self, first: Action, second: Action, speaker: int) -> bool:
        """Return whether two statements of one speaker cannot both be true."""
        return False

    def truth(self, probability: float) -> Truth:
        """Return the class of a statement by its probability in the speaker's view.

        lie: 0; honest: 1; bluff: below `bluff_below`; else unsupported.
        """
        if probability <= 0:
            return "lie"
        if probability >= 1:
            return "honest"
        return "bluff" if probability < self.bluff_below else "unsupported"
