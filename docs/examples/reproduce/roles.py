"""Seat one bot for each team of a game with hidden roles, for the scripts beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from arena import Game
from arena.core.spec import stream
from games.hidden_roles.rules import DealRoles, HiddenRolesGame


def by_team(
    game: Game, majority: str, minority: str, first: str = ""
) -> Callable[[int], Sequence[str]]:
    """Return the function that gives the SPECs of all seats for the deal of a seed.

    `first`: another bot in the first seat of the majority.
    """

    def seated(seed: int) -> Sequence[str]:
        deal = game.initial_state().sample_chance(stream(seed, "chance"))
        assert isinstance(deal, DealRoles) and isinstance(game, HiddenRolesGame)
        teams = [game.team_of(role) for role in deal.roles]
        specs = [f"bot:{minority if team else majority}" for team in teams]
        if first:
            specs[teams.index(0)] = f"bot:{first}"
        return specs

    return seated
