"""Alternative histories that a player cannot distinguish from the real one."""

from __future__ import annotations

import random
from collections.abc import Sequence

from arena import Step
from games.cluedo.base import CluedoBase
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.events import DealCards, Show
from games.cluedo.rules.state import CluedoState


def resample(
    game: CluedoBase, history: Sequence[Step], player: int, rng: random.Random
) -> list[Step]:
    """Return the same public history over another deal that `player` considers possible.

    All actions stay the same, except for the cards that other players show each other: these are
    drawn again among the cards that the new deal allows.
    """
    if not history:
        return []
    # First pass, over the real history: the events that the player has witnessed.
    state = CluedoState(game)
    for step in history:
        state.apply(step.player, step.action)
    # Without a refuter model every consistent deal may be drawn.
    knowledge = CluedoKnowledge.after(game, player, state.log.witnessed[player], "logic")
    # Second pass, over the new deal. It agrees with every "cannot refute" and every showing, so
    # each public action is legal again, and the same seats refute.
    state, steps = CluedoState(game), list[Step]()
    for step in history:
        action = step.action
        if isinstance(action, DealCards):
            action = knowledge.sample(rng)
        # A card that the player showed or was shown is known to it and stays.
        elif isinstance(action, Show) and player not in (step.player, state.player):
            action = rng.choice(state.legal_actions(step.player))
        steps.append(Step(step.player, action))
        state.apply(step.player, action)
    return steps
