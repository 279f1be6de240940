"""Everything that one viewer of the negotiation knows, and observations as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena import ArraySpec, Event, GameArrays, Notes, Observation, Spoken
from games.negotiation.rules import (
    ITEMS,
    MOST_OF_A_TYPE,
    TOTAL_VALUE,
    DivisionProposed,
    ItemsDealt,
    Negotiation,
    OfferAnswered,
    Triple,
    ValuesDealt,
    worth,
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
        self.offers: list[tuple[int, tuple[Triple, ...]]] = []
        """The proposer and the shares of each offer."""
        self.proposer: int | None = None
        self.is_agreed = False
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
                self.offer, self.proposer = shares, player
                self.offers.append((player, shares))
                self.turn += 1
            case OfferAnswered(_, answer):
                self.is_agreed = answer == "accept"
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
        - `agreed` (seats,): 1 for its proposer, and for both once it is accepted.
        - `turn` (1,): number of the turn.
        - `stated` (seats, statements): the latest statements, with the option for them.
        """
        types = len(ITEMS)
        stated = ArraySpec((2, len(self.game.actions.statements)), 0, 1)
        return {
            "items": ArraySpec((types,), 0, MOST_OF_A_TYPE),
            "values": ArraySpec((types,), 0, TOTAL_VALUE),
            "offer": ArraySpec((2, types), 0, MOST_OF_A_TYPE),
            "agreed": ArraySpec((2,), 0, 1),
            "turn": ArraySpec((1,), 0, self.game.options.turns),
            **({"stated": stated} if stated.shape[1] else {}),
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: NegotiationNotes = observation.notes
        arrays = self._zeros()
        if notes.own:
            arrays["items"][:] = notes.counts
            arrays["values"][:] = notes.own
        if notes.offer:
            # Rows are seats from the observer on.
            arrays["offer"][:] = np.roll(np.array(notes.offer), -notes.player, axis=0)
            arrays["agreed"][:] = notes.is_agreed
            arrays["agreed"][int(notes.proposer != notes.player)] = 1
        arrays["turn"][0] = notes.turn
        for player, text in notes.spoken.items():
            for statement in self.game.actions.attached(text):
                arrays["stated"][
                    int(player != notes.player), self.game.actions.statements.index(statement)
                ] = 1
        return arrays
