"""The options of Cluedo, and where editions differ."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from arena import GameOptions
from games.cluedo.rules.cards import ThemeName


class CluedoOptions(GameOptions):
    """Options of `cluedo`.

    Rules follow the Waddingtons/Parker Brothers sheets of the classic board (in print from 1949 to
    the early 2000s). Where those sheets differ or say nothing, an option says which way is meant.
    """

    variant: Literal["cards", "classic"] = Field(
        "cards",
        description="'classic' has the board, dice and secret passages; in 'cards' there is no "
        "board and a suggestion may name any room (the usual research setting).",
    )
    players: int = Field(
        4,
        ge=2,
        le=6,
        description="Seats. The box says 3 to 6; 2 is allowed as a training game.",
    )
    theme: ThemeName = Field(
        "uk", description="Names of the UK (Cluedo) or the US (Clue) edition; the cards match."
    )
    leftover_cards: Literal["dealt", "open"] = Field(
        "dealt",
        description="Cards that do not divide evenly: 'dealt' to the first seats (classic sheets), "
        "or laid 'open' for all to see (some later editions).",
    )
    summoned_may_suggest: bool = Field(
        True,
        description="A player whose pawn was summoned since its last turn may suggest in that room "
        "without moving (in most sheets; left out of the shortest ones).",
    )
    suspects: int = Field(6, ge=2, le=6, description="Suspects in the deck; fewer for a toy.")
    weapons: int = Field(6, ge=2, le=6, description="Weapons in the deck; fewer for a toy.")
    rooms: int = Field(9, ge=2, le=9, description="Rooms in the deck; fewer for a toy.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        small = (self.suspects, self.weapons, self.rooms) != (6, 6, 9)
        if self.variant == "classic" and small:
            raise ValueError(
                "the classic board needs all 6 suspects, 6 weapons and 9 rooms; a smaller deck "
                "is played as variant 'cards'"
            )
        if self.suspects + self.weapons + self.rooms - 3 < self.players:
            raise ValueError(f"the deck is too small for {self.players} players to get a card each")
        return self
