"""Werewolf (Mafia) as a `Game`: D. Davidoff's Mafia (1986), with A. Plotkin's werewolves (1997).

M. Braverman, O. Etesami, E. Mossel, "Mafia: a theoretical study of players and coalitions in a
partial information environment", Annals of Applied Probability 18 (2008), study its balance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arena import (
    Action,
    Observation,
)
from games.hidden_roles.game import PASS
from games.werewolf.base import WerewolfBase
from games.werewolf.state import WerewolfState

if TYPE_CHECKING:
    pass


class Werewolf(WerewolfBase):
    """Five to twelve players: a village, and werewolves among them.

    Example:
        >>> import random
        >>> from arena import CHANCE
        >>> state = Werewolf(players=5, talk=0).initial_state()
        >>> state.apply(CHANCE, state.sample_chance(random.Random(0)))
        >>> state.roles()
        ('Doctor', 'Seer', 'Werewolf', 'Villager', 'Villager')
        >>> [str(action) for action in state.legal_actions(2)][:2]
        ['kill Player 0', 'kill Player 1']
    """

    Text = "games.werewolf.text:WerewolfText"
    Analysis = "games.werewolf.assessor:WerewolfAnalysis"
    Arrays = "games.werewolf.notes:WerewolfArrays"
    View = "games.werewolf.view:WerewolfView"

    def initial_state(self) -> WerewolfState:
        return WerewolfState(self)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return `pass` where it is legal, so that a failed answer neither votes nor shoots."""
        legal = observation.legal_actions
        return (PASS,) if PASS in legal else legal
