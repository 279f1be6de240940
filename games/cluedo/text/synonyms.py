"""Other words for the cards and moves of Cluedo: the other edition's, shorter and nearby ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from games.cluedo.base import CluedoBase

# The keys are what stands in a card of either edition, and only there.
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
    """Phrase -> the game's own words, for the cards that are in this deck."""
    found = dict(_cards(game))
    for own, phrases in (VERBS | (BOARD_VERBS if game.has_board else {})).items():
        found.update(dict.fromkeys(phrases, own))
    found.update(dict.fromkeys(END_TURN, "end turn"))
    return found


def _cards(game: CluedoBase) -> Iterator[tuple[str, str]]:
    for card in game.deck.cards:
        for mark, names in SUSPECTS.items():
            if mark in card:
                yield from ((name, card) for name in names)
                yield from ((f"{title} {name}", card) for title in TITLES for name in names)
        for mark, phrases in OBJECTS.items():
            if mark in card:
                yield from ((phrase, card) for phrase in phrases)
