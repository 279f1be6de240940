"""Entry point of the conformance kit.

    from arena.testing import check_game

    def test_my_game() -> None:
        check_game(MyGame(players=3))

Each check raises AssertionError with the seed and the player that show the fault.
"""

from __future__ import annotations

from collections.abc import Iterable

from arena.core.errors import UsageError
from arena.core.game import Game
from arena.plugins.catalog import catalog
from arena.testing.facets import (
    check_drawing,
    check_measures,
    check_observations,
    check_targets,
)
from arena.testing.non_interference import (
    check_non_interference,
    check_reachable,
    check_schedule,
)
from arena.testing.rules import (
    check_codec,
    check_copies,
    check_hashing,
    check_length,
    check_random_play,
    check_replay,
)


def check_registered(game: Game) -> None:
    """Raise UsageError unless arena finds this game by its name, as replays require."""
    __tracebackhide__ = True
    # A game of another library has the name of its family before a slash.
    names = {*catalog().names("game"), *catalog().names("game_family")}
    if game.name.partition("/")[0] not in names:
        kind = type(game)
        raise UsageError(
            f"the game '{game.name}' has no entry point, so arena cannot find it by its name: add "
            f'catalog.add("game", "{game.name}", "{kind.__module__}:{kind.__name__}") to a '
            "function register(catalog), name that function in pyproject.toml "
            '([project.entry-points.arena] NAME = "MODULE:register"), and install the package '
            "(pip install -e .)"
        )


def check_game(game: Game, seeds: Iterable[int] = range(3)) -> None:
    """Run every check on `game`.

    The class of the game is created again from its options alone. Each seed gives other games of
    random play; odd and even ones differ, see `random_positions`. Raises AssertionError if a check
    has failed, and UsageError if the game is not registered, so that its replays could not be read.
    """
    # Test runners leave out this frame, so the message of a check is what they show.
    __tracebackhide__ = True
    check_registered(game)
    seeds = tuple(seeds)
    check_hashing(game)
    check_codec(game)
    check_length(game)
    for seed in seeds:
        check_random_play(game, seed)
        check_copies(game, seed)
        check_observations(game, seed)
        check_non_interference(game, seed)
        check_reachable(game, seed)
        check_schedule(game, seed)
        check_replay(game, seed)
        check_measures(game, seed)
        if game.View is not None:
            check_drawing(game, seed)
            check_targets(game, seed)
