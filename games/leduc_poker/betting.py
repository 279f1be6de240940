"""Betting of Leduc hold'em, apart from the cards.

Moves are written as letters: f(old), c(all) and r(aise). To call without a raise is to check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

CARDS = ("Jack", "Queen", "King")
"""From the lowest to the highest; the deck has two of each."""
ANTE = 1
RAISES = (2, 4)
"""Chips that a raise adds to the call, in the first and in the second round."""
MOST_RAISES = 2
"""Raises in one round, of both players together."""
MOST_CHIPS = ANTE + MOST_RAISES * sum(RAISES)
"""Chips that a player can lose."""


@dataclass(frozen=True, slots=True)
class LeducBetting:
    """All moves so far, and the chips that each player has put into the pot."""

    rounds: tuple[str, ...] = ("",)
    """The moves of each round, e.g. `("crc", "r")`."""
    chips: tuple[int, int] = (ANTE, ANTE)

    @property
    def _latest(self) -> str:
        return self.rounds[-1]

    @property
    def player(self) -> int:
        """The player who moves next; player 0 begins each round."""
        return len(self._latest) % 2

    @property
    def price(self) -> int:
        """Chips that a call costs the player who moves next."""
        return max(self.chips) - self.chips[self.player]

    @property
    def pot(self) -> int:
        """Chips in the pot."""
        return sum(self.chips)

    @property
    def legal(self) -> str:
        """The legal moves. Nothing to call means nothing to fold to."""
        # Two raises per round, of both players together.
        can_raise = self._latest.count("r") < MOST_RAISES
        return ("f" if self.price else "") + "c" + ("r" if can_raise else "")

    @property
    def folded(self) -> int | None:
        """The player who has folded, if one has."""
        return (len(self._latest) - 1) % 2 if self._latest.endswith("f") else None

    @property
    def awaits_board(self) -> bool:
        """True if the first round is over, so that the board card comes next."""
        return len(self.rounds) == 1 and self._is_called

    @property
    def is_over(self) -> bool:
        """True if no move follows: after a fold, or at the end of the second round."""
        return self.folded is not None or (len(self.rounds) == 2 and self._is_called)

    @property
    def _is_called(self) -> bool:
        # The first call of a round is a check, which leaves the other player to move.
        return self._latest.endswith("c") and len(self._latest) > 1

    def after(self, move: str) -> LeducBetting:
        """Return the betting after a legal move."""
        # A fold adds nothing; a call matches the other player; a raise adds its amount on top.
        chips = list(self.chips)
        if move != "f":
            added = RAISES[len(self.rounds) - 1] if move == "r" else 0
            chips[self.player] = max(chips) + added
        return LeducBetting((*self.rounds[:-1], self._latest + move), (chips[0], chips[1]))

    def next_round(self) -> LeducBetting:
        """Return the betting after the board card."""
        return LeducBetting((*self.rounds, ""), self.chips)

    def __str__(self) -> str:
        return "/".join(self.rounds)


def strength(card: str, board: str) -> int:
    """Return a number that is greater for a better hand: a pair, else the higher card."""
    # A pair beats every single card; two players cannot both have one.
    return len(CARDS) if card == board else CARDS.index(card)


def chips_won(betting: LeducBetting, cards: tuple[str, ...], board: str) -> float:
    """Return what player 0 wins in a finished hand; equal hands share the pot."""
    if betting.folded is not None:
        # Only the folder's own chips change hands.
        return float(betting.chips[betting.folded] * (1 if betting.folded == 1 else -1))
    first, second = (strength(card, board) for card in cards)
    # Before a showdown both have put in the same.
    return float(betting.chips[1] * ((first > second) - (first < second)))


def copies_left(card: str, seen: tuple[str, ...]) -> int:
    """Return how many of the two copies of a card are not among the seen cards."""
    return 2 - seen.count(card)


@cache
def card_chances(seen: tuple[str, ...]) -> Mapping[str, float]:
    """Return the probability of each card to be the next one of the deck."""
    left = {card: copies_left(card, seen) for card in CARDS}
    # Read-only, because all callers share it.
    return MappingProxyType({card: n / sum(left.values()) for card, n in left.items() if n})
