"""The strongest bot: exact probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from arena import Action, Event, Seat
from games.cluedo.bots.logic import CluedoBot
from games.cluedo.inference.information import (
    QuestionValues,
    break_even,
    estimated_information,
)
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import Show, Suggest

MAX_ENTROPY = 2.5
"""Entropy of the envelope in bits above which an accusation is not considered, which saves time."""


class Oracle(CluedoBot):
    """Bot that acts on exact probabilities.

    Its question is the best by exact expected information, or nearly the best (see
    `QuestionValues.best`). It accuses when accusing wins more often than waiting, by the estimate
    `break_even`.
    """

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self.knowledge = CluedoKnowledge(self.game, self.player)

    def observe_event(self, event: Event) -> None:
        self.knowledge.update(event)
        self.__dict__.pop("estimates", None)  # Clears the cached property.

    def show(self, choices: Sequence[Show]) -> Action:
        """Show a card that gives little information.

        Prefer a card that the suggester has seen, else a card of the category with the most cards
        that the suggester has not seen from this seat.
        """
        # Only the player in turn makes suggestions.
        suggester = self.notebook.in_turn
        known = self.notebook.shown_to.get(suggester, set())

        def cost(show: Show) -> float:
            if show.card in known:
                # A card that the suggester knows gives it nothing new.
                return 0.0
            category = next(cards for cards in self.game.deck.categories if show.card in cards)
            return 1.0 / len([card for card in category if card not in known])

        return min(self._shuffled(choices), key=cost)

    def accusation(self, may_suggest: bool) -> Triple | None:
        """Return the likeliest envelope if accusing it now wins more often than waiting."""
        if self.knowledge.entropy() > MAX_ENTROPY:
            return None
        envelope, probability = next(iter(self.knowledge.envelopes().items()))
        # Certain, up to rounding: no threshold is needed.
        if probability > 1 - 1e-9:
            return envelope
        # Seats that still take turns; those that are out cannot win.
        rivals = self.game.num_players - 1 - len(self.notebook.out)
        return envelope if probability > break_even(self.knowledge, rivals, may_suggest) else None

    def suggest(self, suggestions: Sequence[Suggest]) -> Action:
        return QuestionValues(self.knowledge).best(self._shuffled(suggestions)).suggestion

    def room_value(self, room: str) -> float:
        """Return the estimated bits of the best question in the room."""
        return max(bits for triple, bits in self.estimates.items() if triple.room == room)

    @cached_property
    def estimates(self) -> dict[Triple, float]:
        """Estimated bits of all questions, until the next event."""
        return estimated_information(self.knowledge)
