"""Arrays of an observation, in the style of the Hanabi Learning Environment.

Its canonical encoder (Bard et al. 2020) makes one vector of bits; here each part of it is
an array with a name. Seats are counted from the observer's own, in turn order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from arena import ArraySpec, GameArrays, Observation
from games.hanabi.game import Hanabi
from games.hanabi.moves import CardDiscarded, CardPlayed, HintGiven
from games.hanabi.table import HanabiNotes, HanabiTable

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

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: HanabiNotes = observation.notes  # type: ignore[assignment]
        game, table, values = self.game, notes.table, self._zeros()
        # Row 0 is the observer, as in the canonical observations of the learning environment.
        for place, player in enumerate((notes.player, *game.others(notes.player))):
            # A hand is shorter while its owner waits for a card, and in the last round.
            number = len(table.hands[player])
            values["held"][place, :number] = 1
            values["possible"][place, :number] = table.allowed(player)
            for slot, held in enumerate(table.hands[player]):
                values["hinted"][place, slot] = held.hinted
                # The own cards are unknown, so the observer has no row here.
                if held.card is not None and place:
                    values["hands"][place - 1, slot, game.deck.index[held.card]] = 1
            values["moves"][place] = _move_row(table, player)
        values["fireworks"][:] = table.fireworks
        values["gone"][:] = table.gone
        values["counters"][:] = (table.tokens, table.lives, table.deck)
        return values


def _move_row(table: HanabiTable, player: int) -> NDArray[np.int8]:
    """Return the row of `moves` of one player."""
    game, row = table.game, np.zeros(5 + table.game.hand_size, np.int8)
    match table.moves.get(player):
        case CardPlayed(slot=slot, card=card, fits=fits):
            row[:5] = (1, slot, game.deck.index[card] + 1, 0, fits)
        case CardDiscarded(slot=slot, card=card):
            row[:5] = (2, slot, game.deck.index[card] + 1, 0, 0)
        case HintGiven(target=target, colour=colour, rank=rank, slots=slots):
            # Numbers start at 1, since 0 means that there is none.
            seat = (target - (table.viewer or 0)) % game.num_players + 1
            value = rank or game.deck.colour_names.index(colour or "") + 1
            row[:5] = (4 if rank else 3, 0, 0, seat, value)
            # Columns 5 and later are the slots, which are numbered from 1.
            for slot in slots:
                row[4 + slot] = 1
    return row
