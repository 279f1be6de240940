"""Rules of Cluedo in words. Trained checkpoints depend on the wording of the default options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from games.cluedo.rules import board

if TYPE_CHECKING:
    from games.cluedo.base import CluedoBase

_SUGGESTION = {
    "in_turn": "Suggestion: the others are asked in turn order from your left. The first who holds "
    "one of the three cards must show you one of them, secretly; everybody sees who showed, not "
    "what. Whoever is passed over holds none of the three.",
    "all": "Suggestion: all others are asked. Each who holds one of the three cards must show you "
    "one of them, secretly; everybody sees who showed, not what. Whoever shows nothing holds none "
    "of the three.",
}

_MOVEMENT = {
    "toward": "throw two dice and move toward a room, or take a secret passage (Study - Kitchen, "
    "Conservatory - Lounge).",
    "squares": "throw two dice, or take a secret passage (Study - Kitchen, Conservatory - Lounge). "
    "After a throw enter a room within reach, or use the whole throw and end on a corridor square: "
    "not diagonally, through no other pawn, and on no square twice. A pawn on the square outside a "
    "door blocks it.",
}


def rule_details(game: CluedoBase) -> str:
    """Return details that are no part of `rules`, whose wording trained checkpoints depend on."""
    details = (
        "To refute a suggestion means to show one of its cards; a player who cannot refute it "
        "holds none of the three. The last player left must still accuse correctly to win."
    )
    if game.options.refuters == "all":
        details += " Each who refutes chooses without seeing the cards that others show."
    if game.options.movement == "squares":
        details += (
            " A throw need not be exact to enter a room. A pawn that can neither enter a room nor "
            "use the whole throw goes as far as it can. You may not enter the room that you left "
            "in this turn."
        )
    return details


def rules(game: CluedoBase) -> str:
    """Return the rules for a player who does not know the game."""
    deck = game.deck
    lines = [
        f"Cluedo, {game.num_players} players (Player 0 to Player {game.num_players - 1}). One "
        "suspect, one weapon and one room lie in an envelope; name all three to win. The other "
        "cards are dealt to the players.",
        f"Suspects: {', '.join(deck.suspects)}.",
        f"Weapons: {', '.join(deck.weapons)}.",
        f"Rooms: {', '.join(deck.rooms)}.",
        _SUGGESTION[game.options.refuters],
        "Accusation: ends your turn. If it is right you win. If it is false you make no more "
        "moves and only show cards.",
    ]
    if game.has_board:
        lines.append(
            f"Board: {_pawns(game)}. On your turn {_MOVEMENT[game.options.movement]} In a room you "
            "may make one suggestion, which must name that room; the suspect's pawn and the weapon "
            "are brought there."
        )
        if game.options.summoned_may_suggest:
            lines[-1] += " A player whose pawn was brought to a room may suggest without moving."
        if game.options.movement == "squares":
            lines += _map()
        order = "roll or take a passage, suggest, then accuse or end your turn"
    else:
        order = "suggest any three cards, then accuse or end your turn"
    if game.options.first_player == "random":
        lines.append("The first player is drawn.")
    elif game.options.choose_suspects:
        lines.append(
            f"The player of {deck.suspects[0]} begins; if no player chose that suspect, the player "
            "of the next suspect in the list."
        )
    lines.append(f"Your turn: {order}. Answer with one action, in the words you are given.")
    return "\n".join(lines)


def _map() -> Iterator[str]:
    """Yield the map of the board and its doors; rows and columns count from 1."""
    letters = ", ".join(f"{letter} {room}" for room, letter in board.LETTERS.items())
    yield (
        "Map, row 1 at the top, column 1 at the left (. corridor, 1 to 6 the starts of the "
        f"suspects in the order above, # no square, {letters}):"
    )
    yield from board.MAP
    doors = "; ".join(
        f"{room} {' and '.join(f'row {row + 1} column {column + 1}' for row, column in squares)}"
        for room, squares in board.DOORS.items()
    )
    yield f"Squares outside the doors: {doors}."


def _pawns(game: CluedoBase) -> str:
    """Return which player moves which pawn."""
    if game.options.choose_suspects:
        return "before the first turn each player chooses a suspect and then moves its pawn"
    pairs = zip(game.seat_names, game.deck.suspects, strict=False)
    return ", ".join(f"{name} plays {suspect}" for name, suspect in pairs)
