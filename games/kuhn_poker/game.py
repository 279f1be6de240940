"""Kuhn poker: three cards, one bet and no draw. A template for games with hidden cards.

H. W. Kuhn, "A simplified two-person poker", Contributions to the Theory of Games I, Annals of
Mathematics Studies 24 (1950), 97-103. Between optimal players its value is -1/18 of a chip
for player 0.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import TYPE_CHECKING, Any, ClassVar

from arena import (
    CHANCE,
    Action,
    ActionSet,
    ArraySpec,
    Card,
    ChanceOutcome,
    Event,
    Game,
    GameAnalysis,
    GameArrays,
    GameText,
    Observation,
    Player,
    Players,
    PlayGuide,
    ReturnScale,
    State,
    Step,
    Tabletop,
    Tile,
    Track,
    Tracks,
)
from arena.agents.agent import MixedBot
from arena.core.event import PrivateEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray


CARDS = ("Jack", "Queen", "King")
"""Cards from the lowest to the highest."""


@dataclass(frozen=True, slots=True)
class DealHands(Action):
    """Chance: deal a card to each player; the third card stays hidden."""

    cards: tuple[str, ...]

    def __str__(self) -> str:
        return f"deal {', '.join(self.cards)}"


@dataclass(frozen=True, slots=True)
class Pass(Action, template="pass"):
    """Add nothing to the pot; after a bet, this means to fold."""


@dataclass(frozen=True, slots=True)
class Bet(Action, template="bet"):
    """Add one chip to the pot; after a bet, this means to call."""


PASS, BET = Pass(), Bet()
DEALS = tuple(ChanceOutcome(DealHands(cards), 1 / 6) for cards in permutations(CARDS, 2))
SHOWDOWNS = ((PASS, PASS), (BET, BET), (PASS, BET, BET))
FOLDS = ((BET, PASS), (PASS, BET, PASS))
"""Showdowns and folds together are all complete sequences of actions."""


@dataclass(frozen=True, slots=True)
class CardDealt(PrivateEvent):
    """Private: the card of one player."""

    card: str


@dataclass(frozen=True, slots=True)
class Moved(Event):
    """Public: a player passes or bets."""

    player: int
    move: str


@dataclass(frozen=True, slots=True)
class Showdown(Event):
    """Public: both cards, after a hand without a fold."""

    cards: tuple[str, ...]


def winner_of(moves: tuple[Action, ...], cards: tuple[str, ...]) -> int:
    """Return the winner of a finished hand: the player who did not fold, else the higher card."""
    if moves in FOLDS:
        return len(moves) % 2  # The last move was the fold, by player len(moves) - 1 mod 2.
    first, second = map(CARDS.index, cards)
    return 0 if first > second else 1


class KuhnPoker(Game):
    """Two players, no options, one hidden card each.

    Example:
        >>> state = KuhnPoker().initial_state()
        >>> state.apply(CHANCE, DealHands(("King", "Queen")))
        >>> state.apply(0, BET)
        >>> state.apply(1, PASS)
        >>> state.returns()
        (1.0, -1.0)
    """

    Text = "games.kuhn_poker.game:KuhnText"
    Analysis = "games.kuhn_poker.game:KuhnAnalysis"
    Arrays = "games.kuhn_poker.game:KuhnArrays"
    View = "games.kuhn_poker.game:KuhnView"

    name = "kuhn_poker"
    summary = "poker with three cards"
    num_players = 2
    turn_bound = 3
    default_bots = ("equilibrium", "random")
    level_bots = ("easy", "honest", "equilibrium")
    return_scale = ReturnScale("return", "chips", -2.0, 2.0)

    def _all_actions(self) -> Iterable[Action]:
        return (PASS, BET)

    @cached_property
    def moves(self) -> ActionSet:
        """The legal actions of every decision."""
        return self.actions.subset((PASS, BET)).complete()

    def initial_state(self) -> KuhnPokerState:
        return KuhnPokerState(self)


class KuhnPokerState(State):
    """A position: the cards, after the deal, and the moves so far."""

    game: KuhnPoker

    def __init__(self, game: KuhnPoker) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.cards: tuple[str, ...] = ()
        self.moves: tuple[Action, ...] = ()

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        return DEALS

    def _legal_actions(self, player: int) -> ActionSet:
        return self.game.moves

    def _apply(self, player: int, action: Action) -> None:
        if isinstance(action, DealHands):
            self._deal(action)
        else:
            self._move(player, action)

    def _deal(self, deal: DealHands) -> None:
        self.cards = deal.cards
        for player, card in enumerate(deal.cards):
            self.log.append(CardDealt(player, card))
        self._begin_turn(0)

    def _move(self, player: int, move: Action) -> None:
        self.moves += (move,)
        self.log.append(Moved(player, str(move)))
        if self.moves in SHOWDOWNS:
            self.log.append(Showdown(self.cards))
            self.to_act = ()
        elif self.moves in FOLDS:
            self.to_act = ()
        else:
            self._begin_turn(1 - player)

    def returns(self) -> tuple[float, ...]:
        """Return the chips won or lost: two after a call, else one."""
        if not self.is_terminal:
            return (0.0, 0.0)
        chips = 2.0 if self.moves.count(BET) == 2 else 1.0
        return (chips, -chips) if winner_of(self.moves, self.cards) == 0 else (-chips, chips)

    def reason(self) -> str:
        names, winner = self.game.seat_names, winner_of(self.moves, self.cards)
        if self.moves in FOLDS:
            return f"{names[1 - winner]} folds"
        return f"{names[winner]} has the higher card"


class KuhnText(GameText):
    """Texts of Kuhn poker."""

    def synonyms(self) -> Mapping[str, str]:
        return {"check": "pass", "fold": "pass", "call": "bet", "raise": "bet"}

    def guide(self) -> PlayGuide:
        return PlayGuide(
            goal=(
                "Win chips with the higher card, or by a bet that the other player does not call."
            ),
            turn=(
                "Pass, or bet one more chip. After a bet, to pass is to fold and to bet is to call."
            ),
            end=(
                "After two passes or a call both cards are shown, and the higher one takes the "
                "pot. After a fold the other player takes it, and no card is shown."
            ),
            example=(
                "You have the Jack, the lowest card, and bet. If the other player believes you "
                "and folds the Queen, you win its chip: a bluff. If it calls, you lose two "
                "chips."
            ),
        )

    def rules(self) -> str:
        return (
            "Kuhn poker, two players. Both put one chip into the pot and are dealt one card each "
            "from a deck of three: Jack, Queen and King. Player 0 begins. Pass, or bet one more "
            "chip. Once there is a bet, to pass is to fold, which gives the pot to the other, and "
            "to bet is to call. After two passes or a call both cards are shown, and the higher "
            "one takes the pot. After a fold no card is shown.\n"
            "Your action: pass | bet"
        )

    def narrate(self, event: Event) -> str:
        names = self.game.seat_names
        match event:
            case CardDealt(player, card):
                return f"{names[player]} is dealt the {card}."
            case Moved(player, move):
                return f"{names[player]} {'passes' if move == 'pass' else 'bets'}."
            case Showdown((first, second)):
                return f"{names[0]} shows the {first}, {names[1]} the {second}."
            case _:
                raise TypeError(f"{event!r} is not an event of Kuhn poker")


class KuhnAnalysis(GameAnalysis):
    """Other worlds of Kuhn poker."""

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw the other player's card again, unless a showdown has revealed it."""
        steps = list(history)
        if steps and tuple(step.action for step in steps[1:]) not in SHOWDOWNS:
            dealt = steps[0].action
            assert isinstance(dealt, DealHands)
            hands = [h for h in permutations(CARDS, 2) if h[player] == dealt.cards[player]]
            steps[0] = Step(CHANCE, DealHands(rng.choice(hands)))
        return steps


