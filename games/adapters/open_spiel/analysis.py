"""Other worlds of OpenSpiel's games: histories that look the same to a seat."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from arena import CHANCE, Action, GameAnalysis, Step
from games.adapters.library_game import compute
from games.adapters.open_spiel.game import OpenSpielGame
from games.adapters.open_spiel.state import OpenSpielState

MOST_MOVES = 2_000
"""Moves that the search applies before it gives up."""

MOST_CHOICES = 20
"""Results of chance that the search tries at one position."""


class OpenSpielAnalysis(GameAnalysis):
    """Other histories of a game of OpenSpiel."""

    game: OpenSpielGame

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw another history with the same information for the player."""
        if not self.game.hides or self.game.is_sampled:
            return None
        return compute(self.game, other_world, history, player, rng=rng)


def _known(state: OpenSpielState, player: int) -> tuple[tuple[int, ...], str]:
    """Return who acts, and the text of the player where it is shown."""
    visible = player in state.to_act or not state.to_act
    # A position within a simultaneous move shows nothing new.
    if state.pending or not (visible or state.game.texts_add_up) or state.to_act == (CHANCE,):
        return state.to_act, ""
    return state.to_act, state.game.text_of(state.spiel, player)


def other_world(
    game: OpenSpielGame, history: Sequence[Step], player: int, rng: random.Random
) -> list[Step]:
    """Return a history with the same information for `player`, by search with backtracking.

    It has the same length, the same seats to act and the same texts for the player. The same
    history is returned if the search finds no other.
    """
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
