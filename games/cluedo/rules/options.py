"""Options of Cluedo, which cover the differences between editions."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from arena import GameOptions
from games.cluedo.rules.cards import ThemeName


class CluedoOptions(GameOptions):
    """Options of `cluedo`.

    The rules follow the Waddingtons/Parker Brothers rule sheets of the classic board (in print from
    1949 to the early 2000s). An option decides each point on which these sheets differ or are
    silent.
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
        description="Number of seats. The printed rules allow 3 to 6; 2 is meant for training.",
    )
    theme: ThemeName = Field(
        "uk", description="Card names of the UK (Cluedo) or the US (Clue) edition."
    )
    leftover_cards: Literal["dealt", "open"] = Field(
        "dealt",
        description="Cards that do not divide evenly among the seats: 'dealt' to the first seats "
        "(classic sheets), or 'open' on the table (some later editions).",
    )
    summoned_may_suggest: bool = Field(
        True,
        description="A player whose pawn was summoned since its last turn may suggest in that room "
        "without moving (in most sheets; the shortest ones omit this rule).",
    )
    suspects: int = Field(
        6, ge=2, le=6, description="Suspects in the deck; fewer for a small game."
    )
    weapons: int = Field(6, ge=2, le=6, description="Weapons in the deck; fewer for a small game.")
    rooms: int = Field(9, ge=2, le=9, description="Rooms in the deck; fewer for a small game.")

    @model_validator(mode="after")
    def _check_deck(self) -> Self:
        # The board has a start square for each suspect and doors for each room.
        small = (self.suspects, self.weapons, self.rooms) != (6, 6, 9)
        if self.variant == "classic" and small:
            raise ValueError(
                "the classic board needs all 6 suspects, 6 weapons and 9 rooms; for a smaller deck "
                "use variant 'cards'"
            )
        if self.suspects + self.weapons + self.rooms - 3 < self.players:
            raise ValueError(f"the deck is too small for {self.players} players: one card for each")
        return self
