"""Cluedo of arena, as an environment of verifiers 1.

For another game copy the package, and change its name, the game, the options and the seats.
"""

from typing import ClassVar

import verifiers.v1 as vf

from trainers.verifiers.environment import (
    GameEnv,
    GameEnvConfig,
    GameHarness,
    GameTaskset,
    SeatConfig,
)

__all__ = ["CluedoEnv", "CluedoTaskset", "GameHarness"]


class CluedoTaskset(GameTaskset):
    """The deals."""

    game = "cluedo"
    options: ClassVar = {"players": 3}


class CluedoEnvConfig(GameEnvConfig):
    """The players: "model" is a model that verifiers serves, anything else a SPEC of arena."""

    seat_0: SeatConfig = SeatConfig()
    seat_1: SeatConfig = SeatConfig(player="bot:novice")
    seat_2: SeatConfig = SeatConfig(player="bot:novice")


class CluedoEnv(GameEnv, vf.Env[CluedoEnvConfig]):
    """One game for each episode."""
