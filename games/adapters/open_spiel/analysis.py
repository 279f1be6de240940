"""Other worlds of OpenSpiel's games: histories that look the same to a seat."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from arena import CHANCE, Action, Decision, Event, GameAnalysis, Observation, Seat, Step
from arena.core.errors import UsageError
from games.adapters.library_game import (
    LibraryDrew,
    LibraryGame,
    LibraryMove,
    LibraryMoved,
    LibraryObserved,
)
from games.adapters.open_spiel import library
from games.adapters.open_spiel.game import NATIVE, OpenSpielGame, is_searchable
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
        """Draw another history with the same information state, by OpenSpiel or by search."""
        if not self.game.hides or self.game.is_sampled:
            return None
        return self.game.compute(other_world, history, player, rng=rng)


def other_world(
    game: OpenSpielGame, history: Sequence[Step], player: int, rng: random.Random
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
    game: OpenSpielGame, history: Sequence[Step], player: int, rng: random.Random
) -> list[Step] | None:
    state = OpenSpielState(game).apply_all(history)
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


def _known(state: OpenSpielState, player: int) -> tuple[tuple[int, ...], str]:
    """Return who acts, and the text of the player where it is shown."""
    visible = player in state.to_act or not state.to_act
    # A position within a simultaneous move shows nothing new.
    if state.pending or not (visible or state.game.texts_add_up) or state.to_act == (CHANCE,):
        return state.to_act, ""
    return state.to_act, state.game.text_of(state.spiel, player)


def _searched_world(
    game: OpenSpielGame, history: Sequence[Step], player: int, rng: random.Random
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


# Tree search


SIMULATIONS = 100
"""Budget of a decision: simulations, each with one random game to its end."""

WORLDS = 20
"""Worlds among which the simulations of a decision with hidden information are divided."""

MOST_MOVES = 4_000
"""Moves that are applied in the search for the worlds of a decision; half of them for the first."""

MOST_FAILURES = 8
"""Failed continuations of a world, after which an earlier decision is taken back."""


class TreeSearch:
    """OpenSpiel's `MCTSBot`, or its `ISMCTSBot` in games with hidden information.

    Both run 100 simulations for a decision, each valued by one random game (L. Kocsis and
    C. Szepesvári 2006; P. Cowling, E. Powley and D. Whitehouse 2012, information sets).

    The bot does not see hidden state: it has the observation of its seat only. Without hidden
    information the moves in it lead to the position. With hidden information up to 20 worlds are
    searched, in which the seat was shown the same texts before the same moves of its own; others
    and chance move at random in them, which is no posterior. If no world is found within 2,000
    moves, as in games that deal whole hands, a random legal move is played.
    """

    def __init__(self, seat: Seat) -> None:
        game = seat.game
        assert isinstance(game, LibraryGame)
        if not game.compute(is_searchable, rng=seat.rng):
            raise UsageError(
                f"{game.name}: bot:mcts plays no game with simultaneous moves, with rewards before "
                "the end, with chance of its own or in Python, nor bridge; bot:random plays any"
            )
        self._game, self._rng = game, seat.rng

    async def act(self, observation: Observation) -> Decision:
        legal, events = observation.legal_actions, tuple(observation.events)
        number = self._game.compute(searched, observation.player, events, rng=self._rng)
        chosen = (a for a in legal if isinstance(a, LibraryMove) and a.number == number)
        return Decision(next(chosen, None) or self._rng.choice(legal))


def searched(
    game: OpenSpielGame, player: int, events: Sequence[Event], rng: random.Random
) -> int | None:
    """Return the number of the move that the search finds; None if it has no world to search."""
    seed, most = rng.getrandbits(31), game.spiel.max_utility()
    exploration = 2.0 * (most if 0 < most < float("inf") else 1.0)
    if not game.hides:
        position = _position(game, player, events)
        return None if position is None else _mcts(game, position, exploration, seed)
    worlds = _worlds(game, player, events, rng)
    return _ismcts(game, worlds, exploration, seed) if worlds else None


def _position(game: OpenSpielGame, player: int, events: Sequence[Event]) -> Any:
    """Return OpenSpiel's state after moves that are all public; None if their texts are not one
    move each."""
    state = game.spiel.new_initial_state()
    for event in events:
        match event:
            case LibraryDrew(text):
                actor, numbers = CHANCE, [number for number, _ in state.chance_outcomes()]
            case LibraryMoved(actor, text):
                numbers = state.legal_actions(actor)
            case _:
                continue
        fitting = [n for n in numbers if game.event_text(state, actor, n) == text]
        if len(fitting) != 1:
            return None
        state.apply_action(fitting[0])
    return state if state.current_player() == player else None


def _mcts(game: OpenSpielGame, position: Any, exploration: float, seed: int) -> int:
    spiel = library.pyspiel()
    rollouts = spiel.RandomRolloutEvaluator(1, seed)
    bot = spiel.MCTSBot(game.spiel, rollouts, exploration, SIMULATIONS, 256, True, seed, False)
    return int(bot.step(position))


def _ismcts(game: OpenSpielGame, worlds: Sequence[Any], exploration: float, seed: int) -> int:
    import numpy as np
    from open_spiel.python.algorithms import ismcts, mcts

    draws, left = np.random.RandomState(seed), list(worlds)
    by_observation = not game.spiel.get_type().provides_information_state_string
    bot = ismcts.ISMCTSBot(
        game.spiel,
        mcts.RandomRolloutEvaluator(1, draws),
        exploration,
        SIMULATIONS,
        len(worlds),
        draws,
        use_observation_string=by_observation,
        allow_inconsistent_action_sets=by_observation,
    )
    bot.set_resampler(lambda *_: left.pop())
    return int(bot.step(worlds[0]))


def _worlds(
    game: OpenSpielGame, player: int, events: Sequence[Event], rng: random.Random
) -> list[Any]:
    """Return states of OpenSpiel in which the seat was shown the same before each of its moves.

    Each is played at random from one decision of the seat to the next. Where the texts differ, it
    is played again, and after some failures from an earlier decision on.
    """
    decisions, start = _decisions(events), game.spiel.new_initial_state()
    worlds, reached, failures, applied = list[Any](), [start], [0], 0
    while applied < (MOST_MOVES if worlds else MOST_MOVES // 2) and len(worlds) < WORLDS:
        text, move = decisions[len(reached) - 1]
        state = reached[-1].clone()
        while not state.is_terminal() and state.current_player() != player:
            state.apply_action(_random_number(state, rng))
            applied += 1
        applied += 1
        is_same = not state.is_terminal() and game.text_of(state, player) == text
        if is_same and len(reached) == len(decisions):
            worlds.append(state)
            reached, failures = [start], [0]
            continue
        legal = state.legal_actions() if is_same else []
        number = next((n for n in legal if game.event_text(state, player, n) == move), None)
        if number is not None:
            state.apply_action(number)
            reached.append(state)
            failures.append(0)
            continue
        failures[-1] += 1
        if failures[-1] >= MOST_FAILURES and len(reached) > 1:
            reached.pop()
            failures.pop()
            failures[-1] += 1
    return worlds


def _decisions(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Return what the seat was shown and the text of its move, for each decision; the last one is
    the present, without a move."""
    decisions, shown = list[tuple[str, str]](), ""
    for event in events:
        if isinstance(event, LibraryObserved):
            shown = event.text
        elif isinstance(event, LibraryMoved):
            decisions.append((shown, event.move))
    return [*decisions, (shown, "")]


def _random_number(state: Any, rng: random.Random) -> int:
    if not state.is_chance_node():
        return int(rng.choice(state.legal_actions()))
    numbers, weights = zip(*state.chance_outcomes(), strict=True)
    return int(rng.choices(numbers, weights)[0])
