"""Agreed meanings of hints: what all players conclude from the public events.

The conventions are the simple ones that bots and people share: a hint points at one card, its
*focus*, which can be played now or must not be discarded. Bots with similar conventions are A.
O'Dwyer's HolmesBot and SmartBot (https://github.com/Quuxplusone/Hanabi); SmartBot is a baseline of
Bard et al. (2020). To read the reason of a hint from the hint goes back to H. Osawa, "Solving
Hanabi: estimating hands by opponent's actions in cooperative game with incomplete information",
AAAI Workshop on Computer Poker and Imperfect Information (2015).

1. The *chop* of a hand is its oldest card that no hint has named. A player without a better move
   discards it.
2. The focus of a hint is the chop if the hint names it, else the newest card that the hint names
   for the first time, else the newest card that it names.
3. The focus can be played as soon as the cards that are known to come before it have been played.
   If it is on the chop, it may also be the last copy of a needed card.
4. A named card can still score, and is no copy of another card that is known.

All of this follows from public events, so every player computes the same meanings.
"""

from __future__ import annotations

import copy
from typing import Self

from arena import Event
from games.hanabi.game import Hanabi
from games.hanabi.moves import (
    CardDiscarded,
    CardDrawn,
    CardPlayed,
    HandsDealt,
    HintGiven,
    Kinds,
    UnseenCardDrawn,
    as_kinds,
)
from games.hanabi.table import HanabiTable


def is_single(kinds: Kinds) -> bool:
    """Return whether a set has exactly one kind."""
    return kinds.bit_count() == 1


