"""Texts of Hanabi (rules, narration, situation of a player), and its table as people see it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal

from arena import (
    Card,
    Event,
    FirstGame,
    GameText,
    Observation,
    Panel,
    PlayGuide,
    Tabletop,
    TextLevel,
    TileRow,
    Track,
    Tracks,
)
from arena.core.observation import NotesView
from arena.core.text import pluralize
from arena.core.view import Tone
from games.hanabi.deck import Colour, HanabiDeck, Kinds
from games.hanabi.knowledge import CERTAIN, HanabiKnowledge
from games.hanabi.notes import HanabiNotes, HeldCard
from games.hanabi.rules import (
    CardDiscarded,
    CardDrawn,
    CardPlayed,
    DiscardSlot,
    Hanabi,
    HandsDealt,
    HandSeen,
    Hint,
    HintGiven,
    UnseenCardDrawn,
)

# The partner holds one 1; the person holds three of different colours after the first discard.
FIRST_GAME = FirstGame(
    {"players": 2},
    (
        (
            "hint",
            "You see your partner's cards, and not your own, which are in the last row. Every "
            "firework begins with a 1, and your partner holds one: click it, then “hint … rank 1”. "
            "Cards that a hint would point out are marked like its button.",
        ),
        (
            "discard",
            "A partner who is told of a 1 plays it. A hint costs a token, and a discard gives one "
            "back. You know nothing of your cards yet: click slot 1, the oldest, then “discard”.",
        ),
        (
            "play",
            "Look at your own cards: what hints say about them stays on them. A 1 fits unless its "
            "firework has begun: click one, then “play”. A card that does not fit costs one of "
            "three lives.",
        ),
        (
            "hint",
            "Look for a card of your partner's that continues a firework, and tell its colour or "
            "its rank. A colour and a rank together make it certain.",
        ),
        (
            "discard",
            "With few tokens left, discard the oldest card that no hint has named. There is one 5 "
            "of each colour only, so hints to keep a 5 are worth a token, too.",
        ),
    ),
    seed=8,
    level="fair",
)


def _deck_left(number: int) -> str:
    # The last round begins when the last card is drawn.
    if number:
        return f"{pluralize(number, 'card')} {'is' if number == 1 else 'are'} left in the deck."
    return "The deck is empty: each player has one more turn."


def _tokens_left(number: int) -> str:
    return f"{pluralize(number, 'hint token')} left."


def _words(deck: HanabiDeck, card: str) -> str:
    """Return the colour and the rank of a card in words: `green 2`."""
    return f"{deck.colour_name(card)} {deck.rank(card)}"


@cache
def hint_text(deck: HanabiDeck, kinds: Kinds) -> str:
    """Return what the hints say about a card: its colour and rank, or what they exclude.

    Args:
        deck: The deck of the game.
        kinds: Kinds that the card may have by the hints.
    """
    colours, ranks = deck.names_in(kinds)
    both = ((colours, deck.colour_names, ""), (ranks, range(1, deck.ranks + 1), "rank "))
    parts = list[str]()
    for possible, every, word in both:
        # The excluded names are the shorter list after one or two hints.
        excluded = [str(name) for name in every if name not in possible]
        if len(possible) == 1:
            parts.append(f"{word}{possible[0]}")
        elif excluded:
            parts.append(f"not {word}{'/'.join(excluded)}")
    return ", ".join(parts) or "unknown"


def _own_posterior(notes: HanabiKnowledge) -> Iterator[str]:
    """Yield for each own slot the possible cards, and the probabilities that matter."""
    yield "What follows about your hand, by counting the cards that you do not see:"
    now = notes.prospects
    # The three questions of every turn: play it, discard it, or keep it.
    facts = (
        ("fits now", notes.chances(now.fitting)),
        ("can no longer score", notes.chances(now.useless)),
        ("last copy of a needed card", notes.chances(now.last_copies)),
    )
    for slot, row in enumerate(notes.posterior.marginals.tolist()):
        texts = ", ".join(f"{name} {_percent(chances[slot])}" for name, chances in facts)
        yield f"- slot {slot + 1}: {_candidates(notes.game, row)}; {texts}"


def _candidates(game: Hanabi, row: list[float]) -> str:
    """Return the possible cards of a slot, the likeliest first; long lists without figures."""
    chances = dict(zip(game.deck.kinds, row, strict=True))
    # Exact zeros: impossible kinds have weight 0 in whole numbers.
    possible = [card for card, chance in chances.items() if chance > 0]
    excluded = [card for card, chance in chances.items() if chance <= 0]
    if len(possible) == 1:
        return f"{possible[0]} for certain"
    if len(possible) <= 8:
        # A stable sort: equal ones stay in the order of the deck.
        possible.sort(key=lambda card: -chances[card])
        return ", ".join(f"{card} {_percent(chances[card])}" for card in possible)
    # A list of more than eight cards is nearly even, and its figures would only cost tokens.
    if len(excluded) > 8:
        return f"any of {', '.join(possible)}"
    return f"any card but {', '.join(excluded)}" if excluded else "any card"


def _percent(chance: float) -> str:
    """Return a probability in per cent; only certainty is written as 0 % or 100 %."""
    if chance > CERTAIN or chance < 1 - CERTAIN:
        return f"{round(chance) * 100} %"
    return f"{min(99, max(1, round(chance * 100)))} %"


class HanabiText(GameText):
    """Texts of Hanabi."""

    game: Hanabi
    notes_type = HanabiKnowledge

    def synonyms(self) -> dict[str, str]:
        """Return other words for the game's own, see `Game.synonyms`."""
        game = self.game
        words = {**dict.fromkeys(("clue", "tell", "reveal"), "hint"), "position": "slot"}
        # "play card 2" is covered too, because a reader skips the word "card".
        for slot in range(1, game.hand_size + 1):
            words |= {f"{verb} {slot}": f"{verb} slot {slot}" for verb in ("play", "discard")}
        for colour in game.deck.colour_names:
            for phrase in (f"color {colour}", f"about {colour}", f"{colour} cards"):
                words[phrase] = colour
        for rank in range(1, game.deck.ranks + 1):
            for phrase in (f"number {rank}", f"{rank}s", f"about rank {rank}", f"about {rank}s"):
                words[phrase] = f"rank {rank}"
            for name in game.seat_names:
                words[f"{name} {rank}"] = f"{name} rank {rank}"
        return words

    def guide(self) -> PlayGuide:
        return PlayGuide(
            goal=(
                "Build all fireworks together: in each colour the ranks 1, 2, 3 and so on. Each"
                " card in a firework is a point for the team."
            ),
            turn=(
                "You see all cards but your own. Give a hint (it costs a token) about one "
                "colour or one rank in another hand, play one of your cards, or discard one to "
                "get a token back, unless all are there."
            ),
            end=(
                "A card that does not fit costs a life; without lives the game is over, and "
                "the score is 0. It also ends when all fireworks are complete, or one "
                "round after the last card was drawn."
            ),
            example=(
                'No firework has begun, and you are told "rank 1" about two of your cards. Both'
                " can be played, unless they have the same colour: play one of them."
            ),
            first_game=FIRST_GAME,
        )

    def rules(self) -> str:
        """Return the rules for a player who does not know the game."""
        game = self.game
        deck, options = game.deck, game.options
        # All numbers come from the options, so that the rules are right for every variant.
        highest = deck.ranks
        letters = ", ".join(f"{colour[0].upper()} {colour}" for colour in deck.colour_names)
        copies = ", ".join(
            f"{number} of rank {rank}" for rank, number in enumerate(deck.copies[:highest], 1)
        )
        tokens = "its token" if options.hint_tokens == 1 else f"all {options.hint_tokens} tokens"
        lines = [
            f"Hanabi, {game.num_players} players ({', '.join(game.seat_names)}) who play together "
            "and get the same score. You see the cards of all other players, but not your own.",
            f"Deck: {deck.size} cards. Colours: {letters}. Each colour has {copies}. R1 means red, "
            "rank 1.",
            f"For each colour the team builds a firework: rank 1 first, then 2, and so on up to "
            f"{highest}. Each card in a firework is worth 1 point; {len(deck.kinds)} is the most.",
            f"Each hand has {pluralize(game.hand_size, 'slot')}. Slot 1 holds the oldest card. "
            "When a card leaves a hand, the newer cards move down by one slot, and the new card "
            "gets the highest slot.",
            "On your turn do one of three things.",
            "Play a slot: if the card is the next rank of its colour it is added to the firework; "
            "otherwise it is discarded and the team loses a life. Then you draw a card. A complete "
            "firework gives a hint token back, if one is spent.",
            "Discard a slot: the card is out of the game, the team gets a hint token back, and you "
            f"draw a card. Not allowed while the team has {tokens}.",
            "Hint: spend a hint token to name one colour or one rank to another player. All cards "
            "of that colour or rank in its hand are pointed out to everybody, so the other cards "
            "do not have it. The hint must fit at least one card.",
            f"The game starts with {pluralize(options.hint_tokens, 'hint token')} and "
            f"{options.lives} {'life' if options.lives == 1 else 'lives'}. It ends when all "
            "lives are lost (the score is 0), when all fireworks are complete, or when the deck is "
            "empty and each player has had one more turn.",
            "Your action: play slot SLOT | discard slot SLOT | hint PLAYER COLOUR | hint PLAYER "
            f"rank RANK. For example: hint Player 1 {deck.colour_names[0]}",
        ]
        return "\n".join(lines)

    def narrate(self, event: Event) -> str:  # noqa: PLR0911 - one case a kind.
        """Return one event as a sentence."""
        deck, names = self.game.deck, self.game.seat_names
        match event:
            case HandsDealt(size, left):
                return f"Each hand has {pluralize(size, 'card')}. {_deck_left(left)}"
            case HandSeen(player, cards):
                return f"{names[player]} holds {', '.join(cards)} (slot 1 first)."
            case CardDrawn(player, card, left):
                return f"{names[player]} draws {card}. {_deck_left(left)}"
            case UnseenCardDrawn(player, left):
                return f"{names[player]} draws a card without seeing it. {_deck_left(left)}"
            case CardPlayed(player, slot, card, fits, lives, tokens):
                result = "it fits."
                if not fits:
                    have = {0: "no life is", 1: "1 life is"}.get(lives, f"{lives} lives are")
                    result = f"it does not fit; {have} left."
                elif deck.rank(card) == deck.ranks:
                    firework = f"the {deck.colour_name(card)} firework"
                    result = f"it fits and completes {firework}. {_tokens_left(tokens)}"
                return f"{names[player]} plays slot {slot}, {card}: {result}"
            case CardDiscarded(player, slot, card, tokens):
                return f"{names[player]} discards slot {slot}, {card}. {_tokens_left(tokens)}"
            case HintGiven(player, target, name, slots, tokens):
                named = f"{'slot' if len(slots) == 1 else 'slots'} {', '.join(map(str, slots))}"
                hint = f"{names[player]} hints {names[target]} {name}"
                return f"{hint}: {named}. {_tokens_left(tokens)}"
            case _:
                raise TypeError(f"{event!r} is not an event of Hanabi")

    def for_people(self, text: str) -> str:
        """Return a text with "green 2" in place of "G2"."""
        words = {kind: _words(self.game.deck, kind) for kind in self.game.deck.kinds}
        return re.sub(rf"\b({'|'.join(words)})\b", lambda found: words[found[1]], text)

    def situation(self, observation: Observation, level: TextLevel) -> Iterator[str]:
        """Yield the table as it is now, and the legal actions."""
        notes: HanabiKnowledge = observation.notes
        # Nothing is known before the deal.
        if level != "events" and any(notes.hands):
            yield from self._table(notes)
            if level == "deductions":
                yield from _own_posterior(notes)
            else:
                yield f"- your hand, by hints: {self._hand(notes.hands[notes.player])}"
        yield from super().situation(observation, level)

    def _table(self, notes: HanabiNotes) -> Iterator[str]:
        """Yield what all players see, and the other hands."""
        game, deck, options = self.game, self.game.deck, self.game.options
        heights = zip(deck.colour_names, notes.fireworks, strict=True)
        fireworks = ", ".join(f"{name} {height}" for name, height in heights)
        yield "The table now:"
        yield f"- fireworks: {fireworks} (score {notes.score} of {len(deck.kinds)})"
        yield (
            f"- {notes.tokens} of {options.hint_tokens} hint tokens; lives: {notes.lives} of "
            f"{options.lives}; cards in the deck: {notes.deck}"
        )
        # Sorted, because the order of discards does not matter and equal cards are easy to count.
        discards = sorted(notes.discards, key=deck.kinds.index)
        yield f"- discarded: {', '.join(discards) or 'none'}"
        fitting = [card for n, card in enumerate(deck.kinds) if notes.prospects.fitting >> n & 1]
        yield f"- next to play: {', '.join(fitting) or 'none'}"
        for player in game.others[notes.player]:
            # What others know of their cards decides which hint helps them.
            hand = self._hand(notes.hands[player])
            yield f"- hand of {game.seat_names[player]}, and what hints say: {hand}"

    def _hand(self, hand: tuple[HeldCard, ...]) -> str:
        """Return the cards of a hand as far as they are seen, and what hints say about them."""
        words = [(held.card, hint_text(self.game.deck, held.kinds)) for held in hand]
        slots = enumerate((f"{card} ({hints})" if card else hints for card, hints in words), 1)
        return "; ".join(f"{slot}: {text}" for slot, text in slots) or "empty"


