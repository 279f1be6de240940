"""Options and actions of Negotiation, which its rules, knowledge and texts share."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import ClassVar

from arena import Action, Game, ReturnScale, Say, Speech
from games.negotiation.deals import (
    ITEMS,
    MOST,
    MOST_OF_A_TYPE,
    TOTAL_VALUE,
    Triple,
    divisions,
)
from games.negotiation.events import (
    ACCEPT,
    REJECT,
    NegotiationOptions,
    ProposeDivision,
)


@lru_cache(maxsize=64)
def proposals(counts: Triple, players: int) -> tuple[ProposeDivision, ...]:
    """Return all offers of a division of these items, in a fixed order."""
    return tuple(
        ProposeDivision(shares[0], shares[1] if players == 3 else None)
        for shares in divisions(counts, players)
    )


@lru_cache
def all_proposals(players: int) -> tuple[ProposeDivision, ...]:
    """Return the offers of all deals: 108 for two players, 1,587 for three."""
    amounts = range(MOST_OF_A_TYPE + 1)
    if players == 2:
        kept = product(amounts, repeat=len(ITEMS))
        return tuple(ProposeDivision(each) for each in kept if sum(each) <= MOST)
    # For each type a pair of the numbers that are kept and given.
    pairs = [pair for pair in product(amounts, repeat=2) if sum(pair) <= MOST_OF_A_TYPE]
    return tuple(
        ProposeDivision(tuple(kept for kept, _ in types), tuple(given for _, given in types))
        for types in product(pairs, repeat=len(ITEMS))
        if sum(map(sum, types)) <= MOST
    )


class NegotiationBase(Game, ABC):
    """Options and actions; `Negotiation` adds the rest of the game.

    It is separate from `Negotiation`, so that rules and texts can import it without importing the
    modules that `Negotiation` uses.
    """

    name = "negotiation"
    summary = "divide items of private value, by offers and talk"
    Options = NegotiationOptions
    options: NegotiationOptions
    return_scale = ReturnScale("return", "points", 0.0, float(TOTAL_VALUE))
    speech: ClassVar[tuple[type[Speech], ...]] = (Say,)

    @property
    def num_players(self) -> int:
        return self.options.players

    def _all_actions(self) -> Iterable[Action]:
        return (ACCEPT, REJECT, *all_proposals(self.num_players))

    def proposals(self, counts: Triple) -> Sequence[Action]:
        """Return all offers of a division of these items."""
        return proposals(counts, self.num_players)
