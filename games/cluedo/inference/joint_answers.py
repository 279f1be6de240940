"""Exact distribution of the answer to a question if every seat that can refute shows a card.

The answer names, for each other seat, the card that it shows or that it has none. An answer is a
set of conditions on the deal: a seat that shows nothing lacks the three cards; a seat that shows
card c holds c and shows it in one of k cases, if it holds k of the three. So its probability is the
weight of the deals that satisfy these conditions too, divided by the weight of all deals. There are
at most sum over k of C(3, k) n! / (n - k)! answers of n seats: 34 of three and 136 of five.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from games.cluedo.inference.answer_distribution import RefutationEntropies
from games.cluedo.inference.constraints import Constraints, card_numbers
from games.cluedo.inference.counting import DealCount
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple


class JointAnswers:
    """Distribution of the answers of all seats to one suggestion.

    Args:
        knowledge: The suggester's knowledge; it must not change during the lifetime of this object.
        triple: The cards that are suggested.
    """

    def __init__(self, knowledge: CluedoKnowledge, triple: Triple) -> None:
        # The count has the conclusions from all constraints, which exclude most answers.
        self._count = knowledge.count
        self._deck = knowledge.game.deck
        self._refuters = knowledge.game.refuters(knowledge.player)
        self._named = sum(1 << self._deck.index[card] for card in triple)

    def information(self) -> float:
        """Return the expected reduction of the envelope's entropy by the answer, in bits.

        This is I(envelope; answer) = H(envelope) - sum of P(answer) H(envelope | answer), exact
        under the refuter model.
        """
        remaining = sum(float(c.total / self._count.total) * c.entropy() for c in self._answers)
        # Rounding may leave a tiny negative difference.
        return max(0.0, self._count.entropy() - remaining)

    def refutation(self, refuter: int) -> RefutationEntropies:
        """Return the entropies if `refuter` shows a card; it must be able to.

        The answers of the other seats count as unknown: each refuter chooses on its own.
        """
        constraints = self._count.constraints.copy()
        constraints.holders[refuter].clauses += (self._named,)
        after = {}
        for number in card_numbers(self._named & constraints.holders[refuter].may):
            count = DealCount(self._show(self._count.constraints, refuter, 1 << number))
            if count.total:
                after[self._deck.cards[number]] = count.entropy()
        return RefutationEntropies(DealCount(constraints).entropy(), after)

    @cached_property
    def _answers(self) -> list[DealCount]:
        """The count of the deals after each possible answer."""
        counts = [DealCount(each) for each in self._extend(self._count.constraints, self._refuters)]
        return [count for count in counts if count.total]

    def _extend(self, constraints: Constraints, seats: Sequence[int]) -> Iterator[Constraints]:
        """Yield the constraints after each combination of answers of these seats."""
        if not seats:
            yield constraints
            return
        seat, *rest = seats
        holder = constraints.holders[seat]
        if not self._named & holder.must:
            unable = constraints.copy()
            unable.holders[seat].may &= ~self._named
            yield from self._extend(unable, rest)
        for number in card_numbers(self._named & holder.may):
            yield from self._extend(self._show(constraints, seat, 1 << number), rest)

    def _show(self, constraints: Constraints, seat: int, card: int) -> Constraints:
        """Return the constraints after a seat has shown a card, given as a set."""
        shown = constraints.copy()
        for number, holder in enumerate(shown.holders):
            if number != seat:
                holder.may &= ~card
        shown.holders[seat].must |= card
        shown.holders[seat].showings += (self._named,)
        return shown
