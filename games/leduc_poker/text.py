"""Texts of Leduc hold'em for models and people, and the view of its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from arena import Event, GameText, Observation, Tabletop, TextLevel, Tile, TileRow
from arena.core.observation import ObservedGame
from arena.core.tabletop import Panel
from arena.core.text import per_cent
from games.leduc_poker.betting import (
    BoardCardDealt,
    HoleCardDealt,
    LeducMoved,
    LeducNotes,
    strength,
)
from games.leduc_poker.betting import LeducShowdown as Shown
from games.leduc_poker.knowledge import hand_probabilities, showdown_chances

RULES = (
    "Leduc hold'em, two players. The deck has six cards: two Jacks, two Queens and two Kings. Both "
    "put one chip into the pot and are dealt one card each, face down. A round of betting follows. "
    "Then one card of the deck is dealt face up to the board, and a second round of betting "
    "follows. Player 0 begins each round. Fold gives the pot to the other player; it is allowed "
    "only after a raise. Call matches the chips of the other player; if there is no raise to "
    "match, it costs nothing (a check). Raise matches them and adds 2 chips in the first round, 4 "
    "in the second; each round has at most two raises, of both players together. A round ends with "
    "a call, but the first player's call without a raise leaves the other one to move. After the "
    "second round both cards are shown: a card of the same rank as the board card, a pair, "
    "wins; else the higher rank (Jack, Queen, King) wins; equal ranks share the pot. Your return "
    "is the number of chips that you win or lose.\n"
    "Your action: fold | call | raise. For example: call"
)


def _notes(notes: LeducNotes) -> str:
    board = f"The board card is the {notes.board}" if notes.board else "No board card yet"
    if notes.board == notes.own:
        board += ": you have a pair"
    price = notes.betting.price
    cost = f"a call costs you {price}" if price else "a call costs nothing"
    return (
        f"Your card is the {notes.own}. {board}. The pot has {notes.betting.pot} chips, "
        f"{notes.betting.chips[notes.player]} of them yours; {cost}."
    )


def _deductions(notes: LeducNotes) -> Iterator[str]:
    """Yield the exact probabilities, which count cards and ignore what moves suggest."""
    cards = ", ".join(f"{card} {per_cent(p)}" for card, p in hand_probabilities(notes).items())
    chances = showdown_chances(notes)
    yield f"By the unseen cards alone, the other player has: {cards}."
    yield (
        f"At a showdown you would win with {per_cent(chances.win)}, tie with "
        f"{per_cent(chances.tie)} and lose with {per_cent(chances.lose)}."
    )
    price = notes.betting.price
    if price:
        # A call of c chips into a pot of p chips: share * (p + c) >= c.
        needed = price / (notes.betting.pot + price)
        yield (
            f"If no raise follows, a call pays if your expected share of the pot is above "
            f"{per_cent(needed)}; it is {per_cent(chances.share)}."
        )


class LeducText(GameText):
    """Texts of Leduc hold'em."""

    def new_notes(self, player: int) -> LeducNotes:
        return LeducNotes(self.game, player)

    def synonyms(self) -> Mapping[str, str]:
        return {"check": "call", "match": "call", "bet": "raise", "reraise": "raise"}

    def rules(self) -> str:
        return RULES

    def narrate(self, event: Event) -> str:
        """Return one event as a sentence."""
        game = self.game
        names = game.seat_names
        match event:
            case HoleCardDealt(player, card):
                return f"{names[player]} is dealt the {card}."
            case BoardCardDealt(card):
                return f"The board card is the {card}."
            case LeducMoved(player, "fold"):
                return f"{names[player]} folds."
            case LeducMoved(player, move, chips):
                if not chips:
                    return f"{names[player]} checks."
                return f"{names[player]} {move}s: {chips} chips."
            case Shown((first, second)):
                return f"{names[0]} shows the {first}, {names[1]} the {second}."
            case _:
                raise TypeError(f"{event!r} is not an event of Leduc hold'em")

    def situation(self, observation: Observation, level: TextLevel) -> Iterator[str]:
        """Yield the lines after the events; notes help with decisions, so they need one to make."""
        notes = observation.notes
        assert isinstance(notes, LeducNotes)
        if not observation.legal_actions:
            return
        # The notes repeat what the events have shown, for readers that lose track.
        if level != "events":
            yield _notes(notes)
        if level == "deductions":
            yield from _deductions(notes)
        yield "Your actions: " + " | ".join(map(str, observation.legal_actions))


WORDS = {"f": "fold", "c": "call", "r": "raise"}


class LeducView:
    """The table as one viewer sees it; only cards that the viewer has seen are open.

    Args:
        game: The game that is played.
        seat: The seat of the viewer; None for a viewer who sees everything.
    """

    def __init__(self, game: ObservedGame, seat: int | None) -> None:
        self._game = game
        self._notes = LeducNotes(game, -1 if seat is None else seat)
        self._is_dealt = False

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        # The first event of every viewer is the deal of a card.
        self._is_dealt = True
        self._notes.update(event)

    def tabletop(self) -> Tabletop:
        """Return the table now: both hands with their chips, the board, and the moves."""
        notes = self._notes
        rows = [self._hand(seat) for seat in (0, 1)]
        if notes.board:
            rows.append(TileRow((Tile(notes.board, "accent"),), "Board"))
        lines = tuple(
            f"Round {number}: {', '.join(WORDS[move] for move in moves)}"
            for number, moves in enumerate(notes.betting.rounds, 1)
            if moves
        )
        moves = (Panel("Moves", lines=lines),) if lines else ()
        return Tabletop((Panel("Cards", tuple(rows)), *moves), self._caption())

    def _hand(self, seat: int) -> TileRow:
        notes = self._notes
        card = notes.cards.get(seat)
        tiles = (Tile("?", "hidden"),) if self._is_dealt else ()
        if card is not None:
            tiles = (Tile(card, "good" if card == notes.board else "plain"),)
        note = f"{notes.betting.chips[seat]} chips in the pot"
        return TileRow(tiles, self._game.seat_names[seat], note)

    def _caption(self) -> str:
        notes, names = self._notes, self._game.seat_names
        folded = notes.betting.folded
        if folded is not None:
            return f"{names[folded]} folds; {names[1 - folded]} takes the pot."
        if not notes.is_shown:
            return f"Pot: {notes.betting.pot} chips."
        first, second = (strength(notes.cards[seat], notes.board) for seat in (0, 1))
        if first == second:
            return "Equal hands share the pot."
        return f"{names[0 if first > second else 1]} takes the pot of {notes.betting.pot} chips."
