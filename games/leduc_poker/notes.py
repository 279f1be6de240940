"""The table as one viewer of Leduc hold'em sees it, and observations as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arena import ArraySpec, Event, GameArrays, Notes, Observation
from games.leduc_poker.rules import (
    ANTE,
    MOVES,
    BoardCardDealt,
    HoleCardDealt,
    LeducBetting,
    LeducMoved,
    LeducPoker,
    LeducShowdown,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

LeducKey = tuple[str, str, str]
"""An information set: own card, board card or "", moves."""


class LeducNotes(Notes):
    """The table as one viewer sees it. Texts, bots and views read it."""

    game: LeducPoker

    def __init__(self, game: LeducPoker, player: int) -> None:
        super().__init__(game, player)
        self.cards: dict[int, str] = {}
        """The cards that the viewer has seen, by seat."""
        self.board = ""
        """The board card; empty before it is dealt."""
        self.betting = LeducBetting.start(game.options)
        self.is_shown = False
        """True if cards were shown at the end."""

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        match event:
            case HoleCardDealt(player, card):
                self.cards[player] = card
            case BoardCardDealt(card):
                self.board = card
                self.betting = self.betting.next_round()
            case LeducMoved(move=move):
                self.betting = self.betting.after(move[0])
            case LeducShowdown(cards):
                self.cards |= {seat: card for seat, card in enumerate(cards) if card}
                self.is_shown = True

    @property
    def own(self) -> str:
        """The viewer's own card; empty before the deal."""
        return self.cards.get(self.player, "")

    @property
    def key(self) -> LeducKey:
        """The information set of the viewer."""
        return self.own, self.board, str(self.betting)


class LeducArrays(GameArrays):
    """Observations of Leduc hold'em as arrays."""

    game: LeducPoker

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        players, ranks = self.game.num_players, len(self.game.deck)
        # All check but the last player, who raises; after each raise the others answer, and the
        # last of them may raise again: check, raise, raise, call.
        most_moves = (players - 1) * (self.game.options.raises + 1) + 1
        return {
            "player": ArraySpec(shape=(players,), low=0, high=1),
            "cards": ArraySpec(shape=(players, ranks), low=0, high=1),
            "board": ArraySpec(shape=(ranks,), low=0, high=1),
            "moves": ArraySpec(shape=(2, most_moves, len(MOVES)), low=0, high=1),
            "chips": ArraySpec(shape=(players,), low=0, high=self.game.most_chips),
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return one-hot rows: seat, known cards by seat, board, moves by round; and the chips."""
        deck, at = self.game.deck, self._offsets
        block = bytearray(self._seat_blocks[observation.player])
        cards, board, chips = at["cards"], at["board"], at["chips"]
        # Straight from the events: to update notes with their betting would take longer.
        # The moves of the first round, those of the second, then the chips.
        place, second = at["moves"], (at["moves"] + chips) // 2
        block[chips:] = bytes((ANTE,)) * self.game.num_players
        for event in observation.events:
            if isinstance(event, LeducMoved):
                block[place + list(MOVES).index(event.move[0])] = 1
                place += len(MOVES)
                block[chips + event.player] += event.chips
            # Only cards that the observer has seen; the others stay zeros.
            elif isinstance(event, HoleCardDealt):
                block[cards + event.player * len(deck) + deck.index(event.card)] = 1
            elif isinstance(event, BoardCardDealt):
                block[board + deck.index(event.card)] = 1
                place = second
            elif isinstance(event, LeducShowdown):
                for seat, card in enumerate(event.cards):
                    if card:
                        block[cards + seat * len(deck) + deck.index(card)] = 1
        return self._from_block(block)
