"""OpenSpiel's games as games of arena."""

from __future__ import annotations

from games.adapters.open_spiel.rules import OpenSpielRules
from games.adapters.open_spiel.state import OpenSpielState


class OpenSpielGame(OpenSpielRules):
    """A game of OpenSpiel. Its options are the parameters of the library."""

    Analysis = "games.adapters.open_spiel.worlds:OpenSpielAnalysis"

    def initial_state(self) -> OpenSpielState:
        return OpenSpielState(self)
