"""Entry point of the conformance kit.

    from arena.testing import check_game

    def test_my_game() -> None:
        check_game(MyGame(players=3))

Each check raises AssertionError with the seed and the player that show the fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass

from arena.core.action import normalise
from arena.core.errors import UsageError
from arena.core.event import Event
from arena.core.game import Game, State
from arena.core.observation import Observation
from arena.core.view import Scene, draw_tabletop, targets
from arena.episodes.measurement import measure_seats
from arena.plugins.catalog import catalog
from arena.testing.non_interference import (
    check_non_interference,
    check_reachable,
    check_schedule,
)
from arena.testing.positions import (
    drawn,
    drawn_after,
    fingerprint,
    played,
    random_positions,
    sampled_positions,
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


KEPT = 20
"""Observations of a game that are compared again at its end."""


def check_observations(game: Game, seed: int) -> None:
    """Check shapes, dtypes and bounds of arrays, and that later moves change no observation."""
    kept: list[tuple[Observation, bytes]] = []
    for position in random_positions(game, seed):
        for player in range(game.num_players):
            observation = position.state.observe(player)
            _check_arrays(game, observation, seed)
            # The first observations see the most later moves.
            if len(kept) < KEPT:
                kept.append((observation, fingerprint(observation)))
    for observation, before in kept:
        assert fingerprint(observation) == before, f"seed {seed}: an old observation has changed"


def _check_arrays(game: Game, observation: Observation, seed: int) -> None:
    arrays = observation.arrays()
    assert list(arrays) == list(game.arrays.specs), f"arrays are {list(arrays)}"
    for name, spec in game.arrays.specs.items():
        array = arrays[name]
        assert array.shape == spec.shape, f"array {name} has shape {array.shape}"
        assert str(array.dtype) == spec.dtype, f"array {name} has dtype {array.dtype}"
        # A comparison with NaN is false, so NaN counts as out of bounds.
        inside = (array >= spec.low) & (array <= spec.high)
        assert inside.all(), f"seed {seed}: array {name} leaves its bounds"


def check_measures(game: Game, seed: int) -> None:
    """Check the values of all measures on random games, finished ones and a truncated one.

    - Every value is finite, has a weight from 0 and lies within the bounds of its measure, and the
      game defines it. A missing value is omitted.
    - The same game gives the same values again.
    """
    known = {measure.name: measure for measure in game.analysis.measures}
    if not known:
        return
    for max_turns in (None, 2):
        episode = played(game, seed, max_turns)
        measured = measure_seats(game, episode)
        for seat, measurements in enumerate(measured):
            for name, value in measurements.items():
                where = f"seed {seed}, seat {seat}: measure {name}"
                assert name in known, f"{where} has no definition"
                fault = known[name].fault(value)
                assert fault is None, f"{where}: {fault}"
        again = measure_seats(game, episode)
        for seat, (before, after) in enumerate(zip(measured, again, strict=True)):
            moved = sorted(n for n in {*before, *after} if before.get(n) != after.get(n))
            assert not moved, f"seed {seed}, seat {seat}: {', '.join(moved)} change measured again"


LOOKS = 20
"""Times that a view is looked at while a game goes on; after each event of a shorter game."""
COMPARED = 8
"""Looks that are compared with those of a fresh view, which costs all events up to there."""
MANY_ACTIONS = 20_000
"""Number of actions above which phrases are not compared with them."""


def check_drawing(game: Game, seed: int) -> None:
    """Check that a view is JSON and depends only on its events, whoever looked at it and when.

    That it shows nothing hidden is a part of `check_non_interference`.
    """
    view = game.new_view(None)
    if isinstance(view, Scene):
        source = view.module.read_text(encoding="utf-8")
        assert "export function draw(" in source, f"{view.module} exports no function `draw`"
    *_, final = random_positions(game, seed)
    for viewer in (None, *range(game.num_players)):
        log = final.state.log
        _check_growth(game, viewer, log.events if viewer is None else log.witnessed[viewer])


def _check_growth(game: Game, viewer: int | None, events: Sequence[Event]) -> None:
    """Check that a look does not change a view, and that what it showed does not change."""
    view = game.new_view(viewer)
    assert view is not None
    shown = {0: drawn(view)}
    step = max(1, len(events) // LOOKS)
    for number, event in enumerate(events, 1):
        view.update(event)
        if number % step == 0 or number == len(events):
            shown[number] = drawn(view)
    for number in list(shown)[:: max(1, len(shown) // COMPARED)]:
        fresh = drawn_after(game, viewer, events[:number])
        assert shown[number] == fresh, (
            f"after {number} events the view depends on who looked at it, or what it showed then "
            "has changed later"
        )
        # Raises TypeError or ValueError for a value that a browser could not read.
        json.dumps(fresh, allow_nan=False, default=_fields)


def _fields(piece: object) -> dict[str, object]:
    """Return a piece of a table as JSON."""
    if not is_dataclass(piece):
        raise TypeError(f"{type(piece).__name__} is not JSON")
    return {field.name: getattr(piece, field.name) for field in fields(piece)}


def check_targets(game: Game, seed: int, samples: int = 4) -> None:
    """Check that each piece of a table that can be clicked names an action of the game."""
    texts = [str(action) for action in game.actions]
    if len(texts) > MANY_ACTIONS:
        return
    known = f" {' | '.join(map(normalise, texts))} "
    for position in sampled_positions(game, seed, samples):
        for seat in range(game.num_players):
            table = draw_tabletop(game, position.state.log.witnessed[seat], seat)
            pieces = targets(table.panels) if table else ()
            _check_blocked(position.state, seat, table.blocked if table else {}, texts)
            for phrase in (phrase for piece in pieces for phrase in piece.picks):
                assert f" {normalise(phrase)} " in known, (
                    f"seed {seed}, after {len(position.history)} plies: a piece on the table of "
                    f"player {seat} has the phrase {phrase!r}, which no action contains"
                )


def _check_blocked(
    state: State, seat: int, blocked: Mapping[str, str], actions: Sequence[str]
) -> None:
    """Check that the actions that a table calls blocked are such of the game, and not legal."""
    unknown = sorted(set(blocked).difference(actions))
    assert not unknown, f"the table of player {seat} blocks {unknown[0]!r}, which is no action"
    legal = map(str, state.legal_actions(seat) if seat in state.to_act else ())
    wrong = sorted(set(blocked).intersection(legal))
    assert not wrong, f"the table of player {seat} blocks {wrong[0]!r}, which is legal"
