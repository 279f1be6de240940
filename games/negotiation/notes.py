"""Everything that one viewer of the negotiation knows, and observations as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena import ArraySpec, Event, GameArrays, Notes, Observation, Spoken
from games.negotiation.deals import ITEMS, MOST_OF_A_TYPE, TOTAL_VALUE, Triple, worth
from games.negotiation.rules import (
    DivisionProposed,
    ItemsDealt,
    Negotiation,
    OfferAnswered,
    ValuesDealt,
)


class NegotiationNotes(Notes):
    """Items, values and the offer on the table. Texts, arrays, bots and views read it."""

    game: Negotiation

    def __init__(self, game: Negotiation, player: int) -> None:
        super().__init__(game, player)
        self.counts: Triple = ()
        """Items on the table; () before the deal."""
        self.values: dict[int, Triple] = {}
        """The values that the viewer knows, by seat."""
        self.offer: tuple[Triple, ...] = ()
        self.proposer: int | None = None
        self.accepted: tuple[int, ...] = ()
        """Players who have accepted the offer on the table."""
        self.spoken: dict[int, str] = {}
        """The latest message of each player."""
        self.latest_move: Event | None = None
        """The latest offer or answer."""
        self.turn = 0
        """Number of the current turn, from 1; 0 before the deal."""

    @property
    def own(self) -> Triple:
        """Own values; () before the deal."""
        return self.values.get(self.player, ())

    @property
    def offered(self) -> int | None:
        """Own points by the offer on the table; None without an offer."""
        return worth(self.offer[self.player], self.own) if self.offer else None

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        match event:
            case ItemsDealt(counts):
                self.counts, self.turn = counts, 1
            case ValuesDealt(player, values):
                self.values[player] = values
            case Spoken(player, text):
                self.spoken[player] = text
            case DivisionProposed(player, shares):
                self.offer, self.proposer, self.accepted = shares, player, ()
                self.turn += 1
            case OfferAnswered(player, "accept"):
                self.accepted += (player,)
                # The last acceptance ends the game, and no other turn begins.
                self.turn += len(self.accepted) < self.game.num_players - 1
        if isinstance(event, DivisionProposed | OfferAnswered):
            self.latest_move = event


class NegotiationArrays(GameArrays):
    """Observations of the negotiation as arrays."""

    game: Negotiation

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        """Return the specs of the arrays; types are books, hats, balls, and seats count from the
        observer's own. Free words are not included.

        - `items` (types,): items on the table. `values` (types,): own values.
        - `offer` (seats, types): the offer on the table; 0 without one.
        - `agreed` (seats,): 1 for its proposer and those who have accepted it.
        - `turn` (1,): number of the turn.
        - `stated` (seats, statements): the latest statements, with the option for them.
        """
        players, types = self.game.num_players, len(ITEMS)
        stated = ArraySpec((players, len(self.game.actions.statements)), 0, 1)
        return {
            "items": ArraySpec((types,), 0, MOST_OF_A_TYPE),
            "values": ArraySpec((types,), 0, TOTAL_VALUE),
            "offer": ArraySpec((players, types), 0, MOST_OF_A_TYPE),
            "agreed": ArraySpec((players,), 0, 1),
            "turn": ArraySpec((1,), 0, self.game.options.turns),
            **({"stated": stated} if stated.shape[1] else {}),
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: NegotiationNotes = observation.notes  # type: ignore[assignment]
        arrays = self._zeros()
        if notes.own:
            arrays["items"][:] = notes.counts
            arrays["values"][:] = notes.own
        if notes.offer:
            # Rows are seats from the observer on.
            arrays["offer"][:] = np.roll(np.array(notes.offer), -notes.player, axis=0)
            # Whoever offers agrees to the own offer.
            for player in (notes.proposer, *notes.accepted):
                assert player is not None
                arrays["agreed"][(player - notes.player) % self.game.num_players] = 1
        arrays["turn"][0] = notes.turn
        for player, text in notes.spoken.items():
            row = (player - notes.player) % self.game.num_players
            for statement in self.game.actions.attached(text):
                arrays["stated"][row, self.game.actions.statements.index(statement)] = 1
        return arrays
