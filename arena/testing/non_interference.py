"""Checks of non-interference: no player can tell its world from another that fits what it saw."""

from __future__ import annotations

from collections.abc import Sequence

from arena.core.action import CHANCE, Step
from arena.core.game import Game
from arena.core.observation import Observation
from arena.core.seeds import stream
from arena.core.state import State
from arena.testing.positions import fingerprint, replay_history, sampled_positions
from arena.testing.reachable import first_difference, reachable

RENDERED = 3
"""Last moves of a history before which the players also read texts."""


def check_non_interference(game: Game, seed: int, samples: int = 12) -> None:
    """Check that observations do not depend on what is hidden from their player.

    `GameAnalysis.resample` draws another world, in which the player has seen the same.
    Both are played from the start. Texts, arrays, actions, order and sizes must be equal.
    """
    assert not game.initial_state().log.events, "events before the first move reach no replay"
    rng, secrets, changed = stream(seed, "worlds"), False, False
    for position in sampled_positions(game, seed, samples):
        _check_sealed(position.state, seed)
        # Without private events there may be nothing to hide, and `resample` need not exist.
        private = [event for event in position.state.log.events if event.audience is not None]
        secrets |= bool(private)
        for player in range(game.num_players):
            other = game.analysis.resample(position.history, player, rng)
            if other is None:
                assert not private, f"{game.name} has private events and no `resample`"
                continue
            changed |= other != list(position.history)
            mine = position.state.observe(player)
            theirs = replay_history(game, other).observe(player)
            assert fingerprint(mine) == fingerprint(theirs), (
                f"seed {seed}, after {len(position.history)} plies: player {player} can tell "
                f"its world from another:\n{mine.text()}\n--- other world:\n{theirs.text()}"
            )
    # A `resample` that returns the same world would make all comparisons pass.
    assert changed or not secrets, f"seed {seed}: `resample` of {game.name} never changes anything"


def check_reachable(game: Game, seed: int, samples: int = 3) -> None:
    """Check that no player can reach hidden information by following references.

    As in `check_non_interference`, but each world is played in a game object of its own, and all
    values that can be reached from the observation by attribute must be equal: caches, notes,
    attributes of the game. To save time, one player is drawn for each position.
    """
    rng = stream(seed, "reachable")
    for position in sampled_positions(game, seed, samples):
        player = rng.randrange(game.num_players)
        other = game.analysis.resample(position.history, player, rng)
        if other is None:
            continue
        # Listed before the other world is played: both may share objects that change.
        mine = [found.token for found in reachable(_play_world(game, position.history, player))]
        difference = first_difference(mine, _play_world(game, other, player))
        assert difference is None, (
            f"seed {seed}, after {len(position.history)} plies: player {player} can reach what is "
            f"hidden from it, at {difference}"
        )


def _play_world(game: Game, history: Sequence[Step], player: int) -> Observation:
    """Play a history in a new game object; return what `player` observes at the end.

    The players use their observations before they act, as agents do, so that caches fill up. Text
    takes longest, so it is rendered near the end only.
    """
    # A new object, because a cache on the game would be shared by both worlds.
    state = type(game)(**game.options.model_dump()).initial_state()
    for number, move in enumerate(history):
        if move.player != CHANCE:
            observation = state.observe(move.player)
            assert observation.legal_actions.mask.any()
            state.game.fallback_actions(observation)
            if number >= len(history) - RENDERED:
                fingerprint(observation)
        state.apply(move.player, move.action)
    observation = state.observe(player)
    fingerprint(observation)
    return observation


def _check_sealed(state: State, seed: int) -> None:
    """Check that no player sees that, or what, another has committed in a simultaneous move."""
    if len(state.to_act) < 2:
        return
    for player in state.to_act:
        # Each player commits in a copy of its own, so the commitments do not mix.
        twin = state.clone()
        twin.apply(player, stream(seed, "sealed").choice(twin.legal_actions(player)))
        for other in set(range(state.game.num_players)) - {player}:
            before, after = fingerprint(state.observe(other)), fingerprint(twin.observe(other))
            assert before == after, f"seed {seed}: player {other} sees that {player} has committed"
