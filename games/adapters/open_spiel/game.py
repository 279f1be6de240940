"""OpenSpiel's games as games of arena."""

from __future__ import annotations

import random
from collections.abc import Sequence

from arena import Step
from games.adapters.open_spiel.rules import OpenSpielRules
from games.adapters.open_spiel.state import OpenSpielState
from games.adapters.open_spiel.worlds import other_world


class OpenSpielGame(OpenSpielRules):
    """A game of OpenSpiel. Its options are the parameters of the library."""

    def initial_state(self) -> OpenSpielState:
        return OpenSpielState(self)

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw another history with the same information state, by OpenSpiel or by search."""
        if not self.hides or self.is_sampled:
            return None
        return other_world(self, history, player, rng)
