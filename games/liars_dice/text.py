"""Texts of liar's dice for models and people."""

from __future__ import annotations

from collections.abc import Iterator

from arena import (
    ActionSet,
    Die,
    Event,
    GameText,
    Observation,
    Panel,
    PlayGuide,
    Tabletop,
    TextLevel,
    Tile,
    TileRow,
)
from arena.core.observation import NotesView
from arena.core.view import Display
from games.liars_dice.knowledge import LiarsDiceKnowledge
from games.liars_dice.notes import LiarsDiceNotes
from games.liars_dice.rules import (
    CHALLENGE,
    NUMBERS,
    BidMade,
    DiceBid,
    DiceRevealed,
    DiceRolled,
    Hand,
    LiarsDice,
    RoundStarted,
    face_name,
)

FEW_RAISES = 6
"""Legal bids that are listed one by one."""
NEGLIGIBLE = 0.005
"""A less probable bid is not listed; it would be written as 0 %."""


def _wild_rule(game: LiarsDice) -> str:
    if game.wild_face is None:
        return "No face is wild."
    wild = face_name(game.wild_face)
    return (
        f"{wild.capitalize()} are wild: they count as every face. A bid of {wild} counts only "
        f"{wild}."
    )


def _ending(game: LiarsDice) -> str:
    if game.options.rounds == "single":
        others = "" if game.num_players == 2 else ", all others 0"
        return f"This ends the game: the loser gets -1, the other one of these two 1{others}."
    return (
        "The loser loses one die. All roll again, and the loser bids first, or the next player if "
        "the loser has no dice left and is out. The last player with dice wins."
    )


def _narrate_challenge(game: LiarsDice, event: DiceRevealed) -> str:
    names, is_single = game.seat_names, game.options.rounds == "single"
    shown = "; ".join(f"{names[s]} {_dice(hand)}" for s, hand in enumerate(event.hands) if hand)
    return (
        f"{names[event.challenger]} challenges. Dice: {shown}. {event.count} "
        f"{count_verb(event.count)} as {face_name(event.face)}, so the bid of {event.bid.claim} is "
        f"{event.verdict}: {names[event.loser]} loses{'' if is_single else ' a die'}."
    )


def count_verb(number: int) -> str:
    """Return the verb for a number of dice: one `counts`, two `count`."""
    return "counts" if number == 1 else "count"


def _dice(hand: Hand) -> str:
    return " ".join(map(str, hand))


def _notes(notes: LiarsDiceKnowledge) -> Iterator[str]:
    hidden = sum(notes.hidden.values())
    yield (
        f"Your dice: {_dice(notes.own)}. Dice on the table: {notes.total}, of which you have not "
        f"seen {hidden}."
    )
    bid = notes.last_bid
    if bid is None:
        return
    own = notes.seen_matches(bid.face)
    line = f"The last bid is {bid.claim}; {own} of your dice {count_verb(own)}."
    # The bid needs this many of the dice that the player has not seen.
    needed = bid.quantity - own
    if needed <= 0:
        line += " It is certainly true."
    elif needed > hidden:
        line += " It is certainly false."
    else:
        others = f"at least {needed} of the {hidden} other dice {count_verb(needed)}"
        line += f" It is true if {'the other die counts' if hidden == 1 else others}."
    yield line


def _deductions(notes: LiarsDiceKnowledge) -> Iterator[str]:
    """Yield the probabilities of the last bid and of the raises, given the own dice."""
    bid, raises = notes.last_bid, notes.raises
    if bid is not None:
        probability = _percent(notes.probability(bid))
        yield f"By your own dice alone, it is true with a probability of {probability}."
    rows = list[str]()
    # A row for each face: higher numbers are less probable, so a row ends at the negligible ones.
    for face in notes.game.faces:
        odds = {bid.quantity: notes.probability(bid) for bid in raises if bid.face == face}
        shown = [f"{number} {_percent(p)}" for number, p in odds.items() if p >= NEGLIGIBLE]
        if shown:
            rows.append(f"{face_name(face)} {', '.join(shown)}")
    if rows:
        yield f"Probabilities of higher bids, by number of dice: {'; '.join(rows)}."
    elif raises:
        yield "No higher bid has a probability of 1 % or more."


