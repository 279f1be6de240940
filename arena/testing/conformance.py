"""Entry point of the conformance kit.

    from arena.testing import check_game

    def test_my_game() -> None:
        check_game(MyGame(players=3))

Each check raises AssertionError with the seed and the player that show the fault.
"""

from __future__ import annotations

import json
import math
import pickle
import random
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from zlib import crc32

from pydantic import JsonValue

from arena.core.action import CHANCE, normalise
from arena.core.errors import UsageError
from arena.core.event import Event
from arena.core.game import Game, State
from arena.core.observation import Observation
from arena.core.spec import stream
from arena.core.text import appearance
from arena.core.view import Scene, draw_tabletop, targets
from arena.episodes.files import ReplayWriter
from arena.episodes.match import act_out
from arena.episodes.measurement import measure_seats
from arena.episodes.replay import read_replay, verify
from arena.plugins.catalog import catalog
from arena.testing.non_interference import (
    check_non_interference,
    check_reachable,
    check_schedule,
)
from arena.testing.positions import (
    LONGEST,
    Choose,
    drawn,
    drawn_after,
    fingerprint,
    played,
    public_facts,
    random_positions,
    sampled_positions,
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
