"""Texts that ask a player for an action: the forms of the legal actions and their consequences.

Models read these texts. Trained checkpoints depend on the exact wording.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from arena import Action, ActionSet
from games.cluedo.rules import board
from games.cluedo.rules.events import (
    Accuse,
    EndTurn,
    Move,
    MoveToSquare,
    Passage,
    Place,
    PlaySuspect,
    Roll,
    Show,
    Suggest,
)

if TYPE_CHECKING:
    from games.cluedo.base import CluedoBase
    from games.cluedo.text.notebook import Notebook


def describe_place(place: Place) -> str:
    """Return a room or a corridor square in words; rows and columns count from 1."""
    if isinstance(place, str):
        return f"the {place}"
    row, column = divmod(place, board.COLUMNS)
    return f"the corridor (row {row + 1}, column {column + 1})"


def action_prompt(
    game: CluedoBase, legal: ActionSet, notes: Notebook, with_example: bool
) -> Iterator[str]:
    """Yield the legal actions as a grammar instead of a list of hundreds."""
    first = legal[0]
    if isinstance(first, Show):
        player, choices = game.seat_names[notes.in_turn], " | ".join(map(str, legal))
        yield f"{player} suggested {notes.suggestion}. Show one of your cards: {choices}."
        return
    if isinstance(first, PlaySuspect):
        yield f"Choose your suspect: {' | '.join(map(str, legal))}."
        return
    if isinstance(first, Move | MoveToSquare):
        yield from _move_prompt(game, legal, notes, with_example)
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


def _move_prompt(
    game: CluedoBase, legal: ActionSet, notes: Notebook, with_example: bool
) -> Iterator[str]:
    """Yield the rooms within reach, the steps to each room, and the form of the action."""
    place = notes.places[notes.pawn]
    if game.options.movement == "squares":
        yield from _destination_prompt(game, legal, notes, with_example)
        return
    reachable = [
        move.room
        for move in legal.of(Move)
        if board.walk(place, move.room, notes.throw, notes.other_squares).enters
    ]
    reach = f"you reach {', '.join(reachable) or 'no room'}"
    steps = sorted((board.steps_to(place, move.room), move.room) for move in legal.of(Move))
    yield (
        f"You are in {describe_place(place)}. With {notes.throw} {reach}; toward any other room "
        f"you go as far as you can. Steps: {', '.join(f'{room} {n}' for n, room in steps)}."
    )
    yield _action_line("move ROOM", legal[0], with_example)


def _destination_prompt(
    game: CluedoBase, legal: ActionSet, notes: Notebook, with_example: bool
) -> Iterator[str]:
    """Yield the rooms and squares where the move may end, and the steps to each room."""
    place = notes.places[notes.pawn]
    rooms, by_row = [move.room for move in legal.of(Move)], dict[int, list[str]]()
    for move in legal.of(MoveToSquare):
        row, column = divmod(move.square, board.COLUMNS)
        by_row.setdefault(row + 1, []).append(str(column + 1))
    squares = "; ".join(f"row {row}, column {', '.join(all_)}" for row, all_ in by_row.items())
    others = (room for room in game.deck.rooms if room != place)
    steps = sorted((board.steps_to(place, room), room) for room in others)
    yield (
        f"You are in {describe_place(place)}. With {notes.throw} you reach "
        f"{', '.join(rooms) or 'no room'}; or end on a square: {squares or 'none'}. Steps: "
        f"{', '.join(f'{room} {count}' for count, room in steps)}."
    )
    forms = (["move ROOM"] if rooms else []) + (["move row R, column C"] if by_row else [])
    yield _action_line(" | ".join(forms), legal[0], with_example)
