"""Words of Cluedo for models: rules, forms of the legal actions, synonyms.

Trained checkpoints depend on the exact wording of the rules and forms of the default options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from arena import Action, ActionSet, GameText
from games.cluedo.facts import Facts
from games.cluedo.rules import board
from games.cluedo.rules.events import (
    Accuse,
    EndTurn,
    Move,
    Passage,
    Place,
    Roll,
    Show,
    Suggest,
)
from games.cluedo.rules.setting import CluedoSetting

# Rules


_SUGGESTION = (
    "Suggestion: the others are asked in turn order from your left. The first who holds "
    "one of the three cards must show you one of them, secretly; everybody sees who showed, not "
    "what. Whoever is passed over holds none of the three."
)

_MOVEMENT = (
    "throw two dice and move toward a room, or take a secret passage (Study - Kitchen, "
    "Conservatory - Lounge)."
)


def _pawns(game: CluedoSetting) -> str:
    """Return which player moves which pawn."""
    pairs = zip(game.seat_names, game.deck.suspects, strict=False)
    return ", ".join(f"{name} plays {suspect}" for name, suspect in pairs)


# Forms of actions


def describe_place(place: Place) -> str:
    """Return a room or a corridor square in words; rows and columns count from 1."""
    if isinstance(place, str):
        return f"the {place}"
    row, column = divmod(place, board.COLUMNS)
    return f"the corridor (row {row + 1}, column {column + 1})"


def action_prompt(
    game: CluedoSetting, legal: ActionSet, facts: Facts, with_example: bool
) -> Iterator[str]:
    """Yield the legal actions as a grammar instead of a list of hundreds."""
    first = legal[0]
    if isinstance(first, Show):
        player, choices = game.seat_names[facts.in_turn], " | ".join(map(str, legal))
        assert facts.suggestion is not None
        yield f"{player} suggested {facts.suggestion.triple}. Show one of your cards: {choices}."
        return
    if isinstance(first, Move):
        yield from _move_prompt(legal, facts, with_example)
        return
    forms = [str(action) for action in (*legal.of(Roll), *legal.of(Passage))]
    suggestions = legal.of(Suggest)
    if suggestions:
        # With a board, all suggestions name the room of the pawn; without one, they name all rooms.
        one_room = suggestions[0].room == suggestions[-1].room
        forms.append(f"suggest SUSPECT, WEAPON, {suggestions[0].room if one_room else 'ROOM'}")
    if legal.of(Accuse):
        forms.append("accuse SUSPECT, WEAPON, ROOM")
    forms += map(str, legal.of(EndTurn))
    example = suggestions[0] if suggestions else first
    yield _action_line(" | ".join(forms), example, with_example)


def _action_line(forms: str, example: Action, with_example: bool) -> str:
    return f"Your action: {forms}." + (f" For example: {example}" if with_example else "")


def _move_prompt(legal: ActionSet, facts: Facts, with_example: bool) -> Iterator[str]:
    """Yield the rooms within reach, the steps to each room, and the form of the action."""
    place, throw = facts.place, sum(facts.dice)
    reachable = [
        move.room
        for move in legal.of(Move)
        if board.walk(place, move.room, throw, facts.other_squares).enters
    ]
    reach = f"you reach {', '.join(reachable) or 'no room'}"
    steps = sorted((board.steps_to(place, move.room), move.room) for move in legal.of(Move))
    yield (
        f"You are in {describe_place(place)}. With {throw} {reach}; toward any other room "
        f"you go as far as you can. Steps: {', '.join(f'{room} {n}' for n, room in steps)}."
    )
    yield _action_line("move ROOM", legal[0], with_example)


# Synonyms


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
    "roll": ("roll dice", "throw", "throw dice", "throw two dice", "rolling"),
    "passage": ("secret passage", "passageway"),
}
IDLE_WORDS = ("murder", "crime", "committed", "committing")
"""Words that change nothing in a suggestion: "the murder was committed by Mrs White"."""
END_PHRASES = (
    *("end", "ends turn", "ending turn", "finish turn", "endturn", "end turn now"),
    *("pass", "pass turn", "skip", "skip turn", "done", "finished"),
)


def _card_synonyms(game: CluedoSetting) -> Iterator[tuple[str, str]]:
    """Yield pairs of phrase and card."""
    for card in game.deck.cards:
        for part, names in SUSPECTS.items():
            if part in card:
                yield from ((name, card) for name in names)
                yield from ((f"{title} {name}", card) for title in TITLES for name in names)
        for part, phrases in OBJECTS.items():
            if part in card:
                yield from ((phrase, card) for phrase in phrases)


class CluedoPrompts(GameText):
    """The part of Cluedo's texts that does not depend on the course of a game."""

    game: CluedoSetting

    def rules(self) -> str:
        game, deck = self.game, self.game.deck
        lines = [
            f"Cluedo, {game.num_players} players (Player 0 to Player {game.num_players - 1}). One "
            "suspect, one weapon and one room lie in an envelope; name all three to win. The other "
            "cards are dealt to the players.",
            f"Suspects: {', '.join(deck.suspects)}.",
            f"Weapons: {', '.join(deck.weapons)}.",
            f"Rooms: {', '.join(deck.rooms)}.",
            _SUGGESTION,
            "Accusation: ends your turn. If it is right you win. If it is false you make no more "
            "moves and only show cards.",
        ]
        if game.has_board:
            lines.append(
                f"Board: {_pawns(game)}. On your turn {_MOVEMENT} In a room you "
                "may make one suggestion, which must name that room; the suspect's pawn and the "
                "weapon are brought there."
            )
            if game.options.summoned_may_suggest:
                lines[-1] += (
                    " A player whose pawn was brought to a room may suggest without moving."
                )
            order = "roll or take a passage, suggest, then accuse or end your turn"
        else:
            order = "suggest any three cards, then accuse or end your turn"
        lines.append(f"Your turn: {order}. Answer with one action, in the words you are given.")
        return "\n".join(lines)

    def rule_details(self) -> str:
        # No part of `rules`, whose wording trained checkpoints depend on.
        return (
            "To refute a suggestion means to show one of its cards; a player who cannot refute it "
            "holds none of the three. The last player left must still accuse correctly to win."
        )

    def synonyms(self) -> Mapping[str, str]:
        """Return phrase -> the game's own words, for the cards of this deck."""
        # Later entries win, so verbs outweigh a card phrase of the same words.
        phrases_to_own = dict(_card_synonyms(self.game))
        for own, phrases in (VERBS | (BOARD_VERBS if self.game.has_board else {})).items():
            phrases_to_own.update(dict.fromkeys(phrases, own))
        phrases_to_own.update(dict.fromkeys(END_PHRASES, "end turn"))
        phrases_to_own.update(dict.fromkeys(IDLE_WORDS, ""))
        return phrases_to_own
