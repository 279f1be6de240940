"""Cards, options, betting, actions and events of Leduc hold'em.

Moves of the betting are written as letters: f(old), c(all) and r(aise). To call without a raise is
to check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Self

from pydantic import Field, model_validator

from arena import Action, Event
from arena.core.event import PrivateEvent
from arena.core.game import SeatOptions

RANKS = ("Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Jack", "Queen", "King")
"""From the lowest to the highest; a game of n ranks uses the last n."""
CARDS = RANKS[-3:]
"""The cards of the usual game; the deck has two of each."""
COPIES = 2
ANTE = 1
RAISES = (2, 4)
"""Chips that a raise adds to the call, in the first and in the second round."""
MOST_RAISES = 2
"""Raises in one round of the usual game, of all players together."""


class LeducOptions(SeatOptions):
    """Options of `leduc_poker`; the defaults are the usual game, for which there is a solution."""

    players: int = Field(2, ge=2, le=4, description="Number of seats.")
    ranks: int = Field(
        len(CARDS), ge=2, le=len(RANKS), description="Ranks of the deck, which has two cards each."
    )
    raises: int = Field(
        MOST_RAISES, ge=1, le=4, description="Most raises in a round, of all players together."
    )

    @model_validator(mode="after")
    def _deck_suffices(self) -> Self:
        if COPIES * self.ranks <= self.players:
            raise ValueError(
                f"{self.players} players and the board need more than the {COPIES * self.ranks} "
                "cards of the deck: set more ranks"
            )
        return self


@dataclass(frozen=True, slots=True)
class LeducBetting:
    """All moves so far, and the chips that each player has put into the pot."""

    rounds: tuple[str, ...] = ("",)
    """The moves of each round, e.g. `("crc", "r")`."""
    chips: tuple[int, ...] = (ANTE, ANTE)
    most_raises: int = MOST_RAISES
    player: int = 0
    """The player who moves next; the first one who has not folded begins each round."""
    waiting: int = 2
    """Players who move before the round ends, unless there is a raise."""
    left: tuple[int, ...] = (0, 1)
    """The players who have not folded."""

    @classmethod
    def start(cls, options: LeducOptions) -> LeducBetting:
        """Return the betting before the first move."""
        players = options.players
        return cls(("",), (ANTE,) * players, options.raises, 0, players, tuple(range(players)))

    @property
    def _latest(self) -> str:
        return self.rounds[-1]

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
        can_raise = self._latest.count("r") < self.most_raises
        return ("f" if self.price else "") + "c" + ("r" if can_raise else "")

    @property
    def awaits_board(self) -> bool:
        """True if the first round is over, so that the board card comes next."""
        return len(self.rounds) == 1 and not self.waiting and len(self.left) > 1

    @property
    def is_over(self) -> bool:
        """True if no move follows: with one player left, or at the end of the second round."""
        return len(self.left) == 1 or (len(self.rounds) == 2 and not self.waiting)

    @lru_cache(maxsize=4096)  # noqa: B019 - Values of a few hundred public sequences of moves.
    def after(self, move: str) -> LeducBetting:
        """Return the betting after a legal move."""
        # A fold adds nothing; a call matches the others; a raise adds its amount on top.
        chips, left, waiting = list(self.chips), self.left, self.waiting - 1
        place = left.index(self.player)
        if move == "f":
            left = (*left[:place], *left[place + 1 :])
        else:
            chips[self.player] = max(chips)
            place += 1
        if move == "r":
            chips[self.player] += RAISES[len(self.rounds) - 1]
            # All others who have not folded answer it.
            waiting = len(left) - 1
        rounds, following = (*self.rounds[:-1], self._latest + move), left[place % len(left)]
        return LeducBetting(rounds, tuple(chips), self.most_raises, following, waiting, left)

    def next_round(self) -> LeducBetting:
        """Return the betting after the board card."""
        rounds, left = (*self.rounds, ""), self.left
        return LeducBetting(rounds, self.chips, self.most_raises, left[0], len(left), left)

    def folds(self, names: Sequence[str]) -> str:
        """Return who has folded, in words."""
        folded = [name for seat, name in enumerate(names) if seat not in self.left]
        return f"{' and '.join(folded)} fold{'s' if len(folded) == 1 else ''}"

    def __str__(self) -> str:
        return "/".join(self.rounds)


def strength(card: str, board: str) -> int:
    """Return a number that is greater for a better hand: a pair, else the higher card."""
    # A pair beats every single card; two players cannot both have one.
    return len(RANKS) if card == board else RANKS.index(card)


def winners(left: Sequence[int], cards: Sequence[str], board: str) -> Sequence[int]:
    """Return those of the players left whose hands are best; a single one needs no cards."""
    if len(left) == 1:
        return left
    strengths = [strength(cards[seat], board) for seat in left]
    return [seat for seat, each in zip(left, strengths, strict=True) if each == max(strengths)]


def chips_won(betting: LeducBetting, cards: tuple[str, ...], board: str) -> tuple[float, ...]:
    """Return what each player wins in a finished hand; equal hands share the pot."""
    won = [-float(chips) for chips in betting.chips]
    best = winners(betting.left, cards, board)
    for seat in best:
        won[seat] += betting.pot / len(best)
    return tuple(won)


@cache
def card_chances(seen: tuple[str, ...], deck: tuple[str, ...] = CARDS) -> Mapping[str, float]:
    """Return the probability of each card to be the next one of the deck."""
    left = {card: COPIES - seen.count(card) for card in deck}
    # Read-only, because all callers share it.
    return MappingProxyType({card: n / sum(left.values()) for card, n in left.items() if n})


# Actions and events


@dataclass(frozen=True, slots=True)
class DealHoleCards(Action):
    """Chance: deal a card to each player, face down."""

    cards: tuple[str, ...]

    def __str__(self) -> str:
        return f"deal {', '.join(self.cards)}"


@dataclass(frozen=True, slots=True)
class DealBoardCard(Action, template="board {self.card}"):
    """Chance: deal the card that both players use."""

    card: str


@dataclass(frozen=True, slots=True)
class Fold(Action, template="fold"):
    """Give up the pot."""


@dataclass(frozen=True, slots=True)
class CheckCall(Action, template="call"):
    """Match the chips of the other player; without a raise this costs nothing."""


@dataclass(frozen=True, slots=True)
class Raise(Action, template="raise"):
    """Match the chips of the other player and add the raise of this round."""


MOVES: dict[str, Action] = {"f": Fold(), "c": CheckCall(), "r": Raise()}
"""The actions of the players, by their letters."""
LETTERS = {action: letter for letter, action in MOVES.items()}


@dataclass(frozen=True, slots=True)
class HoleCardDealt(PrivateEvent):
    """Private: the card of one player."""

    card: str


@dataclass(frozen=True, slots=True)
class BoardCardDealt(Event):
    """Public: the card that both players use."""

    card: str


@dataclass(frozen=True, slots=True)
class LeducMoved(Event):
    """Public: a player folds, calls or raises."""

    player: int
    move: str
    """The text of the action."""
    chips: int
    """Chips that the player added to the pot."""


@dataclass(frozen=True, slots=True)
class LeducShowdown(Event):
    """Public: the cards of the players left at the end, if there are several."""

    cards: tuple[str, ...]
    """By seat; empty for a player who has folded."""
