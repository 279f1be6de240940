"""Movement on the board: the places of pawns and weapons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arena import ActionSet, State
from games.cluedo.rules import board
from games.cluedo.rules.events import PawnMoved, PawnMovement, Place, Suggest, WeaponMoved

if TYPE_CHECKING:
    from games.cluedo.rules.setting import CluedoSetting


class BoardState(State):
    """Places of the pawns and weapons, and the movements of the player in turn.

    `summoned` is an immutable value, so that copies may share it; `clone` copies `places` and
    `weapons`.
    """

    game: CluedoSetting

    def __init__(self, game: CluedoSetting) -> None:
        super().__init__(game)
        self.player = 0
        self.places = game.start_places.copy()
        self.weapons: dict[str, str] = {}
        """The room of each weapon that was moved; the others lie beside the board."""
        self.squares = board.START_SQUARES if game.has_board else 0
        """Set of the corridor squares with a pawn on them, one bit per square."""
        # Suspects whose pawn was brought to a room since the last turn of their player.
        self.summoned: frozenset[str] = frozenset()
        self.throw = 0

    def clone(self) -> BoardState:
        """Return an independent copy."""
        twin = super().clone()
        twin.places = self.places.copy()
        twin.weapons = self.weapons.copy()
        return twin

    @property
    def pawn(self) -> str:
        """The suspect of the player in turn."""
        return self.game.deck.suspects[self.player]

    @property
    def room(self) -> str | None:
        """The room of this pawn; None in a corridor or without a board."""
        place = self.places.get(self.pawn) if self.places else None
        return place if isinstance(place, str) else None

    def _place_pawn(self, suspect: str, place: Place, how: PawnMovement) -> None:
        before = self.places[suspect]
        if isinstance(before, int):
            # Each square holds at most one pawn, so the bit is set and XOR clears it.
            self.squares ^= 1 << before
        if isinstance(place, int):
            self.squares |= 1 << place
        self.places[suspect] = place
        self.log.append(PawnMoved(suspect, place, how))

    def _occupied_squares(self) -> int:
        """Return the set of the corridor squares that other pawns occupy."""
        place = self.places[self.pawn]
        # The pawn's own square does not block it.
        return self.squares & ~(1 << place) if isinstance(place, int) else self.squares

    def _summon(self, suggestion: Suggest) -> None:
        """Move the suggested pawn and weapon to the room.

        The player of that pawn may suggest there in its next turn without moving.
        """
        suspect, weapon, room = suggestion.triple
        # Events are written only for real changes.
        if self.weapons.get(weapon) != room:
            self.weapons[weapon] = room
            self.log.append(WeaponMoved(weapon, room))
        if self.places[suspect] == room:
            return
        self._place_pawn(suspect, room, "summoned")
        if self.game.options.summoned_may_suggest:
            # Only a pawn that was moved, so not one that was in the room already.
            self.summoned |= {suspect}

    def _step_aside(self) -> None:
        """Move the pawn of a false accuser off the square outside a door, into the room."""
        room = board.DOORSTEPS.get(self.places[self.pawn])
        if room is not None:
            self._place_pawn(self.pawn, room, "steps aside")

    def _turn_start_actions(self) -> ActionSet:
        """Return the first actions of the turn on the board."""
        pawn = self.pawn
        place = self.places[pawn]
        room = place if isinstance(place, str) else None
        # A pawn that is shut in cannot throw; otherwise the turn could not go on. Its own square is
        # not beside itself, so it need not be left out.
        blocked = not board.can_step_away(place, self.squares)
        may_stay = room is not None and pawn in self.summoned
        return self.game.turn_start_actions(room, blocked, may_stay)
