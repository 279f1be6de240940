"""Additions to the prompts of models: examples, and a move that decides a whole turn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from arena import Action, Observation, Seat
from arena.agents.agent import act_now
from arena.core.action import CHANCE
from arena.core.observation import CombinedMove, PromptExample
from arena.core.seeds import stream
from games.cluedo.base import CluedoBase
from games.cluedo.rules.events import END_TURN, Accuse, Refuted, Suggest, Suggested


@lru_cache(maxsize=8)
def examples(game: CluedoBase) -> Sequence[PromptExample]:
    """Return one decision of each kind from a game of detectives: first to suggest and to show."""
    # Imported here: nothing else in this module needs exact knowledge.
    from games.cluedo.bots.logic import Detective

    rng = stream(0, "examples")
    state = game.initial_state()
    bots = [Detective(Seat(game, player, rng)) for player in range(game.num_players)]
    found: dict[str, PromptExample] = {}
    while not state.is_terminal:
        player = state.to_act[0]
        if player == CHANCE:
            state.apply(CHANCE, state.sample_chance(rng))
            continue
        observation = state.observe(player)
        action = act_now(bots[player], observation).action
        if len(observation.legal_actions) > 1:
            found.setdefault(type(action).__name__, PromptExample(observation, action))
        state.apply(player, action)
    order = ("Suggest", "Show", "Accuse", "EndTurn")
    rest = [kind for kind in found if kind not in order]
    return tuple(found[kind] for kind in (*order, *rest) if kind in found)


def follow_up(observation: Observation, announcement: str) -> Action | None:
    """Return the announced end of a turn: accuse if the suggestion was not refuted, or end it."""
    legal = observation.legal_actions
    if END_TURN not in legal or legal.of(Suggest):
        return None
    for event in reversed(observation.events):
        if isinstance(event, Refuted):
            break
        if isinstance(event, Suggested) and event.player == observation.player:
            accusation = Accuse(*event.triple)
            is_announced = announcement.lower().startswith("accuse")
            return accusation if is_announced and accusation in legal else END_TURN
    return END_TURN


COMBINED_MOVE = CombinedMove(
    'To decide your whole turn at once, add to a suggestion either "; accuse if nobody refutes" '
    "(then you accuse these three cards if nobody refutes, and end your turn otherwise) or "
    '"; end turn".',
    # At the very end of the reply: before it, it may belong to a plan that the reply rejects.
    re.compile(
        r";\s*(?:then\s+|and\s+)?(accuse if (?:nobody|no one|no-one) (?:can )?refutes?(?: it)?"
        r"|end (?:my )?turn)(?=[\s.!*`\"'}\])]*\Z)",
        re.IGNORECASE,
    ),
    follow_up,
)
