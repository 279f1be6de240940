"""Scene of Cluedo for a web page: the board or the table, and the visible cards of each hand."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import JsonValue

from arena import Event
from games.cluedo.facts import Facts
from games.cluedo.rules.setting import CluedoSetting


class CluedoScene:
    """The table as one viewer sees it. Squares are numbered row by row; rooms are names."""

    module: ClassVar[Path] = Path(__file__).with_suffix(".js")

    def __init__(self, game: CluedoSetting, seat: int | None) -> None:
        self.facts = Facts(game, -1 if seat is None else seat)

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        self.facts.update(event)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the current table; `dice`, `pawns` and `weapons` only with a board.

        - `marks`: a string per card of `deck` with a sign per seat and for the envelope, see
          `Facts.signs`; `sizes`: cards in each hand.
        - `suggestion`: that of this turn. `unable`: seats that have none of the three cards, in the
          order asked; `refuter`: the seat that shows a card, or will show one next; `shown`: the
          card, if the viewer saw it.
        - `accusation`: the latest one, until another action follows.
        - `weapons`: the room of each weapon that was moved; the others lie beside the board.
        """
        facts, game = self.facts, self.facts.game
        scene: dict[str, JsonValue] = {
            "deck": [[*cards] for cards in game.deck.categories],
            "marks": [*facts.signs().values()],
            "sizes": [*facts.hand_sizes],
            "open": [*facts.open_cards],
            "out": [*facts.seats_out],
            "turn": facts.turn,
            "player": facts.in_turn if facts.turn else None,
            "suggestion": self._suggestion(),
            "accusation": self._accusation(),
        }
        if game.has_board:
            scene["dice"] = [*facts.dice] if any(facts.dice) else None
            scene["pawns"] = [*facts.places.values()]
            weapons, rooms = game.deck.weapons, ("", *game.deck.rooms)
            moved = zip(weapons, facts.weapons, strict=True)
            scene["weapons"] = {weapon: rooms[number] for weapon, number in moved if number}
        return scene

    def _suggestion(self) -> JsonValue:
        facts = self.facts
        if facts.suggestion is None or facts.suggestion_turn < facts.turn:
            return None
        return {
            "player": facts.suggestion.player,
            "cards": [*facts.suggestion.triple],
            "unable": [*facts.unable],
            "refuter": facts.refuter,
            "shown": facts.card,
        }

    def _accusation(self) -> JsonValue:
        if self.facts.accusation is None:
            return None
        turn, event = self.facts.accusation
        return {
            "player": event.player,
            "cards": [*event.triple],
            "correct": event.correct,
            "turn": turn,
        }
