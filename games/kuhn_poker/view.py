"""Scene of Kuhn poker for a web page; `scene.js` draws it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, TypedDict

from arena import Event
from games.kuhn_poker.game import (
    BET,
    FOLDS,
    PASS,
    SHOWDOWNS,
    CardDealt,
    KuhnPoker,
    Moved,
    Showdown,
    winner_of,
)


class KuhnPokerSceneJson(TypedDict):
    """The table."""

    dealt: bool
    cards: list[str | None]
    """The card of each player; null if the viewer has not seen it."""
    moves: list[str]
    """The moves so far, `pass` or `bet`; player 0 made the first one."""
    chips: list[int]
    """Chips of each player in the pot."""
    winner: int | None


class KuhnPokerScene:
    """The table as one viewer sees it; only cards that the viewer has seen are open."""

    module: ClassVar[Path] = Path(__file__).with_name("scene.js")

    def __init__(self, game: KuhnPoker, seat: int | None) -> None:
        self.dealt = False
        self.cards: list[str | None] = [None, None]
        self.moves: list[str] = []

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        match event:
            case CardDealt(player, card):
                self.dealt = True
                self.cards[player] = card
            case Moved(move=move):
                self.moves.append(move)
            case Showdown(cards):
                self.cards = list(cards)

    def to_json(self) -> KuhnPokerSceneJson:
        """Return the current table."""
        return KuhnPokerSceneJson(
            dealt=self.dealt,
            cards=list(self.cards),
            moves=list(self.moves),
            chips=[1 + self.moves[player::2].count("bet") for player in range(2)],
            winner=self._winner(),
        )

    def _winner(self) -> int | None:
        """Return the winner if the viewer knows it: after a fold, or after both cards are shown."""
        moves = tuple(PASS if move == "pass" else BET for move in self.moves)
        cards = tuple(card for card in self.cards if card)
        if moves in FOLDS or (moves in SHOWDOWNS and len(cards) == 2):
            return winner_of(moves, cards)
        return None
