"""Texts of the negotiation (rules, narration, situation of a player) and its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from arena import (
    Event,
    GameText,
    Observation,
    Offer,
    Panel,
    Player,
    Players,
    PlayGuide,
    Say,
    Spoken,
    Stepper,
    Tabletop,
    TextLevel,
    Tile,
    TileRow,
    Tone,
    Track,
    Tracks,
)
from arena.core.action import Statement
from arena.core.action_set import MOST_STATEMENTS
from arena.core.observation import NotesView
from arena.core.text import listed, pluralize
from arena.core.view import Display
from games.negotiation.knowledge import NegotiationKnowledge
from games.negotiation.notes import NegotiationNotes
from games.negotiation.rules import (
    ITEMS,
    SINGULAR,
    TOTAL_VALUE,
    ClaimValue,
    DivisionProposed,
    ItemsDealt,
    Negotiation,
    OfferAnswered,
    ProposeDivision,
    Triple,
    ValuesDealt,
    worth,
)


def items_text(items: Triple) -> str:
    """Return items in words: `1 book, 4 hats and 0 balls`."""
    return listed([pluralize(number, noun) for number, noun in zip(items, SINGULAR, strict=True)])


def values_text(values: Sequence[float]) -> str:
    """Return the value of one item of each type: `book 9, hat 0, ball 1`."""
    return ", ".join(f"{noun} {value:.3g}" for noun, value in zip(SINGULAR, values, strict=True))


def _offer_lines(notes: NegotiationNotes) -> Iterator[str]:
    """Yield items, own values, the offer and the turn."""
    yield (
        f"Turn {notes.turn} of {notes.game.options.turns}. On the table: "
        f"{items_text(notes.counts)}. Worth to you: {values_text(notes.own)}."
    )
    if not notes.offer or notes.proposer is None:
        yield "There is no offer yet."
        return
    names = notes.game.seat_names
    yield (
        f"Offer on the table, by {names[notes.proposer]}: you get "
        f"{items_text(notes.offer[notes.player])}, worth {notes.offered} of {TOTAL_VALUE} to you."
    )


def _deductions(notes: NegotiationKnowledge) -> Iterator[str]:
    """Yield what the rule of the deal says about the values of the other player."""
    yield (
        f"What follows from the rules ({pluralize(notes.world_count(), 'possibility')}, equally "
        "likely; offers and messages prove nothing):"
    )
    other = 1 - notes.player
    name, possible, means = notes.game.seat_names[other], notes.possible(), notes.mean_values()
    ranges = [
        f"{item} {min(column)} to {max(column)}"
        for item, column in zip(SINGULAR, zip(*possible, strict=True), strict=True)
    ]
    yield f"- worth to {name}: {', '.join(ranges)}; on average {values_text(means)}"
    if notes.offer:
        share = notes.offer[other]
        # The worth is linear in the values, so its mean is the worth at the mean values.
        points, mean = [worth(share, values) for values in possible], worth(share, means)
        yield (
            f"- the offer is worth {min(points)} to {max(points)} to {name}, {mean:.1f} on average"
        )


class NegotiationText(GameText):
    """Texts of the negotiation."""

    game: Negotiation
    notes_type = NegotiationKnowledge
    kept_events = (ItemsDealt, ValuesDealt)

    def synonyms(self) -> Mapping[str, str]:
        return {
            "offer": "keep",
            "propose": "keep",
            "i keep": "keep",
            "agree": "accept",
            "decline": "reject",
        }

    def guide(self) -> PlayGuide:
        talk = " Before it you may say something; it need not be true."
        return PlayGuide(
            goal=(
                "Agree on a division of the items that is worth as many points as possible to "
                "you. You do not know what the items are worth to the other player."
            ),
            turn=(
                "Offer what you keep, or accept the last offer."
                f"{talk if self.game.options.talk else ''}"
            ),
            end=(
                "An accepted offer ends the game, and each player scores its own value of what "
                "it gets. Without an agreement after the last turn all score 0."
            ),
            example=(
                "Books are worth 4 to you and balls nothing. Ask for the books and leave all "
                "balls: if the other player likes balls, both of you gain."
            ),
        )

    def rules(self) -> str:
        """Return the rules for a player who does not know the game."""
        game = self.game
        options = game.options
        lines = [
            "Negotiation, 2 players. On the table lie 5 to 7 items: books, hats and "
            "balls, at least one of each. What one book, hat or ball is worth is different for "
            "each player and known to this player only. All items together are worth "
            f"{TOTAL_VALUE} points to each player. Each type is worth something to at least one "
            "player, and some type to at least two.",
            "In turn, Player 0 first, a player makes an offer or accepts the offer on the table. "
            "An offer says how many books, hats and balls you keep; the other player gets the "
            "rest. A new offer replaces the one before. When the other player accepts it, the game "
            "ends and each player scores what its items are worth to itself.",
            f"There are {options.turns} turns in all. An offer can be made only while enough turns "
            "are left to accept it; after that you accept or reject the last one, and to reject it "
            "ends the game. Without an agreement everybody scores 0.",
        ]
        if options.talk:
            lines.append(
                "Once in each of your turns, before your action, you may send a message that all "
                "players read. Messages bind no player and need not be true."
            )
        if game.actions.statements:
            lines.append(
                "Statements: claim ITEM VALUE (what one is worth to you) | promise COUNT ITEM"
                " (so many or more, in your next offer) | promise accept|reject."
            )
            lines.append(
                f"A message is a statement alone, or TEXT with up to {MOST_STATEMENTS} statements "
                "in square brackets: say [claim hat 3] [promise 2 hats] TEXT."
            )
        lines.append("Only your own points count: score as many as you can.")
        talk = f"; before it, if you like: {Say.notation()}" if options.talk else ""
        lines.append(
            f"Your action: keep BOOKS HATS BALLS | accept | reject{talk}. For example, to keep 1 "
            "book, no hats and 2 balls: keep 1 0 2"
        )
        return "\n".join(lines)

    def narrate(self, event: Event) -> str:
        """Return one event as a sentence."""
        game = self.game
        names = game.seat_names
        match event:
            case ItemsDealt(counts):
                return f"On the table: {items_text(counts)}."
            case ValuesDealt(player, values):
                return f"Worth to {names[player]}: {values_text(values)}."
            case DivisionProposed(player, shares):
                parts = (f"{n} gets {items_text(s)}" for n, s in zip(names, shares, strict=True))
                return f"{names[player]} offers: {'; '.join(parts)}."
            case OfferAnswered(player, answer):
                return f"{names[player]} {ANSWERS[answer]}."
            case Spoken():
                return event.sentence(names)
            case _:
                raise TypeError(f"{event!r} is not an event of the negotiation")

    def situation(self, observation: Observation, level: TextLevel) -> Iterator[str]:
        """Yield the table, deductions and the actions."""
        notes: NegotiationKnowledge = observation.notes
        if level != "events" and notes.own:
            yield from _offer_lines(notes)
        if level == "deductions" and notes.own:
            yield from _deductions(notes)
        legal = observation.legal_actions
        if not legal:
            return
        # A grammar replaces the list of up to 36 offers.
        forms = ["keep BOOKS HATS BALLS"] if legal.of(ProposeDivision) else []
        forms += [str(a) for a in legal if not isinstance(a, ProposeDivision | Statement)]
        statement = "STATEMENT | " if legal.of(ClaimValue) else ""
        talk = f" Before it, if you like: {statement}{Say.notation()}." if legal.speech else ""
        yield f"Your action: {' | '.join(forms)}.{talk}"


ANSWERS = {"accept": "accepts", "reject": "rejects the last offer"}
SEAT_TONES: tuple[Tone, Tone] = ("seat0", "seat1")


# Table


class NegotiationView(NotesView):
    """The table; the viewer makes an offer by the number of items of each type that it keeps."""

    game: Negotiation
    notes: NegotiationNotes
    notes_type = NegotiationNotes

    def tabletop(self) -> Tabletop:
        """Return the table now."""
        notes, move = self.notes, self.notes.latest_move
        if not notes.counts:
            return Tabletop(())
        caption = ""
        if isinstance(move, DivisionProposed):
            caption = f"{self.game.seat_names[move.player]} offers."
        elif move:
            caption = self.game.text.narrate(move)
        items = Panel("Items", tuple(self._rows()), ITEMS)
        names = enumerate(self.game.seat_names)
        talk = tuple(Player(name, seat, bubble=notes.spoken.get(seat, "")) for seat, name in names)
        players = (Players(talk),) if notes.spoken else ()
        parts = (items, *players, *self._points(), *self._history(), *self._offers())
        return Tabletop(parts, caption, prompts={"say": "The other player hears you"})

    def _history(self) -> Iterator[Display]:
        """Yield all offers so far by what the viewer gets, for a player."""
        notes, names = self.notes, self.game.seat_names
        if self.seat is None or not notes.offers:
            return
        rows = []
        for number, (proposer, shares) in enumerate(notes.offers, 1):
            own = shares[self.seat]
            name = f"{number}. {'your offer' if proposer == self.seat else names[proposer]}"
            points = Tile(str(worth(own, notes.own)), "accent")
            rows.append(TileRow((*_row("", own, "muted").tiles, points), name))
        yield Display("Offers so far: what you get", tuple(rows), (*ITEMS, "points"))

    def _rows(self) -> Iterator[TileRow]:
        notes = self.notes
        yield _row("On the table", notes.counts, "plain")
        for seat, values in sorted(notes.values.items()):
            yield _row(f"Worth to {self.game.seat_names[seat]}, each", values, "muted")
        for seat, share in enumerate(notes.offer):
            name = f"Offer: {self.game.seat_names[seat]} gets"
            yield _row(name, share, SEAT_TONES[seat])

    def _points(self) -> Iterator[Tracks]:
        """Yield what the offer is worth to those whose values the viewer knows."""
        # A seat sees only its own points, as it knows only its own values.
        values = self.notes.values
        tracks = tuple(
            Track(
                f"this offer is worth to {self.game.seat_names[seat]}",
                worth(share, values[seat]),
                TOTAL_VALUE,
                unit="points",
            )
            for seat, share in enumerate(self.notes.offer)
            if seat in values
        )
        if tracks:
            yield Tracks(tracks)

    def _offers(self) -> Iterator[Offer]:
        """Yield the steppers for the viewer's own offer, with all it asks for at first."""
        notes = self.notes
        if not notes.own:
            return
        share = notes.offer[notes.player] if notes.offer else notes.counts
        steppers = [
            Stepper(item, count, number, value)
            for item, count, number, value in zip(
                ITEMS, notes.counts, share, notes.own, strict=True
            )
        ]
        note = "What you keep; the other player gets the rest."
        yield Offer("keep {} {} {}", tuple(steppers), note, own=len(ITEMS))


def _row(name: str, numbers: Triple, tone: Tone) -> TileRow:
    return TileRow(tuple(Tile(str(number), tone) for number in numbers), name)
