"""Stated beliefs of a player of the majority: the question, the answer and its score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from arena import Observation, normalise
from arena.core.text import json_object
from games.hidden_roles.game import HiddenRolesGame, RoleDealt

FLOOR = 1e-3
"""Least stated probability in the logarithmic score. Without it a false 0 would cost infinity."""


def belief_question(game: HiddenRolesGame, observation: Observation) -> str | None:
    """Return the question to a player of the majority; None for others."""
    dealt = next((e.role for e in observation.events if isinstance(e, RoleDealt)), None)
    if dealt is None or game.team_of(dealt):
        return None
    example = ", ".join(f'"{name}": 0.3' for name in game.seat_names[:2])
    return (
        "Before you go on: what do you believe? This is not a move; name no action. Answer with "
        f"one JSON object: the probability that each other player is one of {game.team_names[1]}, "
        f"for example {{{example}}}."
    )


def read_beliefs(game: HiddenRolesGame, answer: str) -> dict[str, JsonValue]:
    """Return the stated probabilities by seat; `{"failure": "unparsable"}` without any."""
    names = {normalise(name): str(seat) for seat, name in enumerate(game.seat_names)}
    stated = {
        names[normalise(name)]: value
        for name, value in json_object(answer).items()
        if normalise(name) in names and isinstance(value, int | float) and 0 <= value <= 1
    }
    return {"minority": {**stated}} if stated else {"failure": "unparsable"}


def belief_score(
    details: Mapping[str, JsonValue], player: int, teams: Sequence[int]
) -> float | None:
    """Return the sum over the other seats of log2 of what was stated for their true side.

    A seat that is not stated counts as 1/2. None if the decision has no stated beliefs.
    """
    beliefs = details.get("beliefs")
    stated = beliefs.get("minority") if isinstance(beliefs, dict) else None
    if not isinstance(stated, dict):
        return None
    score = 0.0
    for seat in (seat for seat in range(len(teams)) if seat != player):
        share = stated.get(str(seat), 0.5)
        share = float(share) if isinstance(share, int | float) and 0 <= share <= 1 else 0.5
        score += math.log2(max(FLOOR, share if teams[seat] else 1 - share))
    return score
