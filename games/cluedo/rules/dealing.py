"""The deal: drawn at random, checked, and read from text."""

from __future__ import annotations

import operator
import random
from typing import TYPE_CHECKING

from arena import InvalidAction
from games.cluedo.rules.cards import Triple
from games.cluedo.rules.events import Begin, DealCards

if TYPE_CHECKING:
    from games.cluedo.base import CluedoBase


def is_complete(game: CluedoBase, deal: DealCards) -> bool:
    """Return whether each card of the deck is dealt once and all piles have the right size."""
    deck = game.deck
    hand_cards = (card for hand in deal.hands for card in hand)
    dealt = [*deal.envelope, *deal.open_cards, *hand_cards]
    return (
        len(dealt) == len(deck.cards)
        and set(dealt) == set(deck.cards)
        and tuple(map(len, deal.hands)) == game.hand_sizes
        and len(deal.envelope) == 3
        # One card of each category, in the order suspect, weapon, room.
        and all(map(operator.contains, deck.categories, deal.envelope))
    )


def sample_deal(game: CluedoBase, rng: random.Random) -> DealCards:
    """Draw a deal; all deals are equally likely."""
    deck = game.deck
    # The rule of the game: first the envelope, one card of each category, then the other cards.
    envelope = Triple(*map(rng.choice, deck.categories))
    # The draws, and their order, are part of the replay format: another order would change the deal
    # of a seed.
    remaining = list(deck.cards)
    for card in envelope:
        remaining.remove(card)
    rng.shuffle(remaining)
    hands, start = [], 0
    for size in game.hand_sizes:
        hands.append(deck.sort(remaining[start : start + size]))
        start += size
    # What is left after all hands lies open; empty unless `leftover_cards` is "open".
    return DealCards(envelope, tuple(hands), deck.sort(remaining[start:]))


def parse_begin(game: CluedoBase, text: str) -> Begin:
    """Parse `str(Begin)`. Raises InvalidAction if it names no seat."""
    for seat in range(game.num_players):
        if text == str(Begin(seat)):
            return Begin(seat)
    raise InvalidAction(f"'{text}' names no first player; expected 'begin 0' and the like")


def parse_deal(game: CluedoBase, text: str) -> DealCards:
    """Parse `str(DealCards)`.

    Raises:
        InvalidAction: The text does not deal each card of the deck exactly once.
    """
    piles = [
        tuple(card for card in pile.split(", ") if card)
        for pile in text.removeprefix("deal ").split(" | ")
    ]
    # Envelope, one pile per seat, open cards. The last pile may be empty but is always written.
    if len(piles) == game.num_players + 2 and len(piles[0]) == 3:
        deal = DealCards(Triple(*piles[0]), tuple(piles[1:-1]), piles[-1])
        if is_complete(game, deal):
            return deal
    raise InvalidAction(f"'{text}' does not deal each card of the deck once")
