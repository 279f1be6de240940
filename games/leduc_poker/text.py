"""Texts of Leduc hold'em for models and people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from arena import (
    Card,
    Event,
    GameText,
    Observation,
    Panel,
    Player,
    Players,
    PlayGuide,
    Tabletop,
    TextLevel,
    Tile,
    TileRow,
    Tone,
    Track,
    Tracks,
)
from arena.core.observation import NotesView
from arena.core.text import listed, per_cent, pluralize
from games.leduc_poker.knowledge import LeducKnowledge
from games.leduc_poker.notes import LeducNotes
from games.leduc_poker.rules import (
    COPIES,
    MOVES,
    RAISES,
    BoardCardDealt,
    HoleCardDealt,
    LeducMoved,
    LeducPoker,
    LeducShowdown,
    winners,
)

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def _rules(game: LeducPoker) -> str:
    """Return the rules, with the numbers of this game."""
    players, deck, two = game.num_players, game.deck, game.num_players == 2
    size = len(deck) * COPIES
    cards = listed([f"two {'Sixes' if card == 'Six' else f'{card}s'}" for card in deck])
    raises = "one raise" if game.options.raises == 1 else f"{NUMBERS[game.options.raises]} raises"
    first, second = RAISES
    begins = "" if two else ", or the next player who has not folded"
    fold = "gives the pot to the other player" if two else "gives up the hand"
    last = "" if two else " The last player who has not folded wins the pot."
    matched = "the other player" if two else "the highest bet"
    ends = (
        "A round ends with a call, but the first player's call without a raise leaves the other "
        "one to move."
        if two
        else "A round ends when all players left have called the last raise, or all have checked."
    )
    shown = "both cards are shown" if two else "the cards of all players left are shown"
    return (
        f"Leduc hold'em, {NUMBERS[players]} players. The deck has "
        f"{NUMBERS[size] if size < len(NUMBERS) else size} cards: {cards}. "
        f"{'Both put' if two else 'Each puts'} one chip into the pot and "
        f"{'are' if two else 'is'} dealt one card{' each' if two else ''}, face down. A round of "
        "betting follows. Then one card of the deck is dealt face up to the board, and a second "
        f"round of betting follows. Player 0 begins each round{begins}. Fold {fold}; it is allowed "
        f"only after a raise.{last} Call matches the chips of {matched}; if there is no raise to "
        f"match, it costs nothing (a check). Raise matches them and adds {first} chips in the "
        f"first round, {second} in the second; each round has at most {raises}, of "
        f"{'both' if two else 'all'} players together. {ends} After the second round {shown}: a "
        "card of the same rank as the board card, a pair, wins; else the higher rank "
        f"({', '.join(deck)}) wins; equal ranks share the pot. Your return is the number of chips "
        "that you win or lose.\n"
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


def _deductions(notes: LeducKnowledge) -> Iterator[str]:
    """Yield the exact probabilities, which count cards and ignore what moves suggest."""
    two = notes.game.num_players == 2
    # Without a showdown all other cards are equally unknown: one list is that of each player.
    other = (notes.player + 1) % notes.game.num_players
    chances = notes.probabilities(other)
    cards = ", ".join(f"{card} {per_cent(p)}" for card, p in chances.items())
    showdown = notes.showdown()
    yield f"By the unseen cards alone, {'the' if two else 'each'} other player has: {cards}."
    rivals = "" if two else " of all players left"
    lose = max(0.0, 1 - showdown.win - showdown.tie)
    yield (
        f"At a showdown{rivals} you would win with {per_cent(showdown.win)}, tie with "
        f"{per_cent(showdown.tie)} and lose with {per_cent(lose)}."
    )
    price = notes.betting.price
    if price:
        # A call of c chips into a pot of p chips: share * (p + c) >= c.
        needed = price / (notes.betting.pot + price)
        yield (
            f"If no raise follows, a call pays if your expected share of the pot is above "
            f"{per_cent(needed)}; it is {per_cent(showdown.share)}."
        )


class LeducText(GameText):
    """Texts of Leduc hold'em."""

    game: LeducPoker
    notes_type = LeducKnowledge

    def synonyms(self) -> Mapping[str, str]:
        return {"check": "call", "match": "call", "bet": "raise", "reraise": "raise"}

    def guide(self) -> PlayGuide:
        return PlayGuide(
            goal=(
                "Win chips with the better hand, or by raises that the other players do not call."
            ),
            turn=(
                "Call the present bet (if there is none, this is a check), raise it, or fold. "
                "There are two rounds; before the second one a card is turned up for all."
            ),
            end=(
                "After the second round the hands are shown. A pair with the open card wins, "
                "else the higher rank. If all others fold, you take the pot at once."
            ),
            example=(
                "You hold a Queen and the open card is a Queen: a pair, which no other hand "
                "beats. A raise now costs the others four chips if they want to see it."
            ),
        )

    def rules(self) -> str:
        return _rules(self.game)

    def narrate(self, event: Event) -> str:
        """Return one event as a sentence."""
        game = self.game
        names = game.seat_names
        match event:
            case HoleCardDealt(player, card):
                return f"{names[player]} is dealt the {card}."
            case BoardCardDealt(card):
                return f"The board card is the {card}."
            case LeducMoved(player, move, chips):
                if not chips:
                    return f"{names[player]} {'folds' if move == 'fold' else 'checks'}."
                return f"{names[player]} {move}s: {chips} chips."
            case LeducShowdown(cards):
                shown = [(name, card) for name, card in zip(names, cards, strict=True) if card]
                (first, card), *rest = shown
                others = ", ".join(f"{name} the {each}" for name, each in rest)
                return f"{first} shows the {card}, {others}."
            case _:
                raise TypeError(f"{event!r} is not an event of Leduc hold'em")

    def situation(self, observation: Observation, level: TextLevel) -> Iterator[str]:
        """Yield the lines after the events; notes help with decisions, so they need one to make."""
        notes: LeducKnowledge = observation.notes
        if not observation.legal_actions:
            return
        # The notes repeat what the events have shown, for readers that lose track.
        if level != "events":
            yield _notes(notes)
        if level == "deductions":
            yield from _deductions(notes)
        yield "Your actions: " + " | ".join(map(str, observation.legal_actions))


