"""OpenSpiel's games as games of arena, made on request, and their other worlds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from pydantic import ConfigDict, Field, create_model

from arena import CHANCE, Action, GameAnalysis, Step
from arena.core.game import Game, GameOptions
from arena.plugins.families import FamilyGame, unknown_game
from games.adapters.open_spiel import library
from games.adapters.open_spiel.rules import OpenSpielRules, fault_of
from games.adapters.open_spiel.state import OpenSpielState


class OpenSpielOptions(GameOptions):
    """Parameters of the library. Some texts consist of digits: `nim:pile_sizes=5`."""

    model_config = ConfigDict(coerce_numbers_to_str=True)


class OpenSpielGame(OpenSpielRules):
    """A game of OpenSpiel. Its options are the parameters of the library."""

    Analysis = "games.adapters.open_spiel.game:OpenSpielAnalysis"

    def _first_state(self) -> OpenSpielState:
        return OpenSpielState(self)


# Other worlds


MOST_MOVES = 2_000
"""Moves that the search applies before it gives up."""

MOST_CHOICES = 20
"""Results of chance that the search tries at one position."""

NATIVE = frozenset(
    ["bargaining", "bridge", "euchre", "gin_rummy", "hearts", "leduc_poker", "oh_hell"]
)
"""Games whose states have `resample_from_infostate`."""


class OpenSpielAnalysis(GameAnalysis):
    """Other histories of a game of OpenSpiel."""

    game: OpenSpielRules

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw another history with the same information state, by OpenSpiel or by search."""
        if not self.game.hides or self.game.is_sampled:
            return None
        return self.game.compute(other_world, history, player, rng=rng)


def other_world(
    game: OpenSpielRules, history: Sequence[Step], player: int, rng: random.Random
) -> list[Step]:
    """Return a history with the same information for `player`.

    It is OpenSpiel's own where it has one. Otherwise it is searched: of the same length, with the
    same seats to act and the same texts for the player. The same history is returned if the search
    finds no other.
    """
    if game.short_name in NATIVE and history:
        steps = _native_world(game, history, player, rng)
        if steps is not None:
            return steps
    return _searched_world(game, history, player, rng)


def _native_world(
    game: OpenSpielRules, history: Sequence[Step], player: int, rng: random.Random
) -> list[Step] | None:
    state = _play(game, history)
    # The library's information state of a seat is defined where that seat acts.
    if state.to_act != (player,):
        return None
    try:
        with library.without_messages():
            world = state.spiel.resample_from_infostate(player, rng.random)
    except library.pyspiel().SpielError:
        return None
    twin, steps = OpenSpielState(game), list[Step]()
    for number in world.history():
        actor = twin.to_act[0]
        action: Action = (
            twin.chance_action(number) if actor == CHANCE else game.moves[actor][number]
        )
        twin.apply(actor, action)
        steps.append(Step(actor, action))
    return steps


def _play(game: OpenSpielRules, history: Sequence[Step]) -> OpenSpielState:
    state = OpenSpielState(game)
    for step in history:
        state.apply(step.player, step.action)
    return state


def _known(state: OpenSpielState, player: int) -> tuple[tuple[int, ...], str]:
    """Return who acts, and the text of the player where it is shown."""
    visible = player in state.to_act or not state.to_act
    # A position within a simultaneous move shows nothing new.
    if state.pending or not (visible or state.game.texts_add_up) or state.to_act == (CHANCE,):
        return state.to_act, ""
    return state.to_act, state.game.text_of(state.spiel, player)


def _searched_world(
    game: OpenSpielRules, history: Sequence[Step], player: int, rng: random.Random
) -> list[Step]:
    """Search in random order, with backtracking."""
    state = OpenSpielState(game)
    wanted = []
    for step in history:
        state.apply(step.player, step.action)
        wanted.append(_known(state, player))
    path: list[OpenSpielState] = [OpenSpielState(game)]
    steps, choices = list[Step](), list[Iterator[Action]]()
    for _ in range(MOST_MOVES):
        depth = len(steps)
        if depth == len(history):
            return steps
        if len(choices) == depth:
            choices.append(_choices(path[-1], history[depth], player, rng))
        action = next(choices[-1], None)
        if action is None:
            # Back to the position before, where another choice is tried.
            choices.pop()
            if not choices:
                break
            path.pop()
            steps.pop()
            continue
        twin = path[-1].clone()
        twin.apply(history[depth].player, action)
        if _known(twin, player) == wanted[depth]:
            path.append(twin)
            steps.append(Step(history[depth].player, action))
    return list(history)


def _choices(
    state: OpenSpielState, step: Step, player: int, rng: random.Random
) -> Iterator[Action]:
    """Yield legal actions to try in place of a step; of the player itself only its own move."""
    action = step.action
    if step.player == CHANCE:
        numbers = [n for n, p in state.spiel.chance_outcomes() if p > 0]
        rng.shuffle(numbers)
        yield from map(state.chance_action, numbers[:MOST_CHOICES])
        return
    legal = list(state.legal_actions(step.player))
    if step.player == player:
        legal = [action] if action in legal else []
    rng.shuffle(legal)
    yield from legal


# The family


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
    return create_model(f"OpenSpielOptions_{name}", __base__=OpenSpielOptions, **fields)


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
