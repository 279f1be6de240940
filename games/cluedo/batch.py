"""Many games of Cluedo without a board at once, with the notebooks of all players, on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from arena.core.batch.chance_streams import ChanceStreams
from arena.core.batch.state_batch import NO_PLAYER, Rows, StateBatch
from games.cluedo.text.arrays import HISTORY

if TYPE_CHECKING:
    from games.cluedo.rules.setting import CluedoSetting


QUESTION, REFUTATION, ACCUSATION = range(3)
"""Steps of a turn: suggest, accuse or end; show a card; accuse or end."""


PAST = 4 * HISTORY
"""Rows of suggestions that are kept. They are written from the last row towards the first, so that
the latest comes first without moving the others."""


class CluedoBatch(StateBatch):
    """Batch of Cluedo for the variant `cards`, with the observations of its players.

    Each event is written for all its observers at once, so that an observation is a mere copy.

    Cards are numbers in deck order. Piles are the seats, then the envelope, then the open cards.
    A step of a seat is its distance from the player in turn, in turn order.
    """

    def __init__(self, game: CluedoSetting, size: int) -> None:
        super().__init__(game, size)
        deck = game.deck
        self.players, self.cards = game.num_players, len(deck.cards)
        self.envelope = self.players
        self.in_turn_order = game.options.refuters == "in_turn"
        self.random_start = game.options.first_player == "random"
        self.sizes = tuple(map(len, deck.categories))
        self.triples = np.array([[deck.index[card] for card in triple] for triple in deck.triples])
        # Action numbers: suggestions, accusations, cards to show, the end of the turn.
        self.accusations = len(self.triples)
        self.shows = 2 * self.accusations
        self.piles = np.full(self.cards - 3, self.players + 1, np.int8)
        """The pile of each card after the shuffle."""
        seats = np.repeat(np.arange(self.players), game.hand_sizes)
        self.piles[: len(seats)] = seats
        self._legal = np.zeros((3, len(game.actions)), np.int8)
        self._legal[[QUESTION, ACCUSATION], self.accusations : self.shows] = 1
        self._legal[QUESTION, : self.accusations] = 1
        self._legal[[QUESTION, ACCUSATION], self.shows + self.cards] = 1
        self.holder = np.zeros((size, self.cards), np.int8)
        """The pile of each card."""
        self.player = np.zeros(size, np.int64)
        """The player in turn."""
        self.phase = np.zeros(size, np.int8)
        self.out = np.zeros((size, self.players), np.int8)
        self.winner = np.full(size, NO_PLAYER)
        self.named = np.zeros((size, 3), np.int64)
        """The cards of the latest suggestion."""
        self.refuting = np.zeros((size, self.players), bool)
        """The seats that still have to show a card, by their step."""
        self._blank_notebooks(size, game.arrays.specs["suggestions"].shape[1])

    def _blank_notebooks(self, size: int, width: int) -> None:
        """Make the arrays of the players; `width` is the length of a row of the suggestions."""
        players = self.players
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

    def deal(self, seeds: Sequence[int]) -> NDArray[np.int8]:
        """Return the pile of each card, then the first player: shape (seeds, cards + 1)."""
        games, start = np.arange(len(seeds)), 0
        streams = ChanceStreams(seeds, 3 * self.cards)
        deals = np.zeros((len(seeds), self.cards + 1), np.int8)
        # The draws, and their order, are those of `sample_deal`.
        for size in self.sizes:
            deals[games, start + streams.below(size)] = self.envelope
            start += size
        _, others = np.nonzero(deals[:, : self.cards] != self.envelope)
        remaining = others.reshape(len(seeds), self.cards - 3)
        # As `Random.shuffle`: from the last card on, each changes places with an earlier one.
        for place in range(self.cards - 4, 0, -1):
            other = streams.below(place + 1)
            moved = remaining[games, other]
            remaining[games, other] = remaining[:, place]
            remaining[:, place] = moved
        deals[games[:, None], remaining] = self.piles
        if self.random_start:
            deals[:, self.cards] = streams.below(self.players)
        return deals

    def start(self, rows: Rows, deals: NDArray[Any]) -> None:
        self.holder[rows] = deals[:, : self.cards]
        self.out[rows] = self.turn[rows] = 0
        self.winner[rows] = NO_PLAYER
        self._start_turn(rows, deals[:, self.cards].astype(np.int64))
        holder = self.holder[rows][:, None]
        held = holder == np.arange(self.players)[:, None]
        # Own cards and open cards are nowhere else.
        placed = held | (holder == self.envelope + 1)
        self._books[rows] = -placed[:, :, :, None].astype(np.int8)
        # Column 0 is the observer, which knows its hand completely.
        self._books[rows, :, :, 0] = np.where(held, 1, -1)
        self._past[rows] = 0
        self._latest[rows] = PAST - HISTORY

    def apply(self, rows: Rows, actions: NDArray[np.int64]) -> None:
        suggests, accuses = actions < self.accusations, actions < self.shows
        shows = ~accuses & (actions < self.shows + self.cards)
        accuses &= ~suggests
        if suggests.any():
            self._suggest(rows[suggests], self.triples[actions[suggests]])
        if shows.any():
            self._show(rows[shows], actions[shows] - self.shows)
        ending = ~(suggests | shows)
        if accuses.any():
            right = np.zeros(len(rows), bool)
            named = self.triples[actions[accuses] - self.accusations]
            right[accuses] = self._accuse(rows[accuses], named)
            ending &= ~right
        if ending.any():
            self._end_turn(rows[ending])

    def masks(self, rows: Rows) -> NDArray[np.int8]:
        phases = self.phase[rows]
        masks = self._legal.take(phases, axis=0)
        refuting = np.flatnonzero(phases == REFUTATION)
        if len(refuting):
            games = rows[refuting]
            named = self.named[games]
            held = self.holder[games[:, None], named] == self.to_act[games][:, None]
            masks[refuting[:, None], self.shows + named] = held
        return masks

    def returns(self, rows: Rows) -> NDArray[np.float64]:
        won: NDArray[np.bool_] = self.winner[rows][:, None] == np.arange(self.players)
        return won.astype(np.float64)

    def _suggest(self, rows: Rows, named: NDArray[np.int64]) -> None:
        self.named[rows] = named
        suggester = self.player[rows][:, None]
        piles = self.holder[rows[:, None], named].astype(np.int64)
        steps = np.where(piles < self.players, (piles - suggester) % self.players, 0)
        able = np.zeros((len(rows), self.players), bool)
        able[np.arange(len(rows))[:, None], steps] = True
        # Step 0 is the suggester, who is not asked; it also collects the cards of no seat.
        able[:, 0] = False
        if self.in_turn_order:
            # Only the first seat that can refute shows a card, and those after it are not asked.
            first = np.where(able.any(axis=1), able.argmax(axis=1), self.players)[:, None]
            order = np.arange(self.players)
            able, unable = order == first, (order < first) & (order > 0)
        else:
            unable = ~able
            unable[:, 0] = False
        self.refuting[rows] = able
        self._record_suggestion(rows, named, able, unable)
        self._next_refutation(rows)

    def _next_refutation(self, rows: Rows) -> None:
        """Let the next seat show a card; after the last one, the player in turn may accuse."""
        # No seat refutes from step 0: there the player in turn goes on.
        step = self.refuting[rows].argmax(axis=1)
        self.phase[rows] = np.where(step > 0, REFUTATION, ACCUSATION)
        self.to_act[rows] = (self.player[rows] + step) % self.players

    def _show(self, rows: Rows, cards: NDArray[np.int64]) -> None:
        refuters, suggesters = self.to_act[rows].astype(np.int64), self.player[rows]
        self.refuting[rows, (refuters - suggesters) % self.players] = False
        self._record_card(rows, refuters, suggesters, cards)
        self._next_refutation(rows)

    def _accuse(self, rows: Rows, named: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of the accusations are right; those games are over."""
        hidden: NDArray[np.bool_] = self.holder[rows[:, None], named] == self.envelope
        right = np.asarray(hidden.all(axis=1))
        self.winner[rows[right]] = self.player[rows[right]]
        self.to_act[rows[right]] = NO_PLAYER
        wrong = rows[~right]
        self.out[wrong, self.player[wrong]] = 1
        return right

    def _end_turn(self, rows: Rows) -> None:
        """Pass the turn to the next player who has not made a false accusation."""
        players, following = self.player[rows], np.full(len(rows), NO_PLAYER)
        # From the player itself, the last to be considered, back to the next seat.
        for step in range(self.players, 0, -1):
            seat = (players + step) % self.players
            following = np.where(self.out[rows, seat] == 0, seat, following)
        over = following == NO_PLAYER
        self.to_act[rows[over]] = NO_PLAYER
        self._start_turn(rows[~over], following[~over])

    def _start_turn(self, rows: Rows, players: NDArray[np.int64]) -> None:
        self.player[rows] = self.to_act[rows] = players
        self.phase[rows] = QUESTION
        self.turn[rows] += 1

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
