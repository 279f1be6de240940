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
from games.negotiation.deals import ITEMS, SINGULAR, TOTAL_VALUE, Triple, worth
from games.negotiation.knowledge import NegotiationKnowledge
from games.negotiation.notes import NegotiationNotes
from games.negotiation.rules import (
    ClaimValue,
    DivisionProposed,
    ItemsDealt,
    Negotiation,
    OfferAnswered,
    ProposeDivision,
    ValuesDealt,
)


def items_text(items: Triple) -> str:
    """Return items in words: `1 book, 4 hats and 0 balls`."""
    return listed([pluralize(number, noun) for number, noun in zip(items, SINGULAR, strict=True)])


def values_text(values: Sequence[float]) -> str:
    """Return the value of one item of each type: `book 9, hat 0, ball 1`."""
    return ", ".join(f"{noun} {value:.3g}" for noun, value in zip(SINGULAR, values, strict=True))


def _notation(game: Negotiation) -> str:
    """Return the notation of actions with an example."""
    talk = " | walk away" if game.options.walk_away else ""
    talk += f"; before it, if you like: {Say.notation()}" if game.options.talk else ""
    if game.num_players == 2:
        return (
            f"Your action: keep BOOKS HATS BALLS | accept | reject{talk}. For example, to keep 1 "
            "book, no hats and 2 balls: keep 1 0 2"
        )
    return (
        f"Your action: keep BOOKS HATS BALLS give BOOKS HATS BALLS | accept | reject{talk}. For "
        "example, to keep 1 book and 2 balls and to give 1 hat to the next player: keep 1 0 2 give "
        "0 1 0"
    )


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
    # With three players one of them may have accepted already.
    accepted = ", ".join(names[player] for player in notes.accepted)
    yield (
        f"Offer on the table, by {names[notes.proposer]}: you get "
        f"{items_text(notes.offer[notes.player])}, worth {notes.offered} of {TOTAL_VALUE} to you."
        + (f" Accepted so far by {accepted}." if accepted else "")
    )


def _deductions(notes: NegotiationKnowledge) -> Iterator[str]:
    """Yield what the rule of the deal says about the values of the others."""
    yield (
        f"What follows from the rules ({pluralize(notes.world_count(), 'possibility')}, equally "
        "likely; offers and messages prove nothing):"
    )
    for player, name in enumerate(notes.game.seat_names):
        if player == notes.player:
            continue
        # Values of one player, weighted by the worlds in which they occur.
        vectors, means = notes.marginal(player), notes.mean_values(player)
        ranges = [
            f"{item} {min(column)} to {max(column)}"
            for item, column in zip(SINGULAR, zip(*vectors, strict=True), strict=True)
        ]
        yield f"- worth to {name}: {', '.join(ranges)}; on average {values_text(means)}"
        if notes.offer:
            share = notes.offer[player]
            # The worth is linear in the values, so its mean is the worth at the mean values.
            points, mean = [worth(share, values) for values in vectors], worth(share, means)
            yield (
                f"- the offer is worth {min(points)} to {max(points)} to {name}, {mean:.1f} on "
                "average"
            )


