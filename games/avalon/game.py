"""Avalon as a `Game`: The Resistance with roles (D. Eskridge, Indie Boards and Cards, 2012).

J. Serrino, M. Kleiman-Weiner, D. Parkes, J. Tenenbaum, "Finding Friend and Foe in Multi-Agent
Games", NeurIPS 2019, study the game without talk; Light et al., "AvalonBench" (2023), with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from games.avalon.base import AvalonBase
from games.avalon.state import AvalonState

if TYPE_CHECKING:
    pass


class Avalon(AvalonBase):
    """Five to ten players: a good majority, and an evil minority that knows itself.

    Example:
        >>> import random
        >>> from arena import CHANCE
        >>> state = Avalon(players=5, talk=0).initial_state()
        >>> state.apply(CHANCE, state.sample_chance(random.Random(0)))
        >>> state.roles()
        ('Loyal Servant', 'Percival', 'Merlin', 'Morgana', 'Assassin')
        >>> len(state.legal_actions(0))  # Teams of two.
        10
    """

    Text = "games.avalon.text:AvalonText"
    Analysis = "games.avalon.assessor:AvalonAnalysis"
    Arrays = "games.avalon.notes:AvalonArrays"
    View = "games.avalon.view:AvalonView"

    def initial_state(self) -> AvalonState:
        return AvalonState(self)