class ConventionTable(HanabiTable):
    """The table with the agreed meaning of each hint.

    Args:
        game: The game that is played.
        viewer: The seat of the viewer. It changes only which cards of `hands` are visible; all
            sets of kinds here are the same for all viewers.
    """

    def __init__(self, game: Hanabi, viewer: int) -> None:
        super().__init__(game, viewer)
        self.meanings: list[tuple[Kinds, ...]] = [()] * game.num_players
        """For each player and slot, the kinds that the card may have by convention."""
        self._refresh()

    def update(self, event: Event) -> None:
        match event:
            case HintGiven():
                # The meaning depends on what was known before the hint.
                focus, wanted, known = self.focus(event), self._wanted(event), self._known_kinds()
                super().update(event)
                self._interpret(event, focus, wanted, known)
                return
            case HandsDealt(hand_size=size):
                # Without a hint a card may have any kind.
                self.meanings = [(self._everything,) * size] * self.game.num_players
            case CardDrawn(player=player) | UnseenCardDrawn(player=player):
                self.meanings[player] += (self._everything,)
            case CardPlayed(player=player, slot=slot) | CardDiscarded(player=player, slot=slot):
                before = self.meanings[player]
                self.meanings[player] = (*before[: slot - 1], *before[slot:])
        super().update(event)
        self._refresh()

    def with_hint(self, hint: HintGiven) -> Self:
        # Tuples are shared; only the lists are changed in place.
        twin = copy.copy(self)
        twin.hands, twin.moves = list(self.hands), dict(self.moves)
        twin.meanings = list(self.meanings)
        twin.update(hint)
        return twin

    def _refresh(self) -> None:
        """Compute the sets of kinds that depend on the cards that are gone."""
        deck, needed = self.game.deck, as_kinds(self.needed)
        left = [n - gone for n, gone in zip(deck.copies, self.gone, strict=True)]
        self.left: Kinds = as_kinds(number > 0 for number in left)
        """Kinds of which copies are in the hands or in the deck."""
        self.fitting: Kinds = needed & as_kinds(deck.fits(k, self.fireworks) for k in deck.kinds)
        self.useless: Kinds = self._everything & ~needed
        self.last_copies: Kinds = needed & as_kinds(number == 1 for number in left)

    def candidates(self, player: int, index: int, left: Kinds | None = None) -> Kinds:
        """Return the kinds that a card may have, by hints and conventions.

        Contradictions show that a convention was broken; then only the hints count.

        Args:
            player: The owner of the card.
            index: The place in its hand, from 0.
            left: Kinds that are possible at all; by default those that are not gone.
        """
        held = self.hands[player][index]
        possible = held.kinds & (self.left if left is None else left)
        # Hints are facts, a meaning is only an agreement.
        possible = possible & self.meanings[player][index] or possible
        # Rule 4: players do not name a useless card without need.
        return (possible & ~self.useless or possible) if held.hinted else possible

    def chop(self, player: int) -> int | None:
        """Return the place of the oldest card that no hint has named; None if there is none."""
        # The oldest card has been longest without a hint, so it is the least likely to matter.
        hand = self.hands[player]
        return next((place for place, held in enumerate(hand) if not held.hinted), None)

    def kind(self, player: int, place: int) -> Kinds:
        """Return the kind of a card that the viewer sees, as a set of one kind."""
        card = self.hands[player][place].card
        assert card is not None, "the viewer does not see its own cards"
        return 1 << self.game.deck.index[card]

    def is_busy(self, player: int) -> bool:
        """Return whether a player believes it has a card to play, or a useless one to discard."""
        for place in range(len(self.hands[player])):
            kinds = self.candidates(player, place)
            # All possible kinds fit, or all are useless.
            if not kinds & ~self.fitting or not kinds & ~self.useless:
                return True
        return False

    def loses_last_copy(self, player: int) -> bool:
        """Return whether a player whose cards are seen will next discard a needed last copy."""
        chop = self.chop(player)
        if chop is None or self.is_busy(player):
            return False
        return bool(self.kind(player, chop) & self.last_copies)

    def focus(self, hint: HintGiven) -> int | None:
        """Return the place of the card that a hint points at, before the hint is added.

        None for a hint that names no card: it says only what the hand does not hold.
        """
        hand, named = self.hands[hint.target], [slot - 1 for slot in hint.slots]
        # A card that is named for the first time is the news of a hint.
        fresh = [place for place in named if not hand[place].hinted]
        chop = self.chop(hint.target)
        if not named:
            return None
        return chop if chop is not None and chop in fresh else (fresh or named)[-1]

    def _known_kinds(self) -> Kinds:
        """Return the kinds of the cards in hands that all players know."""
        known = 0
        for player, hand in enumerate(self.hands):
            for place, held in enumerate(hand):
                # Cards without a hint are known by chance at most, and not to all players.
                kinds = self.candidates(player, place) if held.hinted else 0
                known |= kinds if is_single(kinds) else 0
        return known

    def _wanted(self, hint: HintGiven) -> Kinds:
        """Return the kinds that the focus of a hint may have: to be played, or to be saved."""
        deck, known = self.game.deck, self._known_kinds()
        wanted = 0
        for colour, played in enumerate(self.fireworks):
            kinds = [1 << (colour * deck.ranks + rank) for rank in range(played, deck.ranks)]
            # Known cards will be played first, so the next one counts.
            wanted |= next((kind for kind in kinds if not kind & known), 0)
        # A card that is not on the chop is in no danger, so a hint on it never means to save it.
        chop = self.chop(hint.target)
        if chop is not None and self.focus(hint) == chop:
            wanted |= self.last_copies
        return wanted

    def _interpret(self, hint: HintGiven, focus: int | None, wanted: Kinds, known: Kinds) -> None:
        """Narrow the meanings of the cards that a hint names."""
        meanings = list(self.meanings[hint.target])
        for slot in hint.slots:
            place = slot - 1
            kinds = self.candidates(hint.target, place)
            if place == focus:
                # If no wanted kind is possible, the hint breaks the convention and only informs.
                kinds = kinds & wanted or kinds
            # A known card needs no second hint; but this card may be the one that is known.
            if not is_single(kinds):
                kinds = kinds & ~known or kinds
            meanings[place] = kinds
        self.meanings[hint.target] = tuple(meanings)