# Table


PROMPTS = {
    "play": "Click one of your cards to play or discard it.",
    "hint": "Click a card of another player to give a hint.",
}
SYMBOLS = {"red": "▲", "yellow": "★", "green": "●", "white": "◆", "blue": "■", "": ""}
"""Sign of a card, by the name of its colour. Not every reader sees colours."""


class HanabiView(NotesView):
    """The table as one viewer sees it.

    A card that the viewer does not see shows what the hints say: `R?` is red, `?3` has rank 3. A
    card that it sees shows the same in brackets, if a hint has named it.

    A click on an own card plays or discards it; one on another player's card gives a hint.
    """

    game: Hanabi
    notes: HanabiNotes
    notes_type = HanabiNotes

    def tabletop(self) -> Tabletop:
        notes, options, deck = self.notes, self.game.options, self.game.deck
        numbers = (
            Track("score", notes.score, len(deck.kinds)),
            Track("hint tokens", notes.tokens, options.hint_tokens, "●"),
            Track("lives", notes.lives, options.lives, "♥"),
            Track("cards in the deck", notes.deck),
        )
        fireworks = [TileRow(tuple(map(self._firework, deck.colour_names, notes.fireworks)))]
        if notes.discards:
            fireworks.append(TileRow(tuple(map(self._discards, deck.colour_names)), "Discarded"))
        # The viewer's own hand is the last, as if it sat there.
        seats = sorted(range(self.game.num_players), key=lambda seat: seat == self.seat)
        hands = tuple(map(self._hand, seats))
        return Tabletop(
            (Tracks(numbers), Panel("Fireworks", tuple(fireworks)), Panel("Hands", hands)),
            blocked=dict(self._blocked()),
            prompts=PROMPTS,
        )

    def _blocked(self) -> Iterator[tuple[str, str]]:
        """Yield the moves that the hint tokens forbid the viewer, and why."""
        notes, seat = self.notes, self.seat
        if seat is None:
            return
        if notes.tokens == self.game.options.hint_tokens:
            all_of = f"all {notes.tokens} hint tokens" if notes.tokens > 1 else "the hint token"
            for slot in range(1, len(notes.hands[seat]) + 1):
                yield str(DiscardSlot(slot)), f"You have {all_of}, so you cannot discard."
        elif not notes.tokens:
            for target in self.game.others[seat]:
                yield str(Hint(target, "rank 1")), "You have no hint token, so you cannot hint."

    def _discards(self, name: Colour) -> Card:
        """Return the ranks of a colour that are out of the game, such as R113."""
        # They show which ranks can still come. A page has them in the columns of the fireworks.
        letter = name[0].upper()
        ranks = sorted(card[1:] for card in self.notes.discards if card[0] == letter)
        label, face = letter + "".join(ranks) if ranks else "", " ".join(ranks)
        return Card(label, "muted", f"{name} {face}", face=face, look="small", colour=name)

    def _firework(self, name: Colour, height: int) -> Card:
        label, ranks = f"{name[0].upper()}{height}", self.game.deck.ranks
        tone: Tone = "good" if height == ranks else "plain" if height else "muted"
        title, face = f"{name}: {height} of {ranks}", str(height or "–")
        return Card(label, tone, title, face=face, symbol=SYMBOLS[name], colour=name)

    def _hand(self, seat: int) -> TileRow:
        cards = enumerate(self.notes.hands[seat], 1)
        tiles = tuple(self._card(seat, slot, held) for slot, held in cards)
        return TileRow(tiles, self.game.seat_names[seat], seat=seat)

    def _card(self, seat: int, slot: int, held: HeldCard) -> Card:
        deck, card = self.game.deck, held.card
        # The colour and the rank that hints have named. What they exclude is in the title.
        colours, ranks = deck.names_in(held.kinds)
        colour: Colour | Literal[""] = colours[0] if len(colours) == 1 else ""
        rank = str(ranks[0]) if len(ranks) == 1 else ""
        mark = (colour[:1].upper() or "?") + (rank or "?")
        title = f"slot {slot}; by hints: {hint_text(deck, held.kinds)}"
        picks: tuple[str, ...] = (f"slot {slot}",) if seat == self.seat else ()
        # The label has to say everything, as the tone is only colour.
        tone: Tone = "hidden"
        label, face, note = mark, mark[1], f"slot {slot}"
        if card is not None:
            known = f"knows {f'{colour} {rank}'.strip() or '?'}"
            label, tone, face = f"{card}({mark})" if held.hinted else card, "plain", card[1:]
            note, title = known if held.hinted else "", f"{_words(deck, card)}, {title}"
            colour = deck.colour_name(card)
            if self.seat is not None:
                picks = tuple(f"hint Player {seat} {hint}" for hint in (colour, f"rank {face}"))
        tone = "accent" if held.hinted else tone
        return Card(
            label, tone, title, picks, face=face, symbol=SYMBOLS[colour], colour=colour, note=note
        )
