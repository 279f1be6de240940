"""Leduc hold'em: two cards of each rank, two rounds of betting and a board card.

F. Southey, M. Bowling, B. Larson, C. Piccione, N. Burch, D. Billings and C. Rayner, "Bayes' bluff:
opponent modelling in poker", UAI 2005. Between optimal players it is worth -0.0856 chips to
player 0. Suits do not matter, so cards are named by their rank and chance counts the copies. The
game of three and more players is that of OpenSpiel's `leduc_poker`.

Moves of the betting are written as letters: f(old), c(all) and r(aise). To call without a raise is
to check.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import product
from typing import Self

from pydantic import Field, model_validator

from arena import CHANCE, Action, ActionSet, ChanceOutcome, Event, Game, ReturnScale, State
from arena.core.event import PrivateEvent
from arena.core.game import SeatOptions

RANKS = ("Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Jack", "Queen", "King")
"""Ranks from the lowest to the highest; a game of n ranks uses the last n."""
COPIES = 2
ANTE = 1
RAISES = (2, 4)
"""Chips that a raise adds to the call, in the first and in the second round."""


class LeducOptions(SeatOptions):
    """Options of `leduc_poker`; the defaults are the usual game, for which there is a solution."""

    players: int = Field(2, ge=2, le=4, description="Number of seats.")
    ranks: int = Field(
        3, ge=2, le=len(RANKS), description="Ranks of the deck, which has two cards each."
    )
    raises: int = Field(
        2, ge=1, le=4, description="Most raises in a round, of all players together."
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

    rounds: tuple[str, ...]
    """The moves of each round, e.g. `("crc", "r")`."""
    chips: tuple[int, ...]
    most_raises: int
    player: int
    """The player who moves next; the first one who has not folded begins each round."""
    waiting: int
    """Players who move before the round ends, unless there is a raise."""
    left: tuple[int, ...]
    """The players who have not folded."""

    @classmethod
    def start(cls, options: LeducOptions) -> LeducBetting:
        """Return the betting before the first move."""
        players = options.players
        return cls(("",), (ANTE,) * players, options.raises, 0, players, tuple(range(players)))

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
        can_raise = self.rounds[-1].count("r") < self.most_raises
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
        rounds, following = (*self.rounds[:-1], self.rounds[-1] + move), left[place % len(left)]
        return LeducBetting(rounds, tuple(chips), self.most_raises, following, waiting, left)

    def next_round(self) -> LeducBetting:
        """Return the betting after the board card."""
        rounds = (*self.rounds, "")
        return replace(self, rounds=rounds, player=self.left[0], waiting=len(self.left))

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
    """Cards by seat; empty for a player who has folded."""


Draws = tuple[tuple[tuple[str, ...], float], ...]
"""Cards that are drawn one after the other, with the probability of each such sequence."""


@cache
def draws(number: int, seen: tuple[str, ...], deck: tuple[str, ...]) -> Draws:
    """Return all draws of a number of cards that are possible beside the cards that were seen."""
    found = []
    for cards in product(deck, repeat=number):
        gone = [(*seen, *cards[:n]) for n in range(number)]
        # The copies of each card that are left, of all cards that are left.
        chance = math.prod(
            (COPIES - each.count(card)) / (COPIES * len(deck) - len(each))
            for card, each in zip(cards, gone, strict=True)
        )
        if chance:
            found.append((cards, chance))
    return tuple(found)


def card_chances(seen: tuple[str, ...], deck: tuple[str, ...]) -> dict[str, float]:
    """Return the probability of each card to be the next one of the deck."""
    return {card: chance for (card,), chance in draws(1, seen, deck)}


@cache
def chance_outcomes(
    players: int, hole_cards: tuple[str, ...], deck: tuple[str, ...]
) -> tuple[ChanceOutcome, ...]:
    """Return the deals of hole cards, or the board cards after these, with their probabilities."""
    if hole_cards:
        return tuple(ChanceOutcome(DealBoardCard(*c), p) for c, p in draws(1, hole_cards, deck))
    return tuple(ChanceOutcome(DealHoleCards(c), p) for c, p in draws(players, (), deck))


class LeducPoker(Game):
    """A hidden card for each player, and a board card between the rounds.

    `LeducOptions` lists the options.

    Example:
        >>> from games.leduc_poker.rules import DealHoleCards, Fold, Raise
        >>> state = LeducPoker().initial_state()
        >>> state.apply(CHANCE, DealHoleCards(("King", "Queen")))
        >>> state.apply(0, Raise())
        >>> state.apply(1, Fold())
        >>> state.returns()
        (1.0, -1.0)
    """

    Text = "games.leduc_poker.text:LeducText"
    Analysis = "games.leduc_poker.knowledge:LeducAnalysis"
    Arrays = "games.leduc_poker.notes:LeducArrays"
    View = "games.leduc_poker.text:LeducView"
    name = "leduc_poker"
    summary = "poker with six cards and two rounds"
    Options = LeducOptions
    options: LeducOptions

    @property
    def default_bots(self) -> tuple[str, ...]:
        return ("equilibrium", "odds") if self.is_solved else ("odds", "odds")

    @property
    def level_bots(self) -> tuple[str, str, str]:
        return ("easy", "odds", self.default_bots[0])

    @property
    def turn_bound(self) -> int:
        """All players move in each of two rounds, and all others again after each raise."""
        return 2 * (self.num_players + self.options.raises * (self.num_players - 1))

    @cached_property
    def is_solved(self) -> bool:
        """True for the default options, for which an equilibrium is bundled."""
        return not self.options.model_dump(exclude_defaults=True)

    @cached_property
    def deck(self) -> tuple[str, ...]:
        """The ranks of this game, lowest first."""
        return RANKS[-self.options.ranks :]

    @property
    def most_chips(self) -> int:
        """Chips that a player can lose."""
        return ANTE + self.options.raises * sum(RAISES)

    @property
    def return_scale(self) -> ReturnScale:
        most = float(self.most_chips)
        return ReturnScale("return", "chips", -most, most * (self.num_players - 1))

    def _all_actions(self) -> Iterable[Action]:
        return MOVES.values()

    @cached_property
    def legal_sets(self) -> Mapping[str, ActionSet]:
        """The sets of legal actions that occur, by the letters of the moves."""
        # All of them at once, so that the cache does not show which ones were used.
        return {
            legal: self.actions.subset(MOVES[move] for move in legal).complete()
            for legal in ("cr", "fcr", "fc")
        }

    def initial_state(self) -> LeducState:
        return LeducState(self)


class LeducState(State):
    """A position: the cards and the betting. All values are immutable."""

    game: LeducPoker

    def __init__(self, game: LeducPoker) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.cards: tuple[str, ...] = ()
        self.board = ""
        self.betting = LeducBetting.start(game.options)

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        """Return the deals by rank, each with the probability of all its pairs of copies."""
        return chance_outcomes(self.game.num_players, self.cards, self.game.deck)

    def _legal_actions(self, player: int) -> ActionSet:
        return self.game.legal_sets[self.betting.legal]

    def _apply(self, player: int, action: Action) -> None:
        match action:
            case DealHoleCards(cards):
                self.cards = cards
                for seat, card in enumerate(cards):
                    self.log.append(HoleCardDealt(seat, card))
            case DealBoardCard(card):
                self.board, self.betting = card, self.betting.next_round()
                self.log.append(BoardCardDealt(card))
            case _:
                # The event has the chips that were added: everybody sees them move.
                before = self.betting.chips[player]
                self.betting = self.betting.after(LETTERS[action])
                added = self.betting.chips[player] - before
                self.log.append(LeducMoved(player, str(action), added))
        if self.betting.is_over:
            self.to_act, left = (), self.betting.left
            # The last player left shows nothing.
            if len(left) > 1:
                shown = (card if seat in left else "" for seat, card in enumerate(self.cards))
                self.log.append(LeducShowdown(tuple(shown)))
        elif self.betting.awaits_board:
            self.to_act = (CHANCE,)
        else:
            self._begin_turn(self.betting.player)

    def returns(self) -> tuple[float, ...]:
        """Return the chips won or lost; 0 for all before the end."""
        if not self.is_terminal:
            return (0.0,) * self.game.num_players
        won = [-float(chips) for chips in self.betting.chips]
        best = winners(self.betting.left, self.cards, self.board)
        for seat in best:  # Equal hands share the pot.
            won[seat] += self.betting.pot / len(best)
        return tuple(won)

    def reason(self) -> str:
        names, left = self.game.seat_names, self.betting.left
        if len(left) == 1:
            return self.betting.folds(names)
        best = winners(left, self.cards, self.board)
        if len(best) > 1:
            if len(names) == 2:
                return "both hands are equal"
            return f"{' and '.join(names[seat] for seat in best)} have equal hands"
        hand = "a pair" if self.cards[best[0]] == self.board else "the higher card"
        return f"{names[best[0]]} has {hand}"