class NegotiationText(GameText):
    """Texts of the negotiation."""

    game: Negotiation
    notes_type = NegotiationKnowledge

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
                "you. You do not know what the items are worth to the others."
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
        options, players = game.options, game.num_players
        if players == 2:
            offer = "how many books, hats and balls you keep; the other player gets the rest"
            accepted = "When the other player accepts it"
        else:
            offer = (
                "how many books, hats and balls you keep and how many the next player gets (Player "
                "0 comes after Player 2); the third player gets the rest"
            )
            accepted = "When both other players, one after the other, have accepted the same offer"
        lines = [
            f"Negotiation, {players} players. On the table lie 5 to 7 items: books, hats and "
            "balls, at least one of each. What one book, hat or ball is worth is different for "
            "each player and known to this player only. All items together are worth "
            f"{TOTAL_VALUE} points to each player. Each type is worth something to at least one "
            "player, and some type to at least "
            f"two{'.' if players == 2 else ', and some division gives points to all.'}",
            "In turn, Player 0 first, a player makes an offer or accepts the offer on the table. "
            f"An offer says {offer}. A new offer replaces the one before. {accepted}, the game "
            "ends and each player scores what its items are worth to itself.",
            f"There are {options.turns} turns in all. An offer can be made only while enough turns "
            "are left to accept it; after that you accept or reject the last one, and to reject it "
            "ends the game. Without an agreement everybody scores 0.",
        ]
        if options.walk_away:
            lines.append(
                "In its turn a player may also walk away: the game ends without an agreement, and "
                f"each player scores {pluralize(options.walk_away, 'point')}."
            )
        if options.talk:
            lines.append(
                "Once in each of your turns, before your action, you may send a message that all "
                "players read. Messages bind no player and need not be true."
            )
        if game.actions.statements:
            to = " to Player NUMBER" if players == 3 else ""
            leave = "|walk away" if options.walk_away else ""
            lines.append(
                "Statements: claim ITEM VALUE (what one is worth to you) | promise COUNT ITEM"
                f"{to} (so many or more, in your next offer) | promise accept for COUNT ITEM | "
                f"promise accept|reject{leave}."
            )
            lines.append(
                f"A message is a statement alone, or TEXT with up to {MOST_STATEMENTS} statements "
                "in square brackets: say [claim hat 3] [promise accept for 2 hats] TEXT."
            )
        lines.append("Only your own points count: score as many as you can.")
        lines.append(_notation(game))
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
        notes = observation.notes
        assert isinstance(notes, NegotiationKnowledge)
        if level != "events" and notes.own:
            yield from _offer_lines(notes)
        if level == "deductions" and notes.own:
            yield from _deductions(notes)
        legal = observation.legal_actions
        if not legal:
            return
        # A grammar replaces the list of up to 360 offers.
        forms = []
        if legal.of(ProposeDivision):
            keep = "keep BOOKS HATS BALLS"
            forms.append(keep if self.game.num_players == 2 else f"{keep} give BOOKS HATS BALLS")
        forms += [str(a) for a in legal if not isinstance(a, ProposeDivision | Statement)]
        statement = "STATEMENT | " if legal.of(ClaimValue) else ""
        talk = f" Before it, if you like: {statement}{Say.notation()}." if legal.speech else ""
        yield f"Your action: {' | '.join(forms)}.{talk}"

    def summarise(self, observation: Observation, level: TextLevel, forget: int) -> str:
        """Return the situation without the first `forget` events; items, values and offer stay."""
        lines = [f"{self._introduction(observation)} {self.omission_notice}"]
        lines += [
            self.narrate(event)
            for event in observation.events[:forget]
            if isinstance(event, ItemsDealt | ValuesDealt)
        ]
        lines += [self.narrate(event) for event in observation.events_since(forget)]
        # The notes hold the offer on the table, which may be among the omitted events.
        lines += self.situation(observation, "notes" if level == "events" else level)
        return "\n".join(lines)


ANSWERS = {"accept": "accepts", "reject": "rejects the last offer", "walk away": "walks away"}
SEAT_TONES: tuple[Tone, ...] = ("seat0", "seat1", "seat2")


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
        return Tabletop((items, *players, *self._points(), *self._offers()), caption)

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
        notes, names, players = self.notes, self.game.seat_names, self.game.num_players
        if not notes.own:
            return
        share = notes.offer[notes.player] if notes.offer else notes.counts
        steppers = [
            Stepper(f"{item} for you" if players > 2 else item, count, number, value)
            for item, count, number, value in zip(
                ITEMS, notes.counts, share, notes.own, strict=True
            )
        ]
        action, note = "keep {} {} {}", "What you keep; the others get the rest."
        if players == 3:
            action += " give {} {} {}"
            note = "What you keep, and what the next player gets."
            following = names[(notes.player + 1) % players]
            steppers += [
                Stepper(f"{item} for {following}", count)
                for item, count in zip(ITEMS, notes.counts, strict=True)
            ]
        yield Offer(action, tuple(steppers), note, own=len(ITEMS))


def _row(name: str, numbers: Triple, tone: Tone) -> TileRow:
    return TileRow(tuple(Tile(str(number), tone) for number in numbers), name)
