"""Checks of scenes: what a web page draws of a game."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from arena.core.event import Event
from arena.core.game import Game
from arena.core.seeds import stream
from arena.core.state import State
from arena.core.views.scene import Scene
from arena.plugins.views import SceneFactory
from arena.testing.positions import random_positions, replay_history, sampled_positions


def check_scene(game: Game, make: SceneFactory, seed: int, samples: int = 4) -> None:
    """Check that a scene is JSON, depends only on its events, and shows no hidden information."""
    source = make.module.read_text(encoding="utf-8")
    assert "export function draw(" in source, f"{make.module} exports no function `draw`"
    *_, final = random_positions(game, seed)
    for viewer in (None, *range(game.num_players)):
        _check_growth(game, make, viewer, _witnessed(final.state, viewer))
    rng = stream(seed, "scenes")
    for position in sampled_positions(game, seed, samples):
        for player in range(game.num_players):
            # Before the other world is made, which may leave traces in the game.
            mine = _scene_bytes(
                _scene_after(game, make, player, _witnessed(position.state, player))
            )
            other = game.analysis.resample(position.history, player, rng)
            if other is None:
                continue
            events = _witnessed(replay_history(game, other), player)
            theirs = _scene_bytes(_scene_after(game, make, player, events))
            assert mine == theirs, (
                f"seed {seed}, after {len(position.history)} plies: the scene of player {player} "
                f"tells its world from another:\n{mine!r}\n--- other world:\n{theirs!r}"
            )


def _check_growth(
    game: Game, make: SceneFactory, viewer: int | None, events: Sequence[Event]
) -> None:
    """Check that `to_json` does not change a scene, and that its old values do not change."""
    scene = make(game, viewer)
    values = [scene.to_json()]
    dumps = [_scene_bytes(scene)]
    for event in events:
        scene.update(event)
        values.append(scene.to_json())
        dumps.append(_scene_bytes(scene))
    # The values were written once when they were new, and now again.
    assert [_json_bytes(value) for value in values] == dumps, "an old `to_json` has changed"
    # About eight positions: a fresh scene costs all events up to there.
    for number in range(0, len(events) + 1, max(1, len(events) // 8)):
        fresh = _scene_bytes(_scene_after(game, make, viewer, events[:number]))
        assert fresh == dumps[number], (
            f"after {number} events the scene depends on who looked at it"
        )


def _witnessed(state: State, viewer: int | None) -> Sequence[Event]:
    return state.log.events if viewer is None else state.log.witnessed[viewer]


def _scene_after(
    game: Game, make: SceneFactory, viewer: int | None, events: Iterable[Event]
) -> Scene:
    scene = make(game, viewer)
    for event in events:
        scene.update(event)
    return scene


def _scene_bytes(scene: Scene) -> bytes:
    return _json_bytes(scene.to_json())


def _json_bytes(value: object) -> bytes:
    """Return JSON. Raises TypeError or ValueError for a value that a browser could not read."""
    return json.dumps(value, allow_nan=False).encode()
