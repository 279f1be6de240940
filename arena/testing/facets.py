"""Checks of facets: arrays of observations, measures, and views."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace

from arena.agents.agent import Agent, RandomBot, Seat
from arena.agents.seating import default_opponent, make_agent
from arena.core.action import normalise
from arena.core.analysis import Measurements
from arena.core.event import Event
from arena.core.game import Game
from arena.core.observation import Observation
from arena.core.seeds import stream
from arena.core.state import State
from arena.core.view.pieces import targets
from arena.core.view.tabletop import Scene, TableView, draw_tabletop
from arena.episodes.match import Match, play
from arena.episodes.measurement import custom_measures, measure_seats
from arena.episodes.record import Episode
from arena.testing.positions import fingerprint, random_positions, sampled_positions

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
      game or a plugin defines it. A missing value is omitted.
    - The same game gives the same values again, whatever the names of its players.
    """
    added = [custom.definition for custom in custom_measures(game)]
    known = {measure.name: measure for measure in (*game.analysis.measures, *added)}
    if not known:
        return
    for max_turns in (None, 2):
        episode = _played(game, seed, max_turns)
        measured = measure_seats(game, episode)
        for seat, measurements in enumerate(measured):
            for name, value in measurements.items():
                where = f"seed {seed}, seat {seat}: measure {name}"
                assert name in known, f"{where} has no definition"
                fault = known[name].fault(value)
                assert fault is None, f"{where}: {fault}"
        _check_names(game, episode, measured, seed)


def _check_names(game: Game, episode: Episode, measured: Sequence[Measurements], seed: int) -> None:
    """Check that neither a second look nor other names of the players change a value."""
    players = episode.header.players
    others = (players, tuple(f"other:{seat}" for seat in range(len(players))), players[::-1])
    for names in dict.fromkeys(others):  # Equal names are the same backwards.
        header = episode.header.model_copy(update={"players": names})
        again = measure_seats(game, replace(episode, header=header))
        change = "measured again" if names is players else f"if the players are called {names}"
        for seat, (before, after) in enumerate(zip(measured, again, strict=True)):
            moved = sorted(
                name for name in {*before, *after} if before.get(name) != after.get(name)
            )
            assert not moved, f"seed {seed}, seat {seat}: {', '.join(moved)} change {change}"


def _played(game: Game, seed: int, max_turns: int | None) -> Episode:
    """Return a game of random players; on even seeds of the game's usual opponent."""
    seats = [Seat(game, n, stream(seed, f"agent {n}")) for n in range(game.num_players)]
    bot = default_opponent(game)
    agents: list[Agent] = [RandomBot(s) if seed % 2 else make_agent(bot, s) for s in seats]
    # The names are those of the header only; the agents are given.
    match = Match(game, seed=seed, max_turns=max_turns)
    # In a thread of its own, because the caller's thread may have a running event loop.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, play(match, agents)).result()


LOOKS = 40
"""Times that a view is looked at while a game goes on; after each event of a shorter game."""
MANY_ACTIONS = 20_000
"""Number of actions above which phrases are not compared with them."""


def check_drawing(game: Game, seed: int, samples: int = 4) -> None:
    """Check that a view is JSON, depends only on its events, and shows nothing hidden."""
    view = game.new_view(None)
    if isinstance(view, Scene):
        source = view.module.read_text(encoding="utf-8")
        assert "export function draw(" in source, f"{view.module} exports no function `draw`"
    *_, final = random_positions(game, seed)
    for viewer in (None, *range(game.num_players)):
        _check_growth(game, viewer, _witnessed(final.state, viewer))
    rng = stream(seed, "scenes")
    for position in sampled_positions(game, seed, samples):
        for player in range(game.num_players):
            # Before the other world is made, which may leave traces in the game.
            mine = _drawn_bytes(_view_after(game, player, _witnessed(position.state, player)))
            other = game.analysis.resample(position.history, player, rng)
            if other is None:
                continue
            events = _witnessed(game.initial_state().apply_all(other), player)
            theirs = _drawn_bytes(_view_after(game, player, events))
            assert mine == theirs, (
                f"seed {seed}, after {len(position.history)} plies: the view of player {player} "
                f"tells its world from another:\n{mine!r}\n--- other world:\n{theirs!r}"
            )


def check_targets(game: Game, seed: int, samples: int = 4) -> None:
    """Check that each piece of a table that can be clicked names an action of the game."""
    texts = [str(action) for action in game.actions]
    if len(texts) > MANY_ACTIONS:
        return
    known = f" {' | '.join(map(normalise, texts))} "
    for position in sampled_positions(game, seed, samples):
        for seat in range(game.num_players):
            table = draw_tabletop(game, _witnessed(position.state, seat), seat)
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


def _check_growth(game: Game, viewer: int | None, events: Sequence[Event]) -> None:
    """Check that a look does not change a view, and that what it showed does not change."""
    view = _view_after(game, viewer, ())
    values = {0: _drawn(view)}
    dumps = {0: _json_bytes(values[0])}
    # A value that shares what changes is noticed by all later events, so a long game need not be
    # drawn after each of them.
    step = max(1, len(events) // LOOKS)
    for number, event in enumerate(events, 1):
        view.update(event)
        if number % step == 0 or number == len(events):
            values[number] = _drawn(view)
            dumps[number] = _drawn_bytes(view)
    # The values were written once when they were new, and now again.
    again = {number: _json_bytes(value) for number, value in values.items()}
    assert again == dumps, "what a view showed earlier has changed"
    # About eight positions: a fresh view costs all events up to there.
    for number in list(dumps)[:: max(1, len(dumps) // 8)]:
        fresh = _drawn_bytes(_view_after(game, viewer, events[:number]))
        assert fresh == dumps[number], f"after {number} events the view depends on who looked at it"


def _witnessed(state: State, viewer: int | None) -> Sequence[Event]:
    return state.log.events if viewer is None else state.log.witnessed[viewer]


def _view_after(game: Game, viewer: int | None, events: Iterable[Event]) -> TableView:
    view = game.new_view(viewer)
    assert view is not None
    for event in events:
        view.update(event)
    return view


def _drawn_bytes(view: TableView) -> bytes:
    return _json_bytes(_drawn(view))


def _drawn(view: TableView) -> object:
    """Return what is drawn now: the table, and the scene of a view that has one."""
    return view.tabletop(), view.to_json() if isinstance(view, Scene) else None


def _json_bytes(value: object) -> bytes:
    """Return JSON. Raises TypeError or ValueError for a value that a browser could not read."""
    return json.dumps(value, allow_nan=False, default=_fields).encode()


def _fields(piece: object) -> dict[str, object]:
    """Return a piece of a table as JSON: its kind and its fields."""
    # By hand: `dataclasses.asdict` copies deeply, which takes ten times as long and hides that a
    # later move has changed the piece.
    kind: type = type(piece)
    names = _field_names(kind)
    return {"kind": kind.__name__, **{name: getattr(piece, name) for name in names}}


@functools.cache
def _field_names(kind: type) -> tuple[str, ...]:
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is not JSON")
    return tuple(each.name for each in fields(kind))
