"""Options of Werewolf, and its roles."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from games.hidden_roles.game import HiddenRolesOptions

VILLAGE, WOLVES = 0, 1
"""Numbers of the teams."""

WOLF, SEER, DOCTOR, HUNTER, VILLAGER = "Werewolf", "Seer", "Doctor", "Hunter", "Villager"
PACK = frozenset({WOLF})
"""The roles of the wolves' team."""


class WerewolfOptions(HiddenRolesOptions):
    """Options of `werewolf`."""

    players: int = Field(7, ge=5, le=12, description="Number of seats.")
    wolves: int = Field(
        0,
        ge=0,
        le=5,
        description="Werewolves, fewer than half of the players. 0: 1 of up to 6 players, 2 of 7 "
        "to 9 and 3 of more.",
    )
    hunter: bool = Field(
        False, description="One villager is the hunter, who may shoot a player when dying."
    )
    reveal: bool = Field(True, description="The role of a player who dies becomes public.")
    talk: int = Field(
        1,
        ge=0,
        le=3,
        description="Rounds of statements each day, in which all living players speak at once; "
        "with any, the wolves also talk once each night among themselves. 0: no talk.",
    )

    @property
    def num_wolves(self) -> int:
        """Number of werewolves."""
        return self.wolves or 1 + (self.players >= 7) + (self.players >= 10)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the game, one per seat."""
        special = (SEER, DOCTOR, *([HUNTER] if self.hunter else []))
        villagers = self.players - self.num_wolves - len(special)
        return (*[WOLF] * self.num_wolves, *special, *[VILLAGER] * villagers)

    @model_validator(mode="after")
    def _check_wolves(self) -> Self:
        # Otherwise the wolves have won before the first night.
        if 2 * self.num_wolves >= self.players:
            raise ValueError(
                f"wolves: {self.num_wolves} of {self.players} players; give fewer than half"
            )
        return self