def _percent(probability: float) -> str:
    """Return a probability in per cent; only what is certain is written as 0 % or 100 %."""
    if 0 < probability < NEGLIGIBLE:
        return "< 1 %"
    if 1 - NEGLIGIBLE < probability < 1:
        return "> 99 %"
    return f"{100 * probability:.0f} %"


def _actions(legal: ActionSet) -> str:
    """Return the legal actions; of many bids, only their range."""
    bids = legal.of(DiceBid)
    # With five dice each there are 60 bids; a list of them would be most of the text.
    if len(bids) <= FEW_RAISES:
        return "Your actions: " + " | ".join(map(str, legal))
    if CHALLENGE not in legal:
        return f"Your actions: any bid from {bids[0]} to {bids[-1]}"
    return f"Your actions: challenge | any higher bid, from {bids[0]} to {bids[-1]}"


class LiarsDiceText(GameText):
    """Texts of liar's dice."""

    game: LiarsDice
    notes_type = LiarsDiceKnowledge

    def guide(self) -> PlayGuide:
        return PlayGuide(
            goal=(
                "Make bids about all dice on the table that hold when they are challenged, and "
                "challenge those that do not."
            ),
            turn=(
                "You see your own dice only. Make a higher bid than the last one, or challenge "
                'it. "3 fours" claims that at least three dice on the table show a four.'
            ),
            end=(
                "After a challenge all dice are shown. If the claim holds, the challenger loses"
                " the round, else the bidder. Wild dice, where there are any, count as every "
                "face."
            ),
            example=(
                'You have a four and a five and hear "2 fours". One four is yours, so one more '
                'is enough: do not challenge; bid "2 fives" or "3 fours" instead.'
            ),
        )

    def rules(self) -> str:
        """Return the rules and the notation."""
        game = self.game
        # Complete sentences with the numbers of this game: models read nothing else on the rules.
        options, highest = game.options, face_name(game.options.faces)
        dice = "one die" if options.dice == 1 else f"{options.dice} dice"
        # The example is a bid that is legal with any options: one die of the highest face.
        example = f"bid {1 if game.total_dice == 1 else 2} {highest}"
        return (
            f"Liar's dice, {options.players} players. Each secretly rolls {dice} with the faces "
            f"1 to {options.faces}. {_wild_rule(game)} Player 0 begins; the turn passes in the "
            "order of the seats. A bid claims that at least a number of all dice on the table, "
            "your own and those of the others, show a face: 'bid 2 threes' means two or more "
            "threes. The first player must bid. After that, make a higher bid or challenge the "
            "last one. A bid is higher if its number is higher, with any face, or if its number is "
            "the same and its face is higher. A bid of more dice than are on the table is not "
            "allowed. "
            "After a challenge all dice are shown. If at least the claimed number is there, the "
            f"challenger loses; otherwise the bidder loses. {_ending(game)}\n"
            f"Your action: bid NUMBER FACE | challenge. For example: {example}"
        )

    def narrate(self, event: Event) -> str:
        """Return one event as a sentence."""
        game = self.game
        names = game.seat_names
        match event:
            case RoundStarted(number, dice, first):
                counts = ", ".join(f"{names[seat]} {n}" for seat, n in enumerate(dice) if n)
                return f"Round {number}. Dice: {counts}. {names[first]} begins."
            case DiceRolled(player, dice):
                return f"{names[player]} rolls {_dice(dice)}."
            case BidMade(player, quantity, face):
                return f"{names[player]} bids {DiceBid(quantity, face).claim}."
            case DiceRevealed():
                return _narrate_challenge(game, event)
            case _:
                raise TypeError(f"{event!r} is not an event of liar's dice")

    def situation(self, observation: Observation, level: TextLevel) -> Iterator[str]:
        """Yield the lines after the events: notes, deductions and legal actions."""
        notes: LiarsDiceKnowledge = observation.notes
        # Between rounds, and for a seat that is out, there is nothing to note.
        if level != "events" and notes.own and not notes.revealed:
            yield from _notes(notes)
            if level == "deductions":
                yield from _deductions(notes)
        if observation.legal_actions:
            yield _actions(observation.legal_actions)

    def synonyms(self) -> dict[str, str]:
        """Return other ways to write bids, such as `3 5s`, `3x5` and `three fives`."""
        words = dict.fromkeys(("doubt", "liar", "call liar", "dudo", "call bluff"), "challenge")
        words |= {"raise to": "bid", "raise": "bid"}
        # A bid is written in many ways; each of them is replaced by the claim of the action.
        for bid in self.game.bids:
            quantity, face = bid.quantity, bid.face
            # The other number of the face's name, "3 five" and "1 fives", is understood too.
            other = face_name(face, 2 if quantity == 1 else 1)
            forms = [f"{quantity} {face}", f"{quantity} {face}s", f"{quantity}x{face}"]
            forms += [f"{quantity} x {face}", f"{quantity} {other}"]
            if quantity <= len(NUMBERS):
                forms += [f"{NUMBERS[quantity - 1]} {face_name(face, n)}" for n in (1, 2)]
            words |= dict.fromkeys(forms, bid.claim)
        return words


