"""The highest rung: exact probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from arena import Action, Event, Seat
from games.cluedo.bots.sleuth import Sleuth
from games.cluedo.inference.accusation_threshold import break_even
from games.cluedo.inference.information import best_question, estimates
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import Show, Suggest


class Oracle(Sleuth):
    """Computes what can be computed, and acts on it.

    Its question is the best by exact expected information, or very nearly (`information` compares
    some that look good). It accuses when that wins at least as often as waiting would (`timing`).
    """

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self.knowledge = CluedoKnowledge(self.game, self.player)

    def watch(self, event: Event) -> None:
        self.knowledge.update(event)
        self.__dict__.pop("estimates", None)

    def show(self, choices: Sequence[Show]) -> Action:
        """The card that tells least: one already shown to this player, else one of many alike."""
        suggester = self.notebook.in_turn
        known = self.notebook.shown_to.get(suggester, set())

        def bits(show: Show) -> float:
            if show.card in known:
                return 0.0
            kind = next(cards for cards in self.game.deck.categories if show.card in cards)
            return 1.0 / len([card for card in kind if card not in known])

        return min(self._shuffled(choices), key=bits)

    def accusation(self, may_suggest: bool) -> Triple | None:
        """The likeliest envelope, if accusing now wins at least as often as waiting would."""
        if self.knowledge.entropy() > 2.5:
            return None
        envelope, probability = next(iter(self.knowledge.envelopes().items()))
        if probability > 1 - 1e-9:
            return envelope
        rivals = self.game.num_players - 1 - len(self.notebook.out)
        least = break_even(self.knowledge, rivals, may_suggest)
        return envelope if probability > least else None

    def suggest(self, suggestions: Sequence[Suggest]) -> Action:
        return best_question(self.knowledge, self._shuffled(suggestions)).suggestion

    def worth(self, room: str) -> float:
        return max(score for triple, score in self.estimates.items() if triple.room == room)

    @cached_property
    def estimates(self) -> dict[Triple, float]:
        return estimates(self.knowledge)
