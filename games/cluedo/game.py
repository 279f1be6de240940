"""Cluedo as a `Game`."""

from __future__ import annotations

from collections.abc import Sequence

from arena import WIN_RATE, Action, Observation
from games.cluedo.rules.setting import END_TURN, ROLL, Accuse, CluedoSetting, Move, Show
from games.cluedo.rules.state import CluedoState


class Cluedo(CluedoSetting):
    """Cluedo (Clue): find the suspect, the weapon and the room in the envelope.

    `CluedoOptions` lists the options.

    Example:
        >>> import random
        >>> from arena import CHANCE
        >>> game = Cluedo(players=3, theme="us")
        >>> state = game.initial_state()
        >>> state.apply(CHANCE, state.sample_chance(random.Random(0)))
        >>> observation = state.observe(0)
        >>> len(observation.legal_actions)  # 324 suggestions, 324 accusations, "end turn"
        649
        >>> game.analysis.knowledge(0).world_count() > 0
        True
    """

    Text = "games.cluedo.text:CluedoText"
    Analysis = "games.cluedo.analysis.assessor:CluedoAnalysis"
    Arrays = "games.cluedo.facts:CluedoArrays"
    View = "games.cluedo.view:CluedoView"
    default_bots = ("detective", "novice")
    level_bots = ("novice", "detective", "oracle")

    summary = "deduce the three cards in the envelope from what others cannot or will not show"
    default_max_turns = 300
    return_scale = WIN_RATE

    def initial_state(self) -> CluedoState:
        """Return the position before the deal."""
        return CluedoState(self)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return the fallback actions: any card or room; else go on or end."""
        legal = observation.legal_actions
        proceed = [action for action in (ROLL, END_TURN) if action in legal]
        return legal.of(Show) or legal.of(Move) or proceed

    def is_irrevocable(self, action: Action) -> bool:
        """Return whether the action is an accusation; a false one loses the game."""
        return isinstance(action, Accuse)