# Table


class LiarsDiceView(NotesView):
    """The table as one viewer sees it; only dice that the viewer has seen are open.

    A bid is chosen by two clicks: the number of dice, and the face.
    """

    game: LiarsDice
    notes: LiarsDiceNotes
    notes_type = LiarsDiceNotes

    def tabletop(self) -> Tabletop:
        """Return the table now: a row of dice for each seat, and the bids of the round."""
        notes = self.notes
        # Older bids are left out.
        lines = tuple(map(self.game.text.narrate, notes.bids[-8:]))
        rows = tuple(self._row(seat) for seat in range(notes.game.num_players))
        bids_so_far = (Panel("Bids", lines=lines),) if lines else ()
        standing = tuple(map(self._standing, notes.bids[-1:]))
        caption = self._caption()
        return Tabletop(
            (*standing, Panel("Dice", rows), *bids_so_far, *self._choices()),
            caption,
            # A page colours the dice that count.
            page_caption=caption.replace(" (*)", ""),
            prompts={"bid": "Click a number and a face to bid."},
        )

    def _standing(self, made: BidMade) -> Display:
        """Return the bid that the next player must raise or challenge."""
        name, title = self.notes.game.seat_names[made.player], face_name(made.face, made.quantity)
        bid = (Tile(f"{made.quantity} ×", "accent"), Die(str(made.face), title=title))
        return Display("Bid on the table", (TileRow(bid, name, seat=made.player),))

    def _choices(self) -> Iterator[Panel]:
        """Yield the numbers and faces of a bid, for a viewer who may bid."""
        notes, game = self.notes, self.notes.game
        if self.seat is None or notes.revealed or not notes.own:
            return
        numbers = (
            Tile(f"{n}", title=f"bid {n}", picks=(f"bid {n}",)) for n in range(1, notes.total + 1)
        )
        faces = (
            Die(f"{face}", title=face_name(face), picks=(face_name(face), face_name(face, 1)))
            for face in game.faces
        )
        yield Panel("Your bid", (TileRow(tuple(numbers), "Number"), TileRow(tuple(faces), "Face")))

    def _row(self, seat: int) -> TileRow:
        notes = self.notes
        hand = notes.hands.get(seat)
        # A hidden hand shows its number of dice, which is public.
        if hand is None:
            tiles: tuple[Die, ...] = (Die("?", "hidden"),) * notes.dice_left[seat]
        else:
            tiles = tuple(map(self._tile, hand))
        return TileRow(tiles, notes.game.seat_names[seat], "" if tiles else "out", seat)

    def _tile(self, die: int) -> Die:
        """Return an open die; after a challenge, those that count are marked."""
        end, game = self.notes.revealed, self.notes.game
        wild = " (wild)" if die == game.wild_face else ""
        title = f"a {face_name(die, 1)}{wild}"
        if end is None:
            return Die(str(die), "accent" if wild else "plain", title)
        counts = game.matches((die,), end.face)
        return Die(f"{die}*" if counts else str(die), "good" if counts else "muted", title)

    def _caption(self) -> str:
        notes = self.notes
        names, end = notes.game.seat_names, notes.revealed
        if end:
            # The star of the tiles is explained here, because a text has no colours.
            return (
                f"{names[end.challenger]} challenged {end.bid.claim}: {end.count} "
                f"{count_verb(end.count)} (*). {names[end.loser]} loses."
            )
        wild = notes.game.wild_face
        rule = f" {face_name(wild).capitalize()} are wild." if wild else ""
        return f"Round {notes.round}: {notes.total} dice.{rule}" if notes.round else ""