class KuhnArrays(GameArrays):
    """Observations of Kuhn poker as arrays."""

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        return {
            "player": ArraySpec(shape=(2,), low=0, high=1),
            "cards": ArraySpec(shape=(2, 3), low=0, high=1),
            "moves": ArraySpec(shape=(3, 2), low=0, high=1),
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return one-hot rows: the seat, the known card of each seat, the moves (pass, bet)."""
        block = bytearray(self._seat_blocks[observation.player])
        cards, place = self._offsets["cards"], self._offsets["moves"]
        for event in observation.events:
            if isinstance(event, Moved):
                block[place + (event.move == "bet")] = 1
                place += 2
            elif isinstance(event, CardDealt):
                block[cards + len(CARDS) * event.player + CARDS.index(event.card)] = 1
            elif isinstance(event, Showdown):
                for player, card in enumerate(event.cards):
                    block[cards + len(CARDS) * player + CARDS.index(card)] = 1
        return self._from_block(block)


# Table


class KuhnView:
    """The table as one viewer sees it."""

    def __init__(self, game: KuhnPoker, seat: int | None) -> None:
        self.game = game
        self._cards: dict[int, str] = {}
        self._moves: dict[int, str] = {}
        """The latest move of each player, in words."""
        self._chips = [1, 1]
        self._is_bet = False

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        match event:
            case CardDealt(player, card):
                self._cards[player] = card
            case Moved(player, "bet"):
                self._moves[player] = "call" if self._is_bet else "bet"
                self._chips[player] += 1
                self._is_bet = True
            case Moved(player):
                self._moves[player] = "fold" if self._is_bet else "check"
            case Showdown(cards):
                self._cards = dict(enumerate(cards))

    def tabletop(self) -> Tabletop:
        """Return the table now."""
        pot = Tracks((Track("pot", sum(self._chips), unit="chips"),))
        players = tuple(map(self._player, range(self.game.num_players)))
        wording = {"pass": "fold", "bet": "call"} if self._is_bet else {"pass": "check"}
        return Tabletop((pot, Players(players, ("card", "chips", "move"))), wording=wording)

    def _player(self, seat: int) -> Player:
        card = self._cards.get(seat)
        shown = Card("?", "hidden") if card is None else Card(card, face=card[0], note=card)
        chips = "●" * self._chips[seat]
        move = self._moves.get(seat, "")
        tiles = (shown, Tile(chips, "muted", f"{len(chips)} in the pot"), Tile(move, "accent"))
        return Player(self.game.seat_names[seat], seat, tiles, is_out=move == "fold")


# Bots


class KuhnBot(MixedBot):
    """Bot that bets with a probability that depends on its card and the moves so far."""

    bets: ClassVar[Mapping[tuple[str, ...], Mapping[str, float]]]
    """Probability of a bet by the moves so far, then the card."""

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        moves = tuple(each.move for each in observation.events if isinstance(each, Moved))
        card = next(
            each.card
            for each in observation.events
            if isinstance(each, CardDealt) and each.player == observation.player
        )
        bet = self.bets[moves][card]
        return {PASS: 1 - bet, BET: bet}


class Honest(KuhnBot):
    """Bot that never bluffs: it bets the King, and calls with the Queen every second time."""

    bets: ClassVar = {
        (): {"Jack": 0.0, "Queen": 0.0, "King": 1.0},
        ("pass", "bet"): {"Jack": 0.0, "Queen": 0.5, "King": 1.0},
        ("pass",): {"Jack": 0.0, "Queen": 0.0, "King": 1.0},
        ("bet",): {"Jack": 0.0, "Queen": 0.5, "King": 1.0},
    }


class KuhnEquilibrium(KuhnBot):
    """Bot that plays a Nash equilibrium exactly.

    The first player bets the Jack with a probability alpha of 0 to 1/3, the King with 3 alpha, and
    calls with the Queen with alpha + 1/3 (H. W. Kuhn 1950). Here alpha is 1/3. The second player
    has one strategy.
    """

    bets: ClassVar = {
        (): {"Jack": 1 / 3, "Queen": 0.0, "King": 1.0},
        ("pass", "bet"): {"Jack": 0.0, "Queen": 2 / 3, "King": 1.0},
        ("pass",): {"Jack": 1 / 3, "Queen": 0.0, "King": 1.0},
        ("bet",): {"Jack": 0.0, "Queen": 1 / 3, "King": 1.0},
    }
