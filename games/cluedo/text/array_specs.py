"""Names, shapes and bounds of the arrays of an observation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from arena import ArraySpec
from games.cluedo.rules import board

if TYPE_CHECKING:
    from games.cluedo.base import CluedoBase

HISTORY = 32
"""Length of the array of suggestions."""


def array_specs(game: CluedoBase) -> Mapping[str, ArraySpec]:
    """Return the specs of an observation's arrays.

    Seats are counted from the observer's own, in turn order.

    - `hand` (cards,): 1 for own cards.
    - `notebook` (cards, seats + 1): 1 has the card, -1 does not have it, 0 unknown. Only what was
      witnessed, no conclusions. The last column is the envelope.
    - `suggestions` (32, 6), latest first: suspect, weapon, room (each from 1), suggester, refuter
      (seat + 1; 0 for none), card shown to or by the observer (from 1; 0 for unseen). Unused rows
      are 0. With `refuters="all"` (32, 4 + 2 * seats): after the suggester, for each seat 1 if it
      showed a card, then for each seat the card that it showed, if it is seen.
    - `out` (seats,): 1 after a false accusation.
    - `turn` (seats,): 1 for the player in turn.
    - With a board: `pawns` (6, 3), suspects in card order: room (from 1; 0 in a corridor), row and
      column in the corridor. `weapons` (6,): the room that each was moved to (from 1; 0 for none).
      `dice` (2,): the throw of this turn, 0 before it. `suspects` (seats,), if they are chosen: the
      suspect of each player (from 1; 0 before its choice).
    """
    cards, seats = len(game.deck.cards), game.num_players
    specs = {
        "hand": ArraySpec((cards,), 0, 1),
        "notebook": ArraySpec((cards, seats + 1), -1, 1),
        "suggestions": ArraySpec((HISTORY, suggestion_width(game)), 0, cards),
        "out": ArraySpec((seats,), 0, 1),
        "turn": ArraySpec((seats,), 0, 1),
    }
    if game.has_board:
        specs["pawns"] = ArraySpec((6, 3), 0, max(board.ROWS, board.COLUMNS))
        specs["weapons"] = ArraySpec((6,), 0, len(game.deck.rooms))
        specs["dice"] = ArraySpec((2,), 0, 6)
    if game.options.choose_suspects:
        specs["suspects"] = ArraySpec((seats,), 0, len(game.deck.suspects))
    return specs


def suggestion_width(game: CluedoBase) -> int:
    """Return the length of a row of the array `suggestions`."""
    return 6 if game.options.refuters == "in_turn" else 4 + 2 * game.num_players
