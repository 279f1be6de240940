"""Texts of Hanabi: rules, narration of events, situation of a player."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np

from arena import Event, FirstGame, GameText, Observation, PlayGuide, TextLevel
from arena.core.text import pluralize
from games.hanabi.game import Hanabi
from games.hanabi.moves import (
    CardDiscarded,
    CardDrawn,
    CardPlayed,
    HanabiDeck,
    HandsDealt,
    HandSeen,
    HintGiven,
    Kinds,
    UnseenCardDrawn,
)
from games.hanabi.posterior import CERTAIN
from games.hanabi.table import HanabiNotes, HanabiTable

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
)


def _deck_left(number: int) -> str:
    # The last round begins when the last card is drawn.
    if number:
        return f"{number} {'card is' if number == 1 else 'cards are'} left in the deck."
    return "The deck is empty: each player has one more turn."


def _result(game: Hanabi, played: CardPlayed) -> str:
    """Return the result of a play in words."""
    deck, lives = game.deck, played.lives
    if not played.fits:
        left = "no life is" if not lives else "1 life is" if lives == 1 else f"{lives} lives are"
        return f"it does not fit; {left} left."
    if deck.rank(played.card) < deck.ranks:
        return "it fits."
    firework = deck.colour_names[deck.colour(played.card)]
    return f"it fits and completes the {firework} firework. {_tokens(played.tokens)}"


def _tokens(number: int) -> str:
    return f"{pluralize(number, 'hint token')} left."


def table_lines(table: HanabiTable, level: TextLevel) -> Iterator[str]:
    """Yield the table: what all players see, the other hands, and the own hand."""
    # Nothing is known before the deal.
    if level == "events" or not any(table.hands):
        return
    game = table.game
    names, highest = game.deck.colour_names, len(game.deck.kinds)
    fireworks = ", ".join(f"{n} {rank}" for n, rank in zip(names, table.fireworks, strict=True))
    yield "The table now:"
    yield f"- fireworks: {fireworks} (score {table.score} of {highest})"
    yield (
        f"- {table.tokens} of {game.options.hint_tokens} hint tokens; lives: {table.lives} of "
        f"{game.options.lives}; cards in the deck: {table.deck}"
    )
    # Sorted, because the order of discards does not matter and equal cards are easy to count.
    order = game.deck.index
    yield f"- discarded: {', '.join(sorted(table.discards, key=order.__getitem__)) or 'none'}"
    yield f"- next to play: {', '.join(_next_cards(table)) or 'none'}"
    for player in game.others(table.viewer or 0):
        # What others know of their cards decides which hint helps them.
        cards = "; ".join(
            f"{slot}: {held.card} ({hint_text(game.deck, held.kinds)})"
            for slot, held in enumerate(table.hands[player], 1)
        )
        yield f"- hand of {game.seat_names[player]}, and what hints say: {cards or 'empty'}"
    if level == "deductions":
        yield from _own_posterior(table)
    else:
        own = "; ".join(
            f"{slot}: {hint_text(game.deck, held.kinds)}"
            for slot, held in enumerate(table.hands[table.viewer or 0], 1)
        )
        yield f"- your hand, by hints: {own or 'empty'}"


def _next_cards(table: HanabiTable) -> list[str]:
    kinds = np.array(table.game.deck.kinds)
    cards: list[str] = kinds[table.playable & np.array(table.needed)].tolist()
    return cards


@cache
def hint_text(deck: HanabiDeck, kinds: Kinds) -> str:
    """Return what the hints say about a card: its colour and rank, or what they exclude.

    Args:
        deck: The deck of the game.
        kinds: Kinds that the card may have by the hints.
    """
    names, colours, ranks = deck.colour_names, deck.colours_of(kinds), deck.ranks_of(kinds)
    parts = list[str]()
    if len(colours) == 1:
        parts += [names[colour] for colour in colours]
    # A hint of a colour leaves that colour and the multicolour.
    elif deck.rainbow and len(colours) == 2 < deck.colours - 1:
        parts.append(" or ".join(names[colour] for colour in colours))
    # The excluded colours are the shorter list after one or two hints.
    elif len(colours) < deck.colours:
        gone = [name for number, name in enumerate(names) if number not in colours]
        parts.append(f"not {'/'.join(gone)}")
    if len(ranks) == 1:
        parts += [f"rank {rank}" for rank in ranks]
    elif len(ranks) < deck.ranks:
        missing = [str(r) for r in range(1, deck.ranks + 1) if r not in ranks]
        parts.append(f"not rank {'/'.join(missing)}")
    return ", ".join(parts) or "unknown"


def _own_posterior(table: HanabiTable) -> Iterator[str]:
    """Yield for each own slot the possible cards, and the probabilities that matter."""
    game = table.game
    yield "What follows about your hand, by counting the cards that you do not see:"
    marginals = table.posterior().marginals()
    useless = ~np.array(table.needed)
    for slot, row in enumerate(marginals, 1):
        # The three questions of every turn: play it, discard it, or keep it.
        facts = (
            ("fits now", float(row @ table.playable)),
            ("can no longer score", float(row @ useless)),
            ("last copy of a needed card", float(row @ table.critical)),
        )
        texts = ", ".join(f"{name} {_percent(chance)}" for name, chance in facts)
        yield f"- slot {slot}: {_candidates(game, row.tolist())}; {texts}"


def _candidates(game: Hanabi, row: list[float]) -> str:
    """Return the possible cards of a slot, the likeliest first; long lists without figures."""
    # Exact zeros: impossible kinds have weight 0 in whole numbers.
    possible = [(chance, kind) for kind, chance in enumerate(row) if chance > 0]
    if len(possible) == 1:
        return f"{game.deck.kinds[possible[0][1]]} for certain"
    # A list of more than eight cards is nearly even, and its figures would only cost tokens.
    if len(possible) > 8:
        excluded = [game.deck.kinds[kind] for kind, chance in enumerate(row) if chance <= 0]
        return (
            f"any card but {', '.join(excluded)}"
            if 0 < len(excluded) <= 8
            else (
                "any of " + ", ".join(game.deck.kinds[kind] for _, kind in possible)
                if excluded
                else "any card"
            )
        )
    # Likeliest first; equal ones in the order of the deck.
    possible.sort(key=lambda pair: (-pair[0], pair[1]))
    return ", ".join(f"{game.deck.kinds[kind]} {_percent(chance)}" for chance, kind in possible)


def _percent(chance: float) -> str:
    """Return a probability in per cent; only certainty is written as 0 % or 100 %."""
    if chance > CERTAIN or chance < 1 - CERTAIN:
        return f"{round(chance) * 100} %"
    return f"{min(99, max(1, round(chance * 100)))} %"


class HanabiText(GameText):
    """Texts of Hanabi."""

    game: Hanabi
    notes_type = HanabiNotes

    def synonyms(self) -> dict[str, str]:
        """Return other words for the game's own, see `Game.synonyms`."""
        game = self.game
        words = {"clue": "hint", "tell": "hint", "reveal": "hint", "position": "slot"}
        # "play card 2" is covered too, because a reader skips the word "card".
        for slot in range(1, game.hand_size + 1):
            words |= {f"{verb} {slot}": f"{verb} slot {slot}" for verb in ("play", "discard")}
        for colour in game.deck.hint_colours:
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
        empty = (
            "The hint may fit no card."
            if options.empty_hints
            else ("The hint must fit at least one card.")
        )
        rainbow = (
            " Cards of the multicolour count as every colour: a hint of any colour points them "
            "out too, and no hint names the multicolour."
            if options.rainbow
            else ""
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
            f"do not have it. {empty}{rainbow}",
            f"The game starts with {pluralize(options.hint_tokens, 'hint token')} and "
            f"{'1 life' if options.lives == 1 else f'{options.lives} lives'}. It ends when all "
            "lives are lost (the score is 0), when all fireworks are complete, or when the deck is "
            "empty and each player has had one more turn.",
            "Your action: play slot SLOT | discard slot SLOT | hint PLAYER COLOUR | hint PLAYER "
            f"rank RANK. For example: hint Player 1 {deck.hint_colours[0]}",
        ]
        return "\n".join(lines)

    def narrate(self, event: Event) -> str:  # noqa: PLR0911 - one case a kind.
        """Return one event as a sentence."""
        game = self.game
        names = game.seat_names
        match event:
            case HandsDealt(size, deck):
                return f"Each hand has {pluralize(size, 'card')}. {_deck_left(deck)}"
            case HandSeen(player, cards):
                return f"{names[player]} holds {', '.join(cards)} (slot 1 first)."
            case CardDrawn(player, card, deck):
                return f"{names[player]} draws {card}. {_deck_left(deck)}"
            case UnseenCardDrawn(player, deck):
                return f"{names[player]} draws a card without seeing it. {_deck_left(deck)}"
            case CardPlayed(player, slot, card):
                return f"{names[player]} plays slot {slot}, {card}: {_result(game, event)}"
            case CardDiscarded(player, slot, card, tokens):
                return f"{names[player]} discards slot {slot}, {card}. {_tokens(tokens)}"
            case HintGiven(player, target):
                meaning = event.colour or f"rank {event.rank}"
                slots = ", ".join(map(str, event.slots))
                word = "slot" if len(event.slots) == 1 else "slots"
                named = f"{word} {slots}" if slots else "no slot"
                return (
                    f"{names[player]} hints {names[target]} {meaning}: {named}. "
                    f"{_tokens(event.tokens)}"
                )
            case _:
                raise TypeError(f"{event!r} is not an event of Hanabi")

    def for_people(self, text: str) -> str:
        """Return a text with "green 2" in place of "G2"."""
        deck = self.game.deck
        return re.sub(rf"\b({'|'.join(deck.kinds)})\b", lambda found: deck.words(found[1]), text)

    def situation(self, observation: Observation, level: TextLevel) -> Iterable[str]:
        """Return the table as it is now, and the legal actions."""
        notes: HanabiNotes = observation.notes  # type: ignore[assignment]
        return [*table_lines(notes.table, level), *super().situation(observation, level)]
