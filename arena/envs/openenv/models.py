"""Observation and state of a session, as they are served.

An action is OpenEnv's `CallToolAction`: the name of a function and its arguments. With
`metadata={"turn": N}` it answers the decision of that number only.
"""

from __future__ import annotations

from openenv.core.env_server.mcp_types import CallToolObservation
from openenv.core.env_server.types import State
from pydantic import Field


class GameObservation(CallToolObservation):
    """What the seat of this session may know, when it must decide or the game is over.

    `result` is the text: everything after a reset, then what is new. `error` says why a call was
    refused; the game has not advanced then, and the same decision is awaited.
    """

    tool_name: str = Field(default="", description="The function that was called; '' for a reset")
    rules: str = Field(default="", description="Rules and notation, after a reset")
    seat: int = Field(description="Seat of this session, from 0")
    turn: int = Field(description="Number of the decision that is awaited, from 0")
    legal_actions: list[str] = Field(description="The actions that are legal now, as text")
    outcome: str = Field(default="", description="Why the game has ended, '' while it goes on")
    terms: dict[str, float] = Field(
        default_factory=dict, description="Terms of the reward, at the end"
    )


class GameState(State):
    """Public facts of a session. It holds neither the seed nor anything that is hidden."""

    game: str = Field(description="Name of the game")
    players: int = Field(description="Number of seats")
    seat: int | None = Field(default=None, description="Seat of this session")
    turn: int = Field(default=0, description="Number of the decision that is awaited, from 0")
    done: bool = Field(default=False, description="Whether the episode is over")
