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
        "uk",
        description="Card names of the UK (Cluedo) or the US (Clue) edition, or 'generated': "
        "invented names from `names_seed`, so that nothing can be learned by heart; deck sizes "
        "are then free, 3 to 12 cards per category.",
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
        6, ge=2, le=12, description="Suspects in the deck; over 6 need theme 'generated'."
    )
    weapons: int = Field(
        6, ge=2, le=12, description="Weapons in the deck; over 6 need theme 'generated'."
    )
    rooms: int = Field(
        9, ge=2, le=12, description="Rooms in the deck; over 9 need theme 'generated'."
    )
    names_seed: int = Field(
        0, ge=0, le=2**31 - 1, description="Seed of the invented names of theme 'generated'."
    )
    refuters: Literal["in_turn", "all"] = Field(
        "in_turn",
        description="'in_turn': the first seat from the suggester's left that can refute shows a "
        "card (printed rules); 'all': every seat that can refute shows one card.",
    )
    movement: Literal["toward", "squares"] = Field(
        "toward",
        description="Moves on the board. 'toward': name a room; the pawn enters it, or goes "
        "towards it as far as the throw allows. 'squares' (printed rules): enter a room within "
        "reach, or use the whole throw and end on any square that it leads to, which may block a "
        "door.",
    )
    choose_suspects: bool = Field(
        False,
        description="On the board, each player chooses a suspect before the first turn, seat 0 "
        "first; otherwise seat 0 plays Scarlett, seat 1 Mustard, and so on.",
    )
    first_player: Literal["scarlett", "random"] = Field(
        "scarlett",
        description="'scarlett': the player of Miss Scarlett begins, or of the next suspect in "
        "card order if no seat plays her; without a board seat 0. 'random': a seat that is drawn.",
    )

    @model_validator(mode="after")
    def _check_board(self) -> Self:
        if self.variant == "cards" and (self.movement != "toward" or self.choose_suspects):
            raise ValueError("movement and choose_suspects need the board: variant 'classic'")
        return self

    @model_validator(mode="after")
    def _check_deck(self) -> Self:
        sizes = {"suspects": self.suspects, "weapons": self.weapons, "rooms": self.rooms}
        printed = {"suspects": 6, "weapons": 6, "rooms": 9}
        # The board has a start square for each suspect, and doors for each printed room.
        if self.variant == "classic" and (sizes != printed or self.theme == "generated"):
            raise ValueError(
                "the classic board needs all 6 suspects, 6 weapons and 9 rooms of theme 'uk' or "
                "'us'; for another deck use variant 'cards'"
            )
        for kind, size in sizes.items():
            if self.theme == "generated" and size < 3:
                raise ValueError(f"theme 'generated' needs 3 to 12 {kind}, not {size}")
            if self.theme != "generated" and size > printed[kind]:
                raise ValueError(
                    f"theme '{self.theme}' has {printed[kind]} {kind}, not {size}; "
                    "for more use theme 'generated'"
                )
        if self.theme != "generated" and self.names_seed:
            raise ValueError("names_seed needs theme 'generated'; the other names are printed")
        if sum(sizes.values()) - 3 < self.players:
            raise ValueError(f"the deck is too small for {self.players} players: one card for each")
        return self
