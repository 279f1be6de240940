"""Arrays of an observation, in the style of the Hanabi Learning Environment.

Its canonical encoder (Bard et al. 2020) makes one vector of bits; here each part of it is
an array with a name. Seats are counted from the observer's own, in turn order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arena import ArraySpec, GameArrays, Observation
from games.hanabi.game import Hanabi
from games.hanabi.moves import CardPlayed, HintGiven
from games.hanabi.table import HanabiNotes, HanabiTable, HeldCard, held_card

if TYPE_CHECKING:
    from numpy.typing import NDArray


class HanabiArrays(GameArrays):
    """Observations of Hanabi as arrays."""

    game: Hanabi

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        """Return the specs of an observation's arrays; kinds are numbered as in `HanabiDeck`.

        - `hands` (players - 1, slots, kinds): 1 for the card that another player holds.
        - `held` (players, slots): 1 for a slot that holds a card.
        - `possible` (players, slots, kinds): 1 for a kind that the hints allow.
        - `hinted` (players, slots): 1 for a card that a hint has named.
        - `fireworks` (colours,): highest rank played. `gone` (kinds,): copies played or discarded.
        - `counters` (3,): hint tokens, lives, cards in the deck.
        - `moves` (players, 5 + slots): latest move of each player, 0 if there is none. Columns:
          kind of move (1 play, 2 discard, 3 hint of a colour, 4 hint of a rank), slot (from 1),
          kind of the card (from 1), hinted seat (from 1, counted from the observer), and 1 if the
          card fitted or the colour or rank (from 1) of a hint. The others: 1 for a slot that the
          hint named.
        """
        game = self.game
        players, slots, kinds = game.num_players, game.hand_size, len(game.deck.kinds)
        return {
            "hands": ArraySpec(shape=(players - 1, slots, kinds), low=0, high=1),
            "held": ArraySpec(shape=(players, slots), low=0, high=1),
            "possible": ArraySpec(shape=(players, slots, kinds), low=0, high=1),
            "hinted": ArraySpec(shape=(players, slots), low=0, high=1),
            "fireworks": ArraySpec(shape=(game.deck.colours,), low=0, high=game.deck.ranks),
            "gone": ArraySpec(shape=(kinds,), low=0, high=3),
            "counters": ArraySpec(shape=(3,), low=0, high=max(8, game.deck.size)),
            "moves": ArraySpec(shape=(players, 5 + slots), low=0, high=max(5, kinds)),
        }

    @cached_property
    def _one_hot(self) -> dict[str | None, bytes]:
        """The row of each card of the others in `hands`; without a card all are 0."""
        kinds = self.game.deck.kinds
        return {card: bytes(card == kind for kind in kinds) for card in (*kinds, None)}

    @cached_property
    def _empty_hand(self) -> tuple[HeldCard, ...]:
        """Empty slots: cards that have no kind."""
        return (held_card(None, 0, False, len(self.game.deck.kinds)),) * self.game.hand_size

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: HanabiNotes = observation.notes  # type: ignore[assignment]
        table, one_hot, empty = notes.table, self._one_hot, self._empty_hand
        # Row 0 is the observer, as in the canonical observations of the learning environment.
        seats = (notes.player, *self.game.others(notes.player))
        # A hand is shorter while its owner waits for a card, and in the last round.
        size = len(empty)
        slots = [held for seat in seats for held in (table.hands[seat] + empty)[:size]]
        parts: tuple[bytes | bytearray, ...] = (
            # The own cards are unknown, so the observer has no row here.
            b"".join([one_hot[held.card] for held in slots[size:]]),
            bytes([held is not empty[0] for held in slots]),
            b"".join([held.row for held in slots]),
            bytes([held.hinted for held in slots]),
            bytes(table.fireworks),
            bytes(table.gone),
            bytes((table.tokens, table.lives, table.deck)),
            *[_move_row(table, seat) for seat in seats],
        )
        return self._from_block(bytearray().join(parts))


def _move_row(table: HanabiTable, player: int) -> bytearray:
    """Return the row of `moves` of one player."""
    deck, row, move = table.game.deck, bytearray(5 + table.game.hand_size), table.moves.get(player)
    if isinstance(move, HintGiven):
        # Numbers start at 1, since 0 means that there is none.
        row[0] = 4 if move.rank else 3
        row[3] = (move.target - (table.viewer or 0)) % table.game.num_players + 1
        row[4] = move.rank or deck.hints.index(move.name) + 1
        # Columns 5 and later are the slots, which are numbered from 1.
        for slot in move.slots:
            row[4 + slot] = 1
    elif move is not None:
        row[1], row[2] = move.slot, deck.index[move.card] + 1
        row[0], row[4] = (1, move.fits) if isinstance(move, CardPlayed) else (2, 0)
    return row
