"""Checks of the rules (actions, chance, returns, clones, pickles) and of replays."""

from __future__ import annotations

import json
import math
import pickle
import random
import tempfile
from pathlib import Path
from zlib import crc32

from pydantic import JsonValue

from arena.core.action import CHANCE
from arena.core.game import Game, State
from arena.core.spec import stream
from arena.core.text import appearance
from arena.episodes.files import ReplayWriter
from arena.episodes.match import act_out
from arena.episodes.replay import read_replay, verify
from arena.testing.positions import (
    LONGEST,
    Choose,
    fingerprint,
    played,
    public_facts,
    random_positions,
    sampled_positions,
)


def check_hashing(game: Game) -> None:
    """Check that equal options make equal games, with equal hashes."""
    twin = type(game)(**game.options.model_dump())
    assert twin == game and hash(twin) == hash(game), "a game made again is not equal to itself"
    assert pickle.loads(pickle.dumps(game)) == game, "a game does not survive pickling"
    names = game.seat_names
    assert all(map(str.isprintable, names)), f"invisible characters in the names of seats: {names}"
    assert len(set(map(appearance, names))) == game.num_players, f"seats look alike: {names}"


def check_codec(game: Game) -> None:
    """Check that `str(action)` names this action and no other."""
    for action in game.actions:
        assert game.actions.parse(str(action)) == action, f"'{action}' does not parse back"
    assert len(game.actions.index) == len(game.actions), "the table contains an action twice"
    for kind in game.speech:
        spoken = kind.read("yes 1")
        assert game.actions.parse(str(spoken)) == spoken, f"'{spoken}' does not parse back"


def check_random_play(game: Game, seed: int) -> None:
    """Check legal actions, chance and returns at every position, and that the game ends."""
    for position in random_positions(game, seed):
        state = position.state
        assert state.turn <= (game.turn_bound or LONGEST), f"seed {seed}: more than `turn_bound`"
        _check_returns(game, state, seed)
        if state.to_act == (CHANCE,):
            _check_chance(state, seed)
            continue
        for player in state.to_act:
            legal = state.legal_actions(player)
            fallbacks = game.fallback_actions(state.observe(player))
            assert fallbacks and set(fallbacks) <= set(legal), f"seed {seed}: a fallback is illegal"
            # Five of them: some positions have hundreds of actions.
            for action in random.Random(seed).sample(legal, min(5, len(legal))):
                assert state.parse(str(action)) == action, f"seed {seed}: '{action}' is not parsed"
        for player in set(range(game.num_players)) - set(state.to_act):
            assert not state.legal_actions(player), f"seed {seed}: {player} acts out of turn"
    assert state.to_act or state.reason(), "a finished game needs a reason"


AIMLESS: dict[str, Choose] = {
    "first": lambda seen: seen.legal_actions[0],
    "last": lambda seen: seen.legal_actions[-1],
    # Orders of preference: one for all decisions, which repeats actions, and a new one for each.
    "same": lambda seen: min(seen.legal_actions, key=lambda each: crc32(f"{each}".encode())),
    "random": lambda seen: min(
        seen.legal_actions, key=lambda each: crc32(f"{each} {seen.num_events}".encode())
    ),
    "fallback": lambda seen: seen.game.fallback_actions(seen)[0],
}
"""Players without aim."""


def check_length(game: Game) -> None:
    """Check that games of players without aim end by the bound or the limit that is stated."""
    assert game.turn_bound or game.default_max_turns, (
        f"{game.name} states no bound on its length: set `turn_bound`, or `default_max_turns` if "
        "the rules give no bound"
    )
    for name, choose in AIMLESS.items():
        for position in random_positions(game, 0, choose):
            turn = position.state.turn
            assert turn <= (game.turn_bound or LONGEST), (
                f"the game of the players '{name}' has {turn} turns: more than its `turn_bound`"
            )


def _check_returns(game: Game, state: State, seed: int) -> None:
    returns = state.returns()
    assert len(returns) == state.game.num_players, "returns need one entry per player"
    assert all(map(math.isfinite, returns)), f"seed {seed}: returns are not finite: {returns}"
    teams = state.teams()
    for team in set(teams):
        shared = {value for value, of in zip(returns, teams, strict=True) if of == team}
        assert len(shared) == 1, f"seed {seed}: members of team {team} have returns {shared}"
    low, high = game.return_scale.bounds
    assert all(low <= value <= high for value in returns), (
        f"seed {seed}: returns are outside of `return_scale`, {low:g} to {high:g}: {returns}"
    )


