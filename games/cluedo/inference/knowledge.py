"""What one player's view implies, exactly: which deals are possible and how probable they are.

Prior: all deals equally likely. Evidence: own hand, open cards, who could not refute, who showed a
card (to oneself: which; to others: that it was one of three), false accusations. How a refuter with
several matching cards chooses is a parameter of the posterior:

- `uniform`: each of its k matching cards is shown with probability 1/k;
- `logic`: no assumption. A showing says only that the card is there; all deals that fit count
  alike. Where nobody cares about probabilities, this is pure logic.

Both agree on what is certain. The published solvers of Clue (Neller and co-authors' ClueReasoner,
which asks a SAT solver; sampling of pseudo-Boolean solutions) decide or estimate what is counted
here.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arena import Event, Placement
from games.cluedo.base import CluedoBase
from games.cluedo.inference.constraints import Holder, Problem, members
from games.cluedo.inference.counting import Count
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import (
    Accused,
    CardShown,
    Deal,
    Dealt,
    EnvelopeSeen,
    HandDealt,
    Refuted,
    Suggested,
    Unable,
)

RefuterModel = Literal["uniform", "logic"]


class CluedoKnowledge:
    """A view that grows by `update`; whatever is asked is counted once and kept until it grows.

    Holders are numbered like seats; the envelope is number `num_players`.
    """

    def __init__(self, game: CluedoBase, player: int, refuter: RefuterModel = "uniform") -> None:
        self.game = game
        self.player = player
        self.refuter = refuter
        self.envelope = game.num_players
        deck = game.deck
        self._bit = {card: 1 << number for card, number in deck.index.items()}
        categories = tuple(sum(map(self._bit.__getitem__, c)) for c in deck.categories)
        everything = sum(categories)
        holders = [Holder(size, everything) for size in (*game.hand_sizes, 3)]
        self.problem = Problem(len(deck.cards), categories, holders)
        self._suggestion: Triple | None = None
        self._count: Count | None = None
        self._marginals: NDArray[np.float64] | None = None

    @classmethod
    def after(
        cls,
        game: CluedoBase,
        player: int,
        events: Iterable[Event],
        refuter: RefuterModel = "uniform",
    ) -> CluedoKnowledge:
        """What `player` knows who has witnessed these events."""
        knowledge = cls(game, player, refuter)
        for event in events:
            knowledge.update(event)
        return knowledge

    def update(self, event: Event) -> None:
        """Take in one more event that the player witnessed."""
        holders = self.problem.holders
        match event:
            case Suggested():
                self._suggestion = event.triple
            case Dealt(open_cards=cards) if cards:
                self._open(cards)
            case HandDealt(player, cards) if player == self.player:
                self._must(player, self._set(cards))
                holders[player].may = self._set(cards)
            case Unable(players):
                named = self._named
                for player in players:
                    self._may_not(player, named)
            case Refuted(player) if player != self.player:
                self._clause(player, self._named)
            case CardShown(player, suggester, card) if suggester == self.player:
                self._must(player, self._bit[card])
                if self.refuter == "uniform":
                    holders[player].showings += (self._named,)
                    self._forget()
            case Accused(correct=False):
                self.problem.excluded |= {self._set(event.triple)}
                self._forget()
            case Accused(correct=True):
                self._must(self.envelope, self._set(event.triple))
            case EnvelopeSeen(player, envelope) if player == self.player:
                self._must(self.envelope, self._set(envelope))
            case _:
                pass

    # Taking in evidence

    def _set(self, cards: tuple[str, ...]) -> int:
        return sum(self._bit[card] for card in cards)

    @property
    def _named(self) -> int:
        assert self._suggestion is not None
        return self._set(self._suggestion)

    def _forget(self) -> None:
        self._count = self._marginals = None

    def _open(self, cards: tuple[str, ...]) -> None:
        """Open cards are out of the deck."""
        lying = self._set(cards)
        self.problem.categories = tuple(c & ~lying for c in self.problem.categories)
        for holder in self.problem.holders:
            holder.may &= ~lying
        self._forget()

    def _must(self, holder: int, cards: int) -> None:
        if cards & ~self.problem.holders[holder].must:
            self.problem.holders[holder].must |= cards
            for other, place in enumerate(self.problem.holders):
                if other != holder:
                    place.may &= ~cards
            self._forget()

    def _may_not(self, holder: int, cards: int) -> None:
        if cards & self.problem.holders[holder].may:
            self.problem.holders[holder].may &= ~cards
            self._forget()

    def _clause(self, holder: int, cards: int) -> None:
        place = self.problem.holders[holder]
        if not cards & place.must and cards not in place.clauses:
            place.clauses += (cards,)
            self._forget()

    # Answers

    @property
    def count(self) -> Count:
        if self._count is None:
            self._count = Count(self.problem)
            if not self._count.total:
                raise ValueError("no deal fits these events: they are not one game's")
        return self._count

    def world_count(self) -> int:
        """How many deals are consistent with the view."""
        if self.refuter == "logic" or not any(h.showings for h in self.problem.holders):
            return round(self.count.total)
        unweighted = self.problem.copy()
        for holder in unweighted.holders:
            holder.showings = ()
        return round(Count(unweighted).total)

    def entropy(self) -> float:
        """Uncertainty about the envelope, in bits."""
        return self.count.entropy()

    def marginals(self) -> NDArray[np.float64]:
        """Shape (cards, seats + 1): the probability that each holder has each card.

        Rows follow the deck; the last column is the envelope. An open card has a row of zeros.
        """
        if self._marginals is None:
            self._marginals = self.count.marginals()
        return self._marginals

    def placement(self) -> Placement:
        """The marginals, with names."""
        deck = self.game.deck
        kinds = zip(("Suspects", "Weapons", "Rooms"), deck.categories, strict=True)
        return Placement(
            things=deck.cards,
            kinds=tuple(kind for kind, cards in kinds for _ in cards),
            places=(*self.game.seat_names, "Envelope"),
            probabilities=tuple(map(tuple, self.marginals().tolist())),
        )

    def possible(self) -> NDArray[np.bool_]:
        """Shape as `marginals`: which holders can have each card. Certain means just one."""
        return self.marginals() > 0.0

    def holder(self, card: str) -> int | None:
        """The one holder that can have `card`, if it is certain."""
        holders = np.flatnonzero(self.possible()[self.game.deck.index[card]])
        return int(holders[0]) if len(holders) == 1 else None

    def envelopes(self) -> dict[Triple, float]:
        """Every possible content of the envelope and its probability, likeliest first."""
        cards, found = self.game.deck.cards, {}
        for alike in self.count.envelopes():
            suspects, weapons, rooms = (
                [cards[number] for number in members(group)] for group in alike.classes
            )
            share = alike.probability / (len(suspects) * len(weapons) * len(rooms))
            for suspect in suspects:
                for weapon in weapons:
                    for room in rooms:
                        found[Triple(suspect, weapon, room)] = share
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def sample(self, rng: random.Random) -> Deal:
        """A deal drawn from the posterior, card by card."""
        drawn = CluedoKnowledge(self.game, self.player, self.refuter)
        drawn.problem = self.problem.copy()
        deck, holders = self.game.deck, range(self.envelope + 1)
        lying = [card for card in deck.cards if not self.marginals()[deck.index[card]].any()]
        for card in deck.cards:
            if card not in lying:
                chances = drawn.marginals()[deck.index[card]]
                drawn._must(rng.choices(holders, chances)[0], self._bit[card])
        piles = [
            tuple(card for card in deck.cards if place.must & self._bit[card])
            for place in drawn.problem.holders
        ]
        return Deal(Triple(*piles.pop()), tuple(piles), tuple(lying))
