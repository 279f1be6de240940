"""Other games that a player could not tell from the one it is in."""

from __future__ import annotations

import random
from collections.abc import Sequence

from arena import Step
from games.cluedo.base import CluedoBase
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.events import Deal, Show
from games.cluedo.rules.state import CluedoState


def resample(
    game: CluedoBase, history: Sequence[Step], player: int, rng: random.Random
) -> list[Step]:
    """The same table talk over another deal that `player` holds possible.

    Moves are the same, but for the cards that others show each other: those are chosen afresh.
    """
    if not history:
        return []
    state = CluedoState(game)
    for move in history:
        state.apply(move.player, move.action)
    knowledge = CluedoKnowledge.after(game, player, state.log.witnessed[player], "logic")
    state, moves = CluedoState(game), list[Step]()
    for move in history:
        action = move.action
        if isinstance(action, Deal):
            action = knowledge.sample(rng)
        elif isinstance(action, Show) and player not in (move.player, state.player):
            action = rng.choice(state.legal_actions(move.player))
        moves.append(Step(move.player, action))
        state.apply(move.player, action)
    return moves
