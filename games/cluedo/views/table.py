"""The table of Cluedo: who has which card, as one viewer has seen it."""

from __future__ import annotations

from arena import Event, Panel, Tabletop
from games.cluedo.base import CluedoBase
from games.cluedo.views.marks import Marks


class CluedoView:
    """A card grid from witnessed events: X has the card, - does not have it, . unknown."""

    def __init__(self, game: CluedoBase, seat: int | None) -> None:
        self._game = game
        self._marks = Marks(game)

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        self._marks.update(event)

    def tabletop(self) -> Tabletop:
        """Return the table now."""
        cards, players = self._game.deck.cards, self._game.num_players
        width = max(map(len, cards))
        rows = [" " * width + "".join(f"  P{seat}" for seat in range(players)) + "  envelope"]
        for card in cards:
            signs = [self._marks.sign(card, holder) for holder in range(players + 1)]
            rows.append(f"{card:<{width}}   " + "   ".join(signs))
        return Tabletop((Panel("", lines=tuple(rows), fixed_width=True),))
