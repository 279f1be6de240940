"""Synonyms of cards and actions: names of the other edition, shorter and similar words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from games.cluedo.base import CluedoBase

# Each key is a part of the name of exactly one card, in either edition.
SUSPECTS: dict[str, tuple[str, ...]] = {
    "Scarlet": ("Scarlet", "Scarlett", "Scarlette"),
    "Mustard": ("Mustard",),
    "White": ("White",),
    "Green": ("Green",),
    "Peacock": ("Peacock",),
    "Plum": ("Plum",),
}
TITLES = (
    *("Miss", "Ms", "Mrs", "Mr", "Colonel", "Col", "Professor", "Prof", "Dr"),
    *("Reverend", "Rev", "Reverend Mr", "Rev Mr"),
)

OBJECTS: dict[str, tuple[str, ...]] = {
    "Candlestick": ("candle stick", "candlesticks", "candle"),
    "Dagger": ("knife",),
    "Knife": ("dagger",),
    "Lead Pip": ("lead pipe", "lead piping", "leadpipe", "leadpiping", "pipe", "piping"),
    "Revolver": ("gun", "pistol", "handgun"),
    "Spanner": ("wrench",),
    "Wrench": ("spanner",),
    "Kitchen": ("kitchens",),
    "Ballroom": ("ball room",),
    "Billiard": ("billiard", "billiards", "billiards room", "billiardroom", "billiardsroom"),
    "Dining": ("dining", "diningroom", "dinning room"),
}
VERBS: dict[str, tuple[str, ...]] = {
    "suggest": ("suggestion", "suggests", "suggesting", "propose", "guess"),
    "accuse": ("accusation", "accuses", "accusing"),
    "show": ("reveal", "shows", "showing", "revealing"),
}
BOARD_VERBS: dict[str, tuple[str, ...]] = {
    "move": ("go", "walk", "enter", "moving", "going", "head"),
    "roll": ("throw", "throw dice", "throw two dice", "rolling"),
    "passage": ("secret passage", "passageway"),
}
END_TURN = (
    *("end", "ends turn", "ending turn", "finish turn", "endturn", "end turn now"),
    *("pass", "pass turn", "skip", "skip turn", "done", "finished"),
)


def synonyms(game: CluedoBase) -> dict[str, str]:
    """Return phrase -> the game's own words, for the cards of this deck."""
    # Later entries win, so verbs outweigh a card phrase of the same words.
    phrases_to_own = dict(_card_synonyms(game))
    for own, phrases in (VERBS | (BOARD_VERBS if game.has_board else {})).items():
        phrases_to_own.update(dict.fromkeys(phrases, own))
    phrases_to_own.update(dict.fromkeys(END_TURN, "end turn"))
    return phrases_to_own


def _card_synonyms(game: CluedoBase) -> Iterator[tuple[str, str]]:
    """Yield pairs of phrase and card."""
    for card in game.deck.cards:
        for part, names in SUSPECTS.items():
            if part in card:
                yield from ((name, card) for name in names)
                yield from ((f"{title} {name}", card) for title in TITLES for name in names)
        for part, phrases in OBJECTS.items():
            if part in card:
                yield from ((phrase, card) for phrase in phrases)
