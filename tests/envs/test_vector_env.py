"""The vectorised environment plays the same games as `MultiAgentEnv`, only many at once."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import arena.envs
from arena.core.batch.chance_streams import ChanceStreams
from arena.core.batch.tabulated import PositionTable
from arena.core.errors import IllegalAction, UsageError
from arena.core.game import Game
from arena.core.seeds import stream
from arena.envs import vector
from arena.envs.multi_agent import MultiAgentEnv
from arena.envs.vector_env import VectorMultiAgentEnv
from arena.plugins.loader import make_game

BATCHED: list[tuple[str, dict[str, Any]]] = [
    ("kuhn_poker", {}),
    ("leduc_poker", {}),
    ("liars_dice", {}),
    ("liars_dice", {"players": 3, "dice": 2, "rounds": "last_standing", "wild": "ones"}),
    ("liars_dice", {"players": 4, "dice": 3, "faces": 4, "bidding_rule": "reset-quantity"}),
    ("liars_dice", {"players": 2, "dice": 4, "wild": "none", "rounds": "last_standing"}),
    ("goofspiel", {}),
    ("goofspiel", {"players": 4, "cards": 13}),
    ("goofspiel", {"players": 3, "cards": 5, "prizes": "descending"}),
    ("cluedo", {}),
    ("cluedo", {"players": 2, "suspects": 3, "weapons": 2, "rooms": 3}),
    ("cluedo", {"players": 3, "refuters": "all", "first_player": "random"}),
    ("cluedo", {"players": 6, "leftover_cards": "open"}),
    ("cluedo", {"players": 5, "theme": "generated", "suspects": 9, "weapons": 7, "rooms": 12}),
]
"""Games with rules on arrays: all five of them, with every option that changes the rules."""
UNBATCHED: list[tuple[str, dict[str, Any]]] = [
    ("tictactoe", {}),
    ("battleship", {}),
    ("cluedo", {"variant": "classic", "players": 3}),
]


class SingleGame:
    """One game of `MultiAgentEnv`, whose simultaneous moves are committed one by one."""

    def __init__(self, game: Game, max_turns: int | None) -> None:
        self.env = MultiAgentEnv(game, max_turns)
        self.ended = ""

    def reset(self, seed: int | None) -> None:
        self.seen, _ = self.env.reset(seed=seed)
        self.committed: dict[int, int] = {}

    @property
    def player(self) -> int:
        return next(player for player in self.seen if player not in self.committed)

    def step(self, action: int) -> list[float]:
        """Commit an action; return what each player has earned by it."""
        before = self.env.state.returns()
        self.committed[self.player] = action
        self.ended = ""
        if len(self.committed) == len(self.seen):
            self.seen, _, terminations, truncations, _ = self.env.step(self.committed)
            self.committed = {}
            if not self.env.agents:
                assert terminations["__all__"] != truncations["__all__"]
                self.ended = "terminated" if terminations["__all__"] else "truncated"
        after = self.env.state.returns()
        return [float(b - a) for a, b in zip(before, after, strict=True)]


def assert_same(single: dict[str, Any], batch: dict[str, Any], row: object) -> None:
    assert single.keys() == batch.keys()
    for name, array in single.items():
        assert batch[name].dtype == array.dtype
        np.testing.assert_array_equal(batch[name][row], array, err_msg=name)


def choose(mask: np.ndarray[Any, Any], rng: random.Random, careful: bool) -> int:
    """Draw a legal action. Careful play makes games longer: it suggests and bids low."""
    legal = np.flatnonzero(mask)
    if careful and len(legal) > 6 and rng.random() < 0.99:
        # Of hundreds of actions after a suggestion, the last one ends the turn.
        ends_turn = len(legal) > 20 and legal[0] > 0 and legal[-1] - legal[0] > 300
        legal = legal[-1:] if ends_turn else legal[: len(legal) // 3]
    return int(rng.choice(legal))


STYLES = [("uniform", None, 60), ("careful", None, 60), ("uniform", 5, 25)]


@pytest.mark.parametrize(("name", "options"), BATCHED + UNBATCHED, ids=str)
@pytest.mark.parametrize(("style", "max_turns", "steps"), STYLES, ids=str)
def test_equal_seeds_and_actions_give_equal_games(
    name: str, options: dict[str, Any], style: str, max_turns: int | None, steps: int
) -> None:
    game, seed, rng = make_game(name, **options), 2**33 - 2, random.Random(1)
    env = VectorMultiAgentEnv(game, 3, max_turns, final_observations=True)
    assert env.has_batch_rules == ((name, options) in BATCHED)
    compare(env, seed, steps, rng, careful=style == "careful")


def compare(
    env: VectorMultiAgentEnv, seed: int, steps: int, rng: random.Random, careful: bool
) -> int:
    """Play the same actions in both environments; return the number of games that ended."""
    singles = [SingleGame(env.game, env.max_turns) for _ in range(env.num_envs)]
    for place, single in enumerate(singles):
        single.reset(seed + place)
    seen, infos = env.reset(seed=seed)
    assert env.observation_space.contains(seen)
    games = 0
    for _ in range(steps):
        for place, single in enumerate(singles):
            assert infos["player"][place] == single.player
            assert env.seeds[place] == single.env.seed
            assert_same(single.seen[single.player]["observation"], seen["observation"], place)
            np.testing.assert_array_equal(
                seen["action_mask"][place], single.seen[single.player]["action_mask"]
            )
        actions = [choose(mask, rng, careful) for mask in seen["action_mask"]]
        seen, rewards, terminations, truncations, infos = env.step(actions)
        for place, single in enumerate(singles):
            assert rewards[place].tolist() == single.step(actions[place])
            assert terminations[place] == (single.ended == "terminated")
            assert truncations[place] == (single.ended == "truncated")
            if single.ended:
                games += 1
                assert infos["_final_obs"][place]
                for player, last in single.seen.items():
                    assert_same(last["observation"], infos["final_obs"], (place, player))
                single.reset(None)
    assert env.observation_space.contains(seen)
    return games


def test_the_longest_games_of_cluedo() -> None:
    """So many suggestions that the array of the latest ones is written from its end again."""
    env = VectorMultiAgentEnv(make_game("cluedo", players=3), 1, final_observations=True)
    rng = random.Random(3)
    compare(env, 5, 420, rng, careful=True)
    assert env._batch.turn[0] > 100


def test_chance_streams_draw_what_random_draws() -> None:
    seeds = [0, 1, -5, 2**63 - 1, -(2**63), *range(100, 140)]
    streams, alone = ChanceStreams(seeds, 4), [stream(seed, "chance") for seed in seeds]
    for number in (2, 3, 6, 9, 17, 64, 1000):
        assert streams.below(number).tolist() == [rng.randrange(number) for rng in alone]
        assert streams.random().tolist() == [rng.random() for rng in alone]
        weights = [rank / 7 for rank in range(1, number % 11 + 2)]
        drawn = [rng.choices(range(len(weights)), weights)[0] for rng in alone]
        assert streams.choose(weights).tolist() == drawn


def test_a_game_of_many_positions_is_not_tabulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arena.core.batch.tabulated.MOST_POSITIONS", 500)
    with pytest.raises(UsageError, match="more than 500 positions"):
        PositionTable(make_game("tictactoe"))


def test_arrays_are_fresh() -> None:
    env = vector("leduc_poker", 8)
    first, _ = env.reset(seed=1)
    kept = {name: array.copy() for name, array in first["observation"].items()}
    # A caller may write into what it gets, and a step does not change what it got earlier.
    first["action_mask"][:] = 0
    second, *_ = env.step(np.full(8, 1))
    for array in second["observation"].values():
        array[:] = 0
    for name, array in kept.items():
        np.testing.assert_array_equal(first["observation"][name], array)
    env.step(env.step(np.full(8, 1))[0]["action_mask"].argmax(axis=1))


def test_each_game_has_the_seed_that_was_given_for_it() -> None:
    env = vector("kuhn_poker", 3)
    env.reset(seed=[5, None, 7])
    assert env.seeds[[0, 2]].tolist() == [5, 7]


def test_a_reset_without_seeds_continues_the_series() -> None:
    env, single = vector("kuhn_poker", 2), MultiAgentEnv(make_game("kuhn_poker"))
    env.reset(seed=10)
    single.reset(seed=11)
    for _ in range(20):
        env.reset()
        single.reset()
        assert env.seeds[1] == single.seed


def test_wrong_arguments_are_errors_and_change_nothing() -> None:
    for arguments in ({"num_envs": 0}, {"num_envs": 2.0}, {"num_envs": 2, "max_turns": 0}):
        with pytest.raises(UsageError):
            vector("kuhn_poker", **arguments)
    with pytest.raises(UsageError, match="has its options already"):
        vector(make_game("goofspiel"), 2, cards=4)
    env = vector("goofspiel", 2)
    with pytest.raises(UsageError, match=r"call reset\(\)"):
        env.step([0, 0])
    for seed in (1.5, "7", 2**63 - 1, [1], [1, "x"], True):
        with pytest.raises(UsageError, match="seed"):
            env.reset(seed=seed)  # type: ignore[arg-type]
    env.reset(seed=0)
    env.step([2, 3])
    env.step([2, 3])
    before = env._batch.arrays(np.arange(2), np.zeros(2, np.int64))
    for actions, message in (
        ([0, 3], r"game 1, player 0: action 3, 'bid 4', is not allowed now"),
        ([6, 0], "game 0, player 0: there is no action 6; they go from 0 to 5"),
        ([0, -1], "game 1, player 0: there is no action -1"),
    ):
        with pytest.raises(IllegalAction, match=message):
            env.step(actions)
    for wrong in ([0], [0.0, 1.0], [[0, 1]], ["0", "1"]):
        with pytest.raises(UsageError, match="give 2 integers"):
            env.step(wrong)
    after = env._batch.arrays(np.arange(2), np.zeros(2, np.int64))
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name])


def test_the_public_name() -> None:
    assert arena.envs.vector is vector
    env = vector("cluedo", 2, players=3)
    assert env.game == make_game("cluedo", players=3)
    assert env.single_action_space.n == len(env.game.actions)
    env.close()