def _check_chance(state: State, seed: int) -> None:
    """Check the result of `sample_chance`, and the probabilities if the game lists them."""
    drawn = state.sample_chance(stream(seed, "draw"))
    assert state.parse(str(drawn)) == drawn, f"seed {seed}: '{drawn}' does not parse back"
    try:
        outcomes = state.chance_outcomes()
    except NotImplementedError:
        return  # Too many outcomes to list them.
    probabilities = [outcome.probability for outcome in outcomes]
    # A comparison with NaN is false, so NaN fails too.
    assert all(0 <= p <= 1 for p in probabilities), (
        f"seed {seed}: a probability of chance is not between 0 and 1: {probabilities}"
    )
    total = math.fsum(probabilities)
    assert math.isclose(total, 1, abs_tol=1e-9), (
        f"seed {seed}: the probabilities of chance add up to {total}, not 1"
    )
    actions = [outcome.action for outcome in outcomes]
    assert len(set(actions)) == len(actions), f"seed {seed}: a result of chance is listed twice"
    assert drawn in actions, f"seed {seed}: '{drawn}' is drawn but not listed"


def check_copies(game: Game, seed: int) -> None:
    """Check that clones and pickles equal their original, and that use changes nothing in it.

    Bytes that depend on use would show, in a worker or a replay, what other players have done. To
    save time, one player is drawn for each position.
    """
    rng = stream(seed, "copies")
    for position in sampled_positions(game, seed):
        state, player = position.state, rng.randrange(game.num_players)
        # The snapshot comes first: a clone that shares values would change both.
        visible, kept, twin = _visible(state, player), _pickled_fields(state), state.clone()
        assert _visible(twin, player) == visible, f"seed {seed}: a clone differs from its original"
        act_out(twin, rng, plies=5)
        after = _pickled_fields(state)
        shared = [name for name, value in kept.items() if after.get(name) != value]
        assert not shared, (
            f"seed {seed}: moves on a clone changed {', '.join(shared)} of its original: a state "
            "that holds mutable values copies them in clone()"
        )
        assert _visible(state, player) == visible, (
            f"seed {seed}: moves on a clone changed what its original shows"
        )
        twin = pickle.loads(pickle.dumps(state))
        observation = twin.observe(player)
        pickled = pickle.dumps(observation)
        # This use fills the caches, which must not enter the pickle.
        assert (public_facts(twin), fingerprint(observation)) == visible, (
            f"seed {seed}: a state pickles wrongly"
        )
        observation.legal_actions.complete()
        assert pickle.dumps(observation) == pickled, (
            f"seed {seed}: the pickle of an observation changes when it is used"
        )
        assert fingerprint(pickle.loads(pickled)) == visible[1], (
            f"seed {seed}: an observation pickles wrongly"
        )


def _visible(state: State, player: int) -> tuple[bytes, bytes]:
    return public_facts(state), fingerprint(state.observe(player))


def _pickled_fields(state: State) -> dict[str, bytes]:
    fields = state.__getstate__()
    return {name: pickle.dumps(value) for name, value in fields.items() if name != "game"}


# Replays


def check_replay(game: Game, seed: int) -> None:
    """Check that the replay of a game verifies, and that a seed gives the same bytes twice."""
    with tempfile.TemporaryDirectory() as folder:
        # Both have the same name; the writer adds a number to the second one.
        writers = [ReplayWriter(Path(folder), "game") for _ in range(2)]
        for writer in writers:
            played(game, seed, watchers=[writer])
        difference = verify(read_replay(writers[0].path))
        assert difference is None, f"seed {seed}: the replay does not verify: {difference}"
        first, second = (without_times(writer.path) for writer in writers)
        assert first == second, f"seed {seed}: two runs differ"


def without_times(path: Path) -> list[dict[str, JsonValue]]:
    """Return the lines of a replay without the two kinds of times."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{k: v for k, v in line.items() if k not in ("created", "seconds")} for line in lines]
