"""The family `open_spiel`: classes of its games, made on request, and their list."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from pydantic import Field, create_model

from arena.core.game import Game, GameOptions
from arena.plugins.families import FamilyGame, unknown_game
from games.adapters.open_spiel import library
from games.adapters.open_spiel.game import OpenSpielGame
from games.adapters.open_spiel.rules import fault_of
from games.adapters.open_spiel.worlds import NATIVE

FAMILY = "open_spiel"


class OpenSpielFamily:
    """All games that OpenSpiel registers, by their short names."""

    def game_class(self, name: str) -> type[Game]:
        """Return the class of a game. Raises UsageError or MissingDependency."""
        kinds = library.game_types()
        if name not in kinds:
            raise unknown_game(FAMILY, "OpenSpiel", name, kinds)
        return _game_class(name)

    def games(self) -> Sequence[FamilyGame]:
        """Return all games, in alphabetical order."""
        return [_listed(name, kind) for name, kind in sorted(library.game_types().items())]


OPEN_SPIEL = OpenSpielFamily()


@cache
def _game_class(name: str) -> type[OpenSpielGame]:
    kind = library.game_types()[name]
    contents: dict[str, Any] = {
        "__doc__": f"{kind.long_name}, as OpenSpiel implements it.",
        "name": f"{FAMILY}/{name}",
        "summary": f"{kind.long_name} (OpenSpiel)",
        "kind": kind,
        "Options": _options(name, kind),
    }
    return type(f"OpenSpiel_{name}", (OpenSpielGame,), contents)


def _options(name: str, kind: Any) -> type[GameOptions]:
    """Return a model of the game's parameters, with the library's defaults and types."""
    fields: dict[str, Any] = {}
    for parameter, default in library.option_defaults(kind).items():
        note = f"Parameter of OpenSpiel's {name}."
        fields[parameter] = (type(default), Field(default, description=note))
    return create_model(f"OpenSpielOptions_{name}", __base__=GameOptions, **fields)


def _listed(name: str, kind: Any) -> FamilyGame:
    types = library.pyspiel().GameType
    low, high = kind.min_num_players, kind.max_num_players
    hides = kind.information == types.Information.IMPERFECT_INFORMATION
    features = []
    if kind.provides_information_state_tensor or kind.provides_observation_tensor:
        features.append("arrays")
    if hides and kind.chance_mode != types.ChanceMode.SAMPLED_STOCHASTIC:
        features.append("leak test (OpenSpiel's)" if name in NATIVE else "leak test")
    if kind.dynamics == types.Dynamics.SIMULTANEOUS:
        features.append("simultaneous")
    # The type of a game that is made from another one says nothing before that one is named.
    fault = fault_of(kind) if kind.default_loadable else "it needs parameters"
    return FamilyGame(
        name=f"{FAMILY}/{name}",
        summary=kind.long_name,
        players=str(low) if low == high else f"{low}-{high}",
        information="imperfect" if hides else "perfect",
        features=tuple(features),
        problem=fault,
    )
