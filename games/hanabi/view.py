"""View of the table: fireworks with discards, and the hands."""

from __future__ import annotations

from arena import Event
from arena.core.tabletop import Panel, Tabletop, Tile, TileRow, Tone
from games.hanabi.base import HanabiBase
from games.hanabi.table import HanabiTable, HeldCard
from games.hanabi.text import hint_text


class HanabiView:
    """The table as one viewer sees it.

    A card that the viewer does not see shows what the hints say: `R?` is red, `?3` has rank 3. A
    card that it sees shows the same in brackets, if a hint has named it.

    Args:
        game: The game that is played.
        seat: The seat of the viewer; None sees everything.
    """

    def __init__(self, game: HanabiBase, seat: int | None) -> None:
        self.game = game
        self._table = HanabiTable(game, seat)

    def update(self, event: Event) -> None:
        self._table.update(event)

    def tabletop(self) -> Tabletop:
        table, options = self._table, self.game.options
        fireworks = tuple(map(self._firework, range(self.game.deck.colours)))
        hands = tuple(
            TileRow(tuple(map(self._tile, hand)), name)
            for name, hand in zip(self.game.seat_names, table.hands, strict=True)
        )
        caption = (
            f"score {table.score} of {len(self.game.deck.kinds)}; hint tokens {table.tokens} of "
            f"{options.hint_tokens}; lives {table.lives} of {options.lives}; "
            f"cards in the deck {table.deck}"
        )
        return Tabletop((Panel("Fireworks", fireworks), Panel("Hands", hands)), caption)

    def _firework(self, colour: int) -> TileRow:
        deck, height = self.game.deck, self._table.fireworks[colour]
        # Discards stand behind their firework: they show which ranks can still come.
        ranks = sorted(deck.rank(c) for c in self._table.discards if deck.colour(c) == colour)
        note = f"discarded: {' '.join(map(str, ranks))}" if ranks else ""
        tone: Tone = "good" if height == deck.ranks else "plain" if height else "muted"
        return TileRow((Tile(str(height), tone),), deck.colour_names[colour], note)

    def _tile(self, held: HeldCard) -> Tile:
        title = f"by hints: {hint_text(self.game, held)}"
        mark = _hint_mark(self.game, held)
        # The label has to say everything, as the tone is only colour.
        if held.card is None:
            return Tile(mark, "accent" if held.hinted else "hidden", title)
        if not held.hinted:
            return Tile(held.card, "plain", title)
        return Tile(f"{held.card}({mark})", "accent", title)


def _hint_mark(game: HanabiBase, held: HeldCard) -> str:
    """Return two signs: the letter of the colour and the rank, `?` for what hints leave open."""
    # Excluded colours and ranks are in the title of the tile, for lack of space.
    colour, rank = "?", "?"
    if len(held.colours) == 1:
        colour = game.deck.colour_names[min(held.colours)][0].upper()
    if len(held.ranks) == 1:
        rank = str(min(held.ranks))
    return colour + rank
