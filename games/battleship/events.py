"""Options, actions and events of Battleship. Squares and ships are given by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from arena import Action, Event, GameOptions
from arena.core.event import PrivateEvent
from games.battleship.board import LONGEST_SHIP, board_of, has_room

DENSEST = {True: 0.4, False: 0.2}
"""Largest share of squares with ships, by the option `touching`: a random fleet is then found
within milliseconds by rejection."""

ShotResult = Literal["miss", "hit", "sunk"]


class BattleshipOptions(GameOptions):
    """Options of `battleship`."""

    width: int = Field(6, ge=3, le=10, description="Number of columns.")
    height: int = Field(6, ge=3, le=10, description="Number of rows.")
    ships: tuple[Annotated[int, Field(ge=1, le=LONGEST_SHIP)], ...] = Field(
        (3, 2, 2),
        min_length=1,
        max_length=10,
        description="Length of each ship, such as 3,2,2; the usual board of 10 by 10 has "
        "5,4,3,3,2.",
    )
    touching: bool = Field(True, description="Whether ships may touch each other.")
    placement: Literal["random", "players"] = Field(
        "random", description="Who places the ships: 'random' (chance) or 'players'."
    )
    announce_sunk: bool = Field(
        True, description="Whether a sunk ship and its length are announced."
    )
    turn: Literal["one_shot", "hit_again", "salvo"] = Field(
        "one_shot",
        description="Shots of a turn: 'one_shot'; 'hit_again', another one after each hit; or "
        "'salvo', one for each own ship afloat, with their results announced together.",
    )

    @field_validator("ships", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """Accept `3,2,2` too, and one number for one ship, as on a command line."""
        if isinstance(value, str):
            return [part.strip() for part in value.split(",")]
        values = [value] if isinstance(value, int | float) else value
        # In Python True is a number, but `true` in JSON is none.
        if isinstance(values, list | tuple) and any(isinstance(each, bool) for each in values):
            raise ValueError("true and false are not numbers: write 3,2,2")
        return values

    @model_validator(mode="after")
    def _check_fleet(self) -> Self:
        # The share first: the search for room is short only on boards that are not too full.
        squares, share = self.width * self.height, DENSEST[self.touching]
        if sum(self.ships) > share * squares:
            raise ValueError(
                f"ships={','.join(map(str, self.ships))} need {sum(self.ships)} of {squares} "
                f"squares; at most {share:.0%} may hold ships with touching={self.touching}: use "
                "fewer or shorter ships or a larger board"
            )
        if not has_room(board_of(self.width, self.height, self.touching), self.ships):
            raise ValueError(
                f"ships={','.join(map(str, self.ships))} do not fit on a board of "
                f"{self.width} by {self.height}: use shorter ships or a larger board"
            )
        # The size of a salvo would reveal how many ships of its player are sunk.
        if self.turn == "salvo" and not self.announce_sunk:
            raise ValueError("turn=salvo needs announce_sunk=true: it shows which ships are sunk")
        return self


@dataclass(frozen=True, slots=True)
class PlaceFleet(Action):
    """Chance: place all ships of one player."""

    player: int
    ships: tuple[str, ...]

    def __str__(self) -> str:
        return f"fleet of player {self.player}: {', '.join(self.ships)}"


@dataclass(frozen=True, slots=True)
class PlaceShip(Action, template="place {self.ship}"):
    """Place the next own ship; the other player does not see it."""

    ship: str
    """First and last square, `b2-b4`."""


@dataclass(frozen=True, slots=True)
class Shoot(Action, template="shoot {self.square}"):
    """Shoot at a square of the other player's board."""

    square: str


@dataclass(frozen=True, slots=True)
class ShipsPlaced(PrivateEvent):
    """Private: ships of one player are placed; all of them by chance, or its next one."""

    ships: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShotCalled(Event):
    """Public: a shot of a salvo that is not complete; its result follows with the last one."""

    player: int
    square: str


@dataclass(frozen=True, slots=True)
class ShotFired(Event):
    """Public: a shot and its result."""

    player: int
    square: str
    result: ShotResult
    length: int | None = None
    """Length of the ship that was sunk; None if none was, or if it is not announced."""


@dataclass(frozen=True, slots=True)
class FleetRevealed(Event):
    """Public: all ships of one player, at the end of the game."""

    player: int
    ships: tuple[str, ...]
