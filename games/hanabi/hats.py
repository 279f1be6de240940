"""Hat guessing in Hanabi: one hint tells every other player something about its own hand.

C. Cox, J. De Silva, P. DeOrsey, F. H. J. Kenter, T. Retter and J. Tobin, "How to make the perfect
fireworks display: two strategies for Hanabi", Mathematics Magazine 88 (2015), apply the hat
problem: a hint has one of M meanings, each player but the giver has a secret number below M that
all others can compute from its hand, and the meaning is the sum of these numbers modulo M. A player
subtracts the numbers that it sees, and the rest is its own number. J. Wu (hanabi.rs, 2016) lets the
number answer a question that depends on what is known of the hand. Here

1. The meaning of a hint is its target, whether it names a colour or a rank, and whether it touches
   the target's newest card: M = 4 (players - 1).
2. The question is a decision tree of M leaves, grown from what all players know: each step divides
   the leaf that gains most by one yes-or-no question about one card. The questions are whether a
   card fits now, whether it is useless, and which half of its kinds it belongs to.

All of this follows from public events, so every player has the same tree for each hand. Hints are
facts, too: what they say about the cards of their target is not lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from arena import Event
from games.hanabi.conventions import is_single
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

Hand = tuple[Kinds, ...]
"""What all players know of a hand: the kinds that each card may have, the oldest card first."""
FORMS = 4
"""Meanings of a hint to one player: colour or rank, on the newest card or not."""


@dataclass(frozen=True)
class PublicValue:
    """What all players know of the worth of the kinds."""

    copies: tuple[int, ...]
    """Copies of each kind that are not known to be elsewhere."""
    fitting: Kinds
    useless: Kinds
    last_copies: Kinds

    def weight(self, kinds: Kinds) -> int:
        """Return the number of copies of some kinds."""
        return sum(number for kind, number in enumerate(self.copies) if kinds >> kind & 1)


@dataclass(frozen=True, slots=True)
class Leaf:
    """An answer of the question: what is known of the hand after it, and its probability."""

    hand: Hand
    chance: float


@lru_cache(maxsize=4096)
def question(hand: Hand, value: PublicValue, size: int) -> tuple[Hand, ...]:
    """Return at most `size` answers about a hand; each is what is known of the hand after it."""
    leaves = [Leaf(hand, 1.0)]
    best = [best_split(leaves[0], value)]
    while len(leaves) < size:
        place = max(range(len(leaves)), key=lambda n: best[n][0])
        gain, slot, yes = best[place]
        if gain <= 0:
            break  # Everything about this hand is known.
        new = list(divided(leaves[place], slot, yes, value))
        leaves[place : place + 1] = new
        best[place : place + 1] = [best_split(leaf, value) for leaf in new]
    return tuple(leaf.hand for leaf in leaves)


def divided(leaf: Leaf, slot: int, yes: Kinds, value: PublicValue) -> Iterator[Leaf]:
    """Yield the two leaves after the question whether a card is one of some kinds."""
    kinds = leaf.hand[slot]
    total = value.weight(kinds)
    for part in (kinds & yes, kinds & ~yes):
        share = value.weight(part) / total if total else 0.5
        hand = (*leaf.hand[:slot], part, *leaf.hand[slot + 1 :])
        yield Leaf(hand, leaf.chance * share)


PLAY, DISCARD, FUTURE = 1.0, 0.25, 0.1
"""Gains of learning that a card fits, that it is useless, and which half of its kinds it is of."""
SECOND = 0.3
"""Weight of a second card to play or to discard."""


def best_split(leaf: Leaf, value: PublicValue) -> tuple[float, int, Kinds]:
    """Return the gain, the slot and the kinds of the best question at a leaf; 0: there is none."""
    has_play = any(kinds and not kinds & ~value.fitting for kinds in leaf.hand)
    has_discard = has_play or any(kinds and not kinds & ~value.useless for kinds in leaf.hand)
    play, discard = (SECOND if has_play else 1.0), (SECOND if has_discard else 1.0)
    best = (0.0, 0, 0)
    for slot, kinds in enumerate(leaf.hand):
        total = value.weight(kinds)
        if is_single(kinds) or not total:
            continue
        needed = half(kinds & ~value.useless, value)
        for yes in (value.fitting, value.useless, needed):
            share = value.weight(kinds & yes) / total
            if kinds & yes in (0, kinds):
                continue
            # A play or a discard is gained by a yes, the identity of a card by both answers.
            if yes == needed:
                gain = FUTURE * 4 * share * (1 - share)
            else:
                gain = share * (PLAY * play if yes == value.fitting else DISCARD * discard)
            # Of equal questions the one about the oldest card is taken, so that all agree.
            best = max(best, (leaf.chance * gain, -slot, yes))
    return best[0], -best[1], best[2]


def half(kinds: Kinds, value: PublicValue) -> Kinds:
    """Return about half of some kinds, by copies."""
    total, taken, part = value.weight(kinds), 0, 0
    for kind, number in enumerate(value.copies):
        if kinds >> kind & 1 and 2 * taken < total:
            taken += number
            part |= 1 << kind
    return part


class HatTable(HanabiTable):
    """The table with what all players know of each hand by hats.

    Args:
        game: The game that is played.
        viewer: The seat of the viewer. It changes only which cards of `hands` are visible; `known`
            is the same for all viewers.
    """

    def __init__(self, game: Hanabi, viewer: int) -> None:
        super().__init__(game, viewer)
        self._everything: Kinds = (1 << len(game.deck.kinds)) - 1
        self.known: list[Hand] = [()] * game.num_players
        """For each player, what all players know of its hand."""
        self.meanings = FORMS * (game.num_players - 1)
        """The number M of different hints."""

    def update(self, event: Event) -> None:
        match event:
            case HintGiven():
                answers = self._answers(event)
                super().update(event)
                for player, hand in answers.items():
                    self.known[player] = hand
            case HandsDealt(hand_size=size):
                super().update(event)
                self.known = [(self._everything,) * size] * self.game.num_players
            case CardDrawn(player=player) | UnseenCardDrawn(player=player):
                super().update(event)
                self.known[player] += (self._everything,)
            case CardPlayed(player=player, slot=slot) | CardDiscarded(player=player, slot=slot):
                super().update(event)
                before = self.known[player]
                self.known[player] = (*before[: slot - 1], *before[slot:])
            case _:
                super().update(event)
                return
        self._exclude()

    def _exclude(self) -> None:
        """Apply hints and counting to what all players know."""
        deck = self.game.deck
        for player, hand in enumerate(self.hands):
            self.known[player] = tuple(
                self._narrowed(kinds, held.kinds)
                for held, kinds in zip(hand, self.known[player], strict=True)
            )
        while True:
            single = [kinds for known in self.known for kinds in known if is_single(kinds)]
            free = [n - g for n, g in zip(deck.copies, self.gone, strict=True)]
            for kinds in single:
                free[kinds.bit_length() - 1] -= 1
            left = as_kinds(number > 0 for number in free)
            before = list(self.known)
            for player, known in enumerate(before):
                self.known[player] = tuple(
                    kinds if is_single(kinds) else self._narrowed(kinds, left) for kinds in known
                )
            if self.known == before:
                self.value = self._public_value(free)
                return

    @staticmethod
    def _narrowed(kinds: Kinds, possible: Kinds) -> Kinds:
        """Return the kinds that both sets allow; a contradiction drops what hats mean."""
        return kinds & possible or possible or kinds

    def _public_value(self, free: Sequence[int]) -> PublicValue:
        deck, needed = self.game.deck, as_kinds(self.needed)
        left = [n - gone for n, gone in zip(deck.copies, self.gone, strict=True)]
        return PublicValue(
            copies=tuple(max(0, number) for number in free),
            fitting=needed & as_kinds(deck.fits(kind, self.fireworks) for kind in deck.kinds),
            useless=self._everything & ~needed,
            last_copies=needed & as_kinds(number == 1 for number in left),
        )

    def answer(self, player: int) -> tuple[int, Hand]:
        """Return the number of a player whose cards are seen, and what it tells of its hand."""
        index = self.game.deck.index
        cards = [1 << index[held.card] for held in self.hands[player] if held.card is not None]
        for number, hand in enumerate(self._question(player)):
            if all(card & kinds for card, kinds in zip(cards, hand, strict=True)):
                return number, hand
        return 0, self.known[player]  # The team does not keep to the code.

    def _question(self, player: int) -> tuple[Hand, ...]:
        return question(self.known[player], self.value, self.meanings)

    def _answers(self, hint: HintGiven) -> dict[int, Hand]:
        """Return what a hint tells of each hand but its giver's."""
        rest, learned = self.meaning(hint), dict[int, Hand]()
        for player in self.game.others(hint.player):
            if player != self.viewer:
                number, learned[player] = self.answer(player)
                rest -= number
        if self.viewer is not None and self.viewer != hint.player:
            answers = self._question(self.viewer)
            rest %= self.meanings
            # A number without an answer: the giver does not keep to the code.
            own = answers[rest] if rest < len(answers) else self.known[self.viewer]
            learned[self.viewer] = own
        return learned

    def meaning(self, hint: HintGiven) -> int:
        """Return the meaning of a hint, a number below M."""
        place = self.game.others(hint.player).index(hint.target)
        newest = len(self.hands[hint.target])
        return FORMS * place + 2 * (hint.rank is not None) + (newest in hint.slots)

    def wanted(self) -> int:
        """Return the number that a hint of the viewer must stand for."""
        assert self.viewer is not None
        numbers = (self.answer(player)[0] for player in self.game.others(self.viewer))
        return sum(numbers) % self.meanings