# Table


def _in_words(moves: str) -> Iterator[str]:
    """Yield the moves of a round; before the first raise there is nothing to call."""
    for number, move in enumerate(moves):
        is_check = move == "c" and "r" not in moves[:number]
        yield "check" if is_check else str(MOVES[move])


class LeducView(NotesView):
    """The table as one viewer sees it; only cards that the viewer has seen are open."""

    game: LeducPoker
    notes: LeducNotes
    notes_type = LeducNotes

    def tabletop(self) -> Tabletop:
        """Return the table now: the board, the pot, and all hands with their chips and moves."""
        notes = self.notes
        pot = Tracks((Track("pot", notes.betting.pot, unit="chips"),))
        players = Players(tuple(map(self._player, range(self.game.num_players))), ("card", "chips"))
        lines = tuple(
            f"Round {number}: {', '.join(_in_words(moves))}"
            for number, moves in enumerate(notes.betting.rounds, 1)
            if moves
        )
        moves = (Panel("Moves", lines=lines),) if lines else ()
        row = TileRow((_card(notes.board, "accent"),), "Board") if notes.board else None
        board = (Panel("", (row,)),) if row else ()
        wording = {} if notes.betting.price else {"call": "check"}
        return Tabletop((pot, *board, players, *moves), self._caption(), wording=wording)

    def _player(self, seat: int) -> Player:
        notes = self.notes
        card = notes.cards.get(seat)
        # The first event of every viewer is the deal of a card.
        shown: Tile = Card("?", "hidden") if notes.cards else Tile("")
        if card is not None:
            shown = _card(card, "good" if card == notes.board else "plain")
        chips = Tile(pluralize(notes.betting.chips[seat], "chip"), "muted", "in the pot")
        is_out = seat not in notes.betting.left
        return Player(self.game.seat_names[seat], seat, (shown, chips), is_out=is_out)

    def _caption(self) -> str:
        notes, names = self.notes, self.game.seat_names
        left = notes.betting.left
        if len(left) == 1:
            return f"{notes.betting.folds(names)}; {names[left[0]]} takes the pot."
        if not notes.is_shown:
            return ""
        cards = [notes.cards.get(seat, "") for seat in range(len(names))]
        best = winners(left, cards, notes.board)
        if len(best) > 1:
            return "Equal hands share the pot."
        return f"{names[best[0]]} takes the pot of {notes.betting.pot} chips."


def _card(card: str, tone: Tone) -> Card:
    return Card(card, tone, face=card[0], note=card)
