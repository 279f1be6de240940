"""The table of Hanabi as one viewer sees it."""

from __future__ import annotations

from collections.abc import Iterator

from arena import Card, Event, Panel, Tabletop, Tile, TileRow, Track, Tracks
from arena.core.view.pieces import Colour
from games.hanabi.game import Hanabi
from games.hanabi.moves import MULTICOLOUR, DiscardSlot, HintRank
from games.hanabi.table import HanabiTable, HeldCard
from games.hanabi.text import hint_text

LOOKS: dict[str, tuple[str, Colour]] = {
    "red": ("▲", "red"),
    "yellow": ("★", "yellow"),
    "green": ("●", "green"),
    "white": ("◆", "white"),
    "blue": ("■", "blue"),
    MULTICOLOUR: ("✚", "purple"),
}
"""Sign and colour of a card. Not every reader sees colours."""


class HanabiView:
    """The table as one viewer sees it.

    A card that the viewer does not see shows what the hints say: `R?` is red, `?3` has rank 3. A
    card that it sees shows the same in brackets, if a hint has named it.

    A click on an own card plays or discards it; one on another player's card gives a hint.

    Args:
        game: The game that is played.
        seat: The seat of the viewer; None sees everything.
    """

    def __init__(self, game: Hanabi, seat: int | None) -> None:
        self.game = game
        self._seat = seat
        self._table = HanabiTable(game, seat)

    def update(self, event: Event) -> None:
        self._table.update(event)

    def tabletop(self) -> Tabletop:
        table, options = self._table, self.game.options
        numbers = (
            Track("score", table.score, len(self.game.deck.kinds)),
            Track("hint tokens", table.tokens, options.hint_tokens, "●"),
            Track("lives", table.lives, options.lives, "♥"),
            Track("cards in the deck", table.deck),
        )
        colours = range(self.game.deck.colours)
        fireworks = [TileRow(tuple(map(self._firework, colours)))]
        if table.discards:
            fireworks.append(TileRow(tuple(self._discards()), "Discarded"))
        # The viewer's own hand is the last, as if it sat there.
        seats = sorted(range(self.game.num_players), key=lambda seat: seat == self._seat)
        hands = tuple(self._hand(seat) for seat in seats)
        return Tabletop(
            (Tracks(numbers), Panel("Fireworks", tuple(fireworks)), Panel("Hands", hands)),
            blocked=dict(self._blocked()),
        )

    def _blocked(self) -> Iterator[tuple[str, str]]:
        """Yield the moves that the hint tokens forbid the viewer, and why."""
        table, seat = self._table, self._seat
        if seat is None:
            return
        if table.tokens == self.game.options.hint_tokens:
            there = (
                "the hint token is" if table.tokens == 1 else f"all {table.tokens} hint tokens are"
            )
            why = f"No discard while {there} there."
            for slot in range(1, len(table.hands[seat]) + 1):
                yield str(DiscardSlot(slot)), why
        elif not table.tokens:
            for target in self.game.others(seat):
                yield str(HintRank(target, 1)), "No hint without a hint token."

    def _discards(self) -> Iterator[Tile]:
        """Yield the ranks of each colour that are out of the game, such as R113."""
        # They show which ranks can still come.
        deck = self.game.deck
        for colour, name in enumerate(deck.colour_names):
            gone = sorted(deck.rank(c) for c in self._table.discards if deck.colour(c) == colour)
            if gone:
                ranks = "".join(map(str, gone))
                label, words = f"{name[0].upper()}{ranks}", f"{name} {' '.join(ranks)}"
                yield Tile(label, "muted", words, face=words)

    def _firework(self, colour: int) -> Card:
        deck, height = self.game.deck, self._table.fireworks[colour]
        name = deck.colour_names[colour]
        symbol, paint = LOOKS[name]
        return Card(
            f"{name[0].upper()}{height}",
            "good" if height == deck.ranks else "plain" if height else "muted",
            f"{name}: {height} of {deck.ranks}",
            face=str(height or "–"),
            symbol=symbol,
            colour=paint,
        )

    def _hand(self, seat: int) -> TileRow:
        cards = enumerate(self._table.hands[seat], 1)
        tiles = tuple(self._card(seat, slot, held) for slot, held in cards)
        return TileRow(tiles, self.game.seat_names[seat], seat=seat)

    def _card(self, seat: int, slot: int, held: HeldCard) -> Card:
        title = f"slot {slot}; by hints: {hint_text(self.game.deck, held.kinds)}"
        mark = _hint_mark(self.game, held)
        # The label has to say everything, as the tone is only colour.
        if held.card is None:
            colour = _only_colour(self.game, held)
            symbol, paint = LOOKS[colour] if colour else ("", "")
            return Card(
                mark,
                "accent" if held.hinted else "hidden",
                title,
                self._picks(seat, slot, held),
                face=mark[1],
                symbol=symbol,
                colour=paint,
                note=f"slot {slot}",
            )
        deck = self.game.deck
        symbol, paint = LOOKS[deck.colour_names[deck.colour(held.card)]]
        return Card(
            f"{held.card}({mark})" if held.hinted else held.card,
            "accent" if held.hinted else "plain",
            f"{deck.words(held.card)}, {title}",
            self._picks(seat, slot, held),
            face=str(deck.rank(held.card)),
            symbol=symbol,
            colour=paint,
            note=f"knows {_known(self.game, held)}" if held.hinted else "",
        )

    def _picks(self, seat: int, slot: int, held: HeldCard) -> tuple[str, ...]:
        """Return what a click on a card means to the viewer."""
        if self._seat is None:
            return ()
        if seat == self._seat:
            return (f"slot {slot}",)
        if held.card is None:
            return ()
        deck = self.game.deck
        named = [name for name in deck.hint_colours if name in deck.hints_on[held.card]]
        hints = (*named, f"rank {deck.rank(held.card)}")
        return tuple(f"hint Player {seat} {hint}" for hint in hints)


def _only_colour(game: Hanabi, held: HeldCard) -> str:
    """Return the colour of a card, if the hints leave one; else nothing."""
    colours = game.deck.colours_of(held.kinds)
    return game.deck.colour_names[colours[0]] if len(colours) == 1 else ""


def _only_rank(game: Hanabi, held: HeldCard) -> str:
    """Return the rank of a card, if the hints leave one; else nothing."""
    ranks = game.deck.ranks_of(held.kinds)
    return str(ranks[0]) if len(ranks) == 1 else ""


def _known(game: Hanabi, held: HeldCard) -> str:
    """Return the colour and the rank that hints have named: `green`, `2` or `green 2`."""
    return f"{_only_colour(game, held)} {_only_rank(game, held)}".strip() or "?"


def _hint_mark(game: Hanabi, held: HeldCard) -> str:
    """Return two signs: the letter of the colour and the rank, `?` for what hints leave open."""
    # Excluded colours and ranks are in the title of the tile, for lack of space.
    colour = _only_colour(game, held)[:1].upper() or "?"
    return colour + (_only_rank(game, held) or "?")
