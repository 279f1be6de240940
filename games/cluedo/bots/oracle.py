"""The highest rung: exact probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from arena import Action, Event, Seat
from games.cluedo.bots.sleuth import Sleuth
from games.cluedo.cards import Triple
from games.cluedo.events import Show, Suggest
from games.cluedo.knowledge import CluedoKnowledge


class Oracle(Sleuth):
    """Computes what can be computed, and acts on it.

    Of several hundred suggestions an estimate picks the few that look best (see `estimates`), and
    the exact expected information decides between those; so its question is very good, and not
    always the very best. It accuses when that wins at least as often as waiting would.
    """

    EXACT = 6
    """Suggestions whose expected information is computed exactly; an estimate picks them."""
    RIVALS = 0.5
    """How likely a rival is to solve the case in its next turn when the oracle is down to two
    envelopes. Rivals are taken to know about as much as the oracle does."""

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
        if may_suggest:
            return None
        rivals = self.game.num_players - 1 - len(self.notebook.out)
        threat = self.RIVALS * 2 ** (1 - self.knowledge.entropy())
        return envelope if probability > (1 - threat) ** rivals else None

    def suggest(self, suggestions: Sequence[Suggest]) -> Action:
        scores = self.estimates
        ranked = sorted(self._shuffled(suggestions), key=lambda s: -scores[s.triple])
        return max(
            ranked[: self.EXACT], key=lambda s: self.knowledge.expected_information(s.triple)
        )

    def worth(self, room: str) -> float:
        return max(score for triple, score in self.estimates.items() if triple.room == room)

    @cached_property
    def estimates(self) -> dict[Triple, float]:
        """Expected information of every suggestion in bits, as if cards were held independently.

        Seeing card x rules it out of the envelope: -log2(1 - P(x in the envelope)) bits. If nobody
        can refute, that is a surprise worth -log2 of its probability.
        """
        marginals = self.knowledge.marginals()
        triples = self.game.deck.triples
        index = self.game.deck.index
        named = np.array([[index[card] for card in triple] for triple in triples])
        ruled_out = -np.log2(np.maximum(1 - marginals[:, self.knowledge.envelope], 1e-3))
        asked = np.ones(len(triples))
        score = np.zeros(len(triples))
        for refuter in self.game.refuters(self.player):
            holds: NDArray[np.float64] = marginals[named, refuter]
            shows = asked * (1 - np.prod(1 - holds, axis=1))
            share = holds / np.maximum(holds.sum(axis=1, keepdims=True), 1e-12)
            score += shows * (share * ruled_out[named]).sum(axis=1)
            asked = asked - shows
        nobody = np.maximum(asked, 1e-12)
        score += nobody * -np.log2(nobody)
        return dict(zip(triples, score.tolist(), strict=True))
