"""Kuhn poker: poker with three cards, one bet and no draw. The template of hidden cards.

H. W. Kuhn, "A simplified two-person poker", Contributions to the Theory of Games I, Annals of
Mathematics Studies 24 (1950), 97-103. Between perfect players it is worth -1/18 of a chip to
player 0.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from arena import (
    CHANCE,
    Action,
    ActionSet,
    ArraySpec,
    ChanceOutcome,
    Event,
    Game,
    Json,
    Observation,
    State,
    Step,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

CARDS = ("Jack", "Queen", "King")
"""From the lowest to the highest."""


@dataclass(frozen=True, slots=True)
class Deal(Action):
    """Chance: a card for each player; the third stays unseen."""

    cards: tuple[str, ...]

    def __str__(self) -> str:
        return f"deal {', '.join(self.cards)}"


@dataclass(frozen=True, slots=True)
class Pass(Action):
    """Put nothing into the pot; after a bet this is to fold."""

    def __str__(self) -> str:
        return "pass"


@dataclass(frozen=True, slots=True)
class Bet(Action):
    """Put one more chip into the pot; after a bet this is to call."""

    def __str__(self) -> str:
        return "bet"


PASS, BET = Pass(), Bet()
SHOWDOWNS = ((PASS, PASS), (BET, BET), (PASS, BET, BET))
FOLDS = ((BET, PASS), (PASS, BET, PASS))
"""Together all the ways in which a hand is played to its end."""


@dataclass(frozen=True, slots=True)
class CardDealt(Event):
    """A player looks at its own card."""

    player: int
    card: str

    @property
    def audience(self) -> tuple[int, ...]:
        return (self.player,)


@dataclass(frozen=True, slots=True)
class Moved(Event):
    """Everybody sees who passes and who bets."""

    player: int
    move: str


@dataclass(frozen=True, slots=True)
class Showdown(Event):
    """Nobody has folded, so both cards are laid open."""

    cards: tuple[str, ...]


class KuhnPoker(Game):
    """Two players, no options, one hidden card each."""

    name = "kuhn_poker"
    summary = "poker with three cards"
    num_players = 2

    def _all_actions(self) -> Iterable[Action]:
        return (PASS, BET)

    def initial_state(self) -> KuhnPokerState:
        return KuhnPokerState(self)

    def synonyms(self) -> Mapping[str, str]:
        return {"check": "pass", "fold": "pass", "call": "bet", "raise": "bet"}

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
        names = self.seat_names
        match event:
            case CardDealt(player, card):
                return f"{names[player]} is dealt the {card}."
            case Moved(player, move):
                return f"{names[player]} {'passes' if move == 'pass' else 'bets'}."
            case Showdown((first, second)):
                return f"{names[0]} shows the {first}, {names[1]} the {second}."
            case _:
                raise TypeError(f"{event!r} is no event of Kuhn poker")

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Deal again: the other card may be any that is not one's own, until it is shown."""
        moves = list(history)
        if moves and tuple(move.action for move in moves[1:]) not in SHOWDOWNS:
            dealt = moves[0].action
            assert isinstance(dealt, Deal)
            hands = [h for h in permutations(CARDS, 2) if h[player] == dealt.cards[player]]
            moves[0] = Step(CHANCE, Deal(rng.choice(hands)))
        return moves

    @property
    def array_specs(self) -> Mapping[str, ArraySpec]:
        return {
            "player": ArraySpec(shape=(2,), low=0, high=1),
            "cards": ArraySpec(shape=(2, 3), low=0, high=1),
            "moves": ArraySpec(shape=(3, 2), low=0, high=1),
        }

    def arrays(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """One-hot rows: the seat, the card of each seat that is known, the moves (pass, bet)."""
        import numpy as np  # Not above: who lists the games should not wait for it.

        arrays = {name: np.zeros(spec.shape, np.int8) for name, spec in self.array_specs.items()}
        arrays["player"][observation.player] = 1
        move_number = 0
        for event in observation.events:
            match event:
                case CardDealt(player, card):
                    arrays["cards"][player, CARDS.index(card)] = 1
                case Moved(move=move):
                    arrays["moves"][move_number, int(move == "bet")] = 1
                    move_number += 1
                case Showdown(cards):
                    for player, card in enumerate(cards):
                        arrays["cards"][player, CARDS.index(card)] = 1
        return arrays


class KuhnPokerState(State):
    """A position: the cards, once they are dealt, and the moves so far."""

    def __init__(self, game: KuhnPoker) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.cards: tuple[str, ...] = ()
        self.moves: tuple[Action, ...] = ()

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        return [ChanceOutcome(Deal(cards), 1 / 6) for cards in permutations(CARDS, 2)]

    def _legal_actions(self, player: int) -> ActionSet:
        return self.game.actions.subset((PASS, BET))

    def _apply(self, player: int, action: Action) -> None:
        if isinstance(action, Deal):
            self._deal(action)
        else:
            self._move(player, action)

    def _deal(self, deal: Deal) -> None:
        self.cards = deal.cards
        for player, card in enumerate(deal.cards):
            self.log.append(CardDealt(player, card))
        self._ask(0)

    def _ask(self, player: int) -> None:
        self.to_act = (player,)
        self.turn += 1

    def _move(self, player: int, move: Action) -> None:
        self.moves += (move,)
        self.log.append(Moved(player, str(move)))
        if self.moves in SHOWDOWNS:
            self.log.append(Showdown(self.cards))
            self.to_act = ()
        elif self.moves in FOLDS:
            self.to_act = ()
        else:
            self._ask(1 - player)

    @property
    def _winner(self) -> int:
        """The one who did not fold; else the one with the higher card."""
        if self.moves in FOLDS:
            return len(self.moves) % 2  # Whoever moved last has folded.
        first, second = map(CARDS.index, self.cards)
        return 0 if first > second else 1

    def returns(self) -> tuple[float, ...]:
        """The chips won or lost: two after a call, else one."""
        if not self.is_terminal:
            return (0.0, 0.0)
        chips = 2.0 if self.moves.count(BET) == 2 else 1.0
        return (chips, -chips) if self._winner == 0 else (-chips, chips)

    def reason(self) -> str:
        names, winner = self.game.seat_names, self._winner
        if self.moves in FOLDS:
            return f"{names[1 - winner]} folds"
        return f"{names[winner]} has the higher card"


class KuhnPokerScene:
    """The table for a page: only the cards that its viewer has seen lie face up."""

    module: ClassVar[Path] = Path(__file__).with_name("scene.js")

    def __init__(self, game: KuhnPoker, seat: int | None) -> None:
        self.dealt = False
        self.cards: list[str | None] = [None, None]
        self.moves: list[str] = []

    def update(self, event: Event) -> None:
        match event:
            case CardDealt(player, card):
                self.dealt = True
                self.cards[player] = card
            case Moved(move=move):
                self.moves.append(move)
            case Showdown(cards):
                self.cards = list(cards)

    def to_json(self) -> dict[str, Json]:
        """`cards` has null for one not seen; player 0 made the first of the `moves`, in turn."""
        return {
            "dealt": self.dealt,
            "cards": list(self.cards),
            "moves": list(self.moves),
            "chips": [1 + self.moves[player::2].count("bet") for player in range(2)],
            "winner": self._winner(),
        }

    def _winner(self) -> int | None:
        """As far as the viewer can tell: everybody sees a fold, and the cards of a showdown."""
        moves = tuple(PASS if move == "pass" else BET for move in self.moves)
        if moves in FOLDS:
            return len(moves) % 2
        first, second = self.cards
        if moves in SHOWDOWNS and first and second:
            return 0 if CARDS.index(first) > CARDS.index(second) else 1
        return None
