"""Liar's dice as a `Game`: hidden dice, rising bids and challenges.

The rules are those of OpenSpiel's `liars_dice` (two players, one challenge, the highest face is
wild), extended to 2-6 players, to games until one player has dice left, and to other wild faces.
C. P. Ferguson and T. S. Ferguson, "Models for the game of liar's dice", Stochastic Games and
Related Topics (1991), 15-28, treat the game with one die of the bidder.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arena import (
    CHANCE,
    Action,
    ArraySpec,
    Assessment,
    Comment,
    Event,
    Observation,
    Step,
    TextLevel,
)
from games.liars_dice import text
from games.liars_dice.assessor import FACTS, MEASURES, LiarsDiceAssessor, comment
from games.liars_dice.base import Challenge, DiceBid, LiarsDiceBase
from games.liars_dice.knowledge import LiarsDiceKnowledge
from games.liars_dice.notes import DiceNotes
from games.liars_dice.state import LiarsDiceState
from games.liars_dice.view import LiarsDiceView

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arena.core.batch.state_batch import StateBatch


class LiarsDice(LiarsDiceBase):
    """Liar's dice; `LiarsDiceOptions` lists the options.

    Example:
        >>> from games.liars_dice.base import RollHand
        >>> game = LiarsDice(players=2, dice=1)
        >>> state = game.initial_state()
        >>> state.apply(CHANCE, RollHand((5,)))
        >>> state.apply(CHANCE, RollHand((2,)))
        >>> state.apply(0, DiceBid(1, 5))
        >>> state.apply(1, Challenge())
        >>> state.returns()
        (1.0, -1.0)
    """

    facts = FACTS
    measures = MEASURES

    def initial_state(self) -> LiarsDiceState:
        return LiarsDiceState(self)

    def new_batch(self, size: int) -> StateBatch:
        from games.liars_dice.batch import LiarsDiceBatch

        return LiarsDiceBatch(self, size)

    def new_notes(self, player: int) -> DiceNotes:
        return DiceNotes(self, player)

    def knowledge(self, player: int) -> LiarsDiceKnowledge:
        """Return the exact knowledge of `player` before the first roll."""
        return LiarsDiceKnowledge(self, player)

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> LiarsDiceAssessor:
        return LiarsDiceAssessor(self, players, kinds)

    def comment(self, assessment: Assessment) -> Comment | None:
        return comment(assessment)

    def new_view(self, seat: int | None) -> LiarsDiceView:
        return LiarsDiceView(self, seat)

    def rules(self) -> str:
        return text.rules(self)

    def narrate(self, event: Event) -> str:
        return text.narrate(self, event)

    def situation(self, observation: Observation, level: TextLevel) -> Iterable[str]:
        return text.situation(observation, level)

    def synonyms(self) -> Mapping[str, str]:
        return text.synonyms(self)

    def is_irrevocable(self, action: Action) -> bool:
        """Return whether the action is a challenge: it ends the round, and one player loses."""
        return isinstance(action, Challenge)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return the legal actions without bids that the player's own dice show to be false."""
        notes = observation.notes
        assert isinstance(notes, DiceNotes)
        possible = [
            action
            for action in observation.legal_actions
            if not isinstance(action, DiceBid)
            or action.quantity <= notes.seen_matches(action.face) + notes.hidden
        ]
        # With none left, the player can only lose, whatever is drawn.
        return possible or observation.legal_actions

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Roll the hands of the other seats again, if they have not been revealed."""
        state, steps = self.initial_state(), list[Step]()
        # Every challenge reveals all hands that were rolled before it.
        challenges = [n for n, step in enumerate(history) if isinstance(step.action, Challenge)]
        hidden_from = challenges[-1] if challenges else -1
        for number, step in enumerate(history):
            action = step.action
            if step.player == CHANCE and number > hidden_from and state.roller != player:
                action = state.sample_chance(rng)
            state.apply(step.player, action)
            steps.append(Step(step.player, action))
        return steps

    @cached_property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        players, dice = self.num_players, self.options.dice
        return {
            "player": ArraySpec(shape=(players,), low=0, high=1),
            "dice": ArraySpec(shape=(players, self.options.faces), low=0, high=dice),
            "dice_left": ArraySpec(shape=(players,), low=0, high=dice),
            "bids": ArraySpec(shape=(players, len(self.bids)), low=0, high=1),
        }

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return the arrays of this round; rows are players from the observer on.

        `player` has the seat, `dice` the number of seen dice of each face, `bids` the bids that
        each player made, lowest bid first.
        """
        import numpy as np  # Imported late: listing the games must stay fast.

        notes = observation.notes
        assert isinstance(notes, DiceNotes)
        arrays = {name: np.zeros(spec.shape, np.int8) for name, spec in self.array_specs.items()}
        arrays["player"][observation.player] = 1
        # Counts per face, since the order of dice does not matter.
        for seat, hand in notes.hands.items():
            for die in hand:
                arrays["dice"][seat, die - 1] += 1
        arrays["dice_left"][:] = notes.dice_left
        for made in notes.bids:
            arrays["bids"][made.player, self.actions.index[made.bid]] = 1
        # Rolled, so that the observer is always row 0 and a network need not learn each seat.
        return {
            name: array if name == "player" else np.roll(array, -observation.player, axis=0)
            for name, array in arrays.items()
        }
