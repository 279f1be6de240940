"""Notebooks of all players of many games at once: the arrays of `Notebook`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from arena.core.batch.state_batch import Rows
from games.cluedo.rules.batch import CluedoBatch
from games.cluedo.text.array_specs import HISTORY

if TYPE_CHECKING:
    from games.cluedo.base import CluedoBase

PAST = 4 * HISTORY
"""Rows of suggestions that are kept. They are written from the last row towards the first, so that
the latest comes first without moving the others."""


class CluedoNotebooks(CluedoBatch):
    """Batch of Cluedo without a board, with the observations of its players.

    Each event is written for all its observers at once, so that an observation is a mere copy.
    """

    def __init__(self, game: CluedoBase, size: int) -> None:
        super().__init__(game, size)
        players, width = self.players, game.arrays.specs["suggestions"].shape[1]
        self._books = np.zeros((size, players, self.cards, players + 1), np.int8)
        """The notebook of each observer; its columns count seats from the observer."""
        self._past = np.zeros((size, players, PAST, width), np.int8)
        """Suggestions by observer, the latest one first, from row `_latest` on."""
        flat = self._past.reshape(size, players, PAST * width)
        # A view: the suggestions of an observation from each place on, as one copy.
        self._windows = sliding_window_view(flat, HISTORY * width, axis=2)[:, :, ::width]
        self._latest = np.zeros(size, np.int64)
        self._width = width
        self._first_of_kind = np.cumsum((0, *self.sizes[:2]))

    def start(self, rows: Rows, deals: NDArray[Any]) -> None:
        super().start(rows, deals)
        holder = self.holder[rows][:, None]
        held = holder == np.arange(self.players)[:, None]
        # Own cards and open cards are nowhere else.
        placed = held | (holder == self.envelope + 1)
        self._books[rows] = -placed[:, :, :, None].astype(np.int8)
        # Column 0 is the observer, which knows its hand completely.
        self._books[rows, :, :, 0] = np.where(held, 1, -1)
        self._past[rows] = 0
        self._latest[rows] = PAST - HISTORY

    def arrays(self, rows: Rows, players: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        seats = (players[:, None] + np.arange(self.players)) % self.players
        past = self._windows[rows, players, self._latest[rows]]
        return {
            "hand": (self.holder[rows] == players[:, None]).astype(np.int8),
            "notebook": self._books[rows, players],
            "suggestions": past.reshape(-1, HISTORY, self._width),
            "out": self.out[rows[:, None], seats],
            "turn": (seats == self.player[rows][:, None]).astype(np.int8),
        }

    def _record_suggestion(
        self,
        rows: Rows,
        named: NDArray[np.int64],
        able: NDArray[np.bool_],
        unable: NDArray[np.bool_],
    ) -> None:
        suggesters = self.player[rows]
        games, steps = np.nonzero(unable)
        seats = (suggesters[games] + steps) % self.players
        columns = (seats[:, None] - np.arange(self.players)) % self.players
        # A seat that cannot refute holds none of the three cards, and all observers see it.
        observers = np.arange(self.players)[None, :, None]
        places = rows[games][:, None, None], observers, named[games][:, None], columns[:, :, None]
        self._books[places] = -1
        full = rows[self._latest[rows] == 0]
        if len(full):
            # The front is reached: the latest suggestions move to the end.
            self._past[full, :, -HISTORY:] = self._past[full, :, :HISTORY]
            self._latest[full] = PAST - HISTORY
        self._latest[rows] -= 1
        lines = np.zeros((len(rows), self.players, self._width), np.int8)
        lines[:, :, :3] = (named - self._first_of_kind + 1)[:, None]
        lines[:, :, 3] = (suggesters[:, None] - np.arange(self.players)) % self.players
        games, steps = np.nonzero(able)
        refuters = (suggesters[games] + steps) % self.players
        column = (refuters[:, None] - np.arange(self.players)) % self.players
        if self.in_turn_order:
            lines[games, :, 4] = column + 1
        else:
            lines[games[:, None], np.arange(self.players), 4 + column] = 1
        self._past[rows, :, self._latest[rows]] = lines

    def _record_card(
        self,
        rows: Rows,
        refuters: NDArray[np.int64],
        suggesters: NDArray[np.int64],
        cards: NDArray[np.int64],
    ) -> None:
        column = (refuters - suggesters) % self.players
        # The place of a card excludes all other places; only the suggester learns it.
        self._books[rows, suggesters, cards] = -1
        self._books[rows, suggesters, cards, column] = 1
        for observers in (refuters, suggesters):
            # One refuter: the last place of the row. Else the second place of that seat.
            place = np.full(len(rows), 5)
            if not self.in_turn_order:
                place = 4 + self.players + (refuters - observers) % self.players
            self._past[rows, observers, self._latest[rows], place] = cards + 1
