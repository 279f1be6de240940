"""Checks of non-interference: no player can tell its world from another that fits what it saw.

An agent runs in the same process as the game, so it can also follow references: to the game, to
caches, to notes. `reachable` lists all these values in a canonical order. Two objects with equal
lists cannot be distinguished by following references.
"""

from __future__ import annotations

import functools
import inspect
import random
import weakref
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection
from operator import attrgetter
from subprocess import Popen
from types import BuiltinMethodType, CellType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import numpy as np

from arena.agents.agent import RandomBot, Seat
from arena.core.action import CHANCE, Step
from arena.core.analysis import PlacedKnowledge
from arena.core.event import EventLog
from arena.core.game import Game, State
from arena.core.observation import Observation
from arena.core.spec import stream
from arena.episodes.release import ReleaseTimes
from arena.testing.positions import drawn_after, fingerprint, sampled_positions

DRAWN = 3
"""Players of each position who are checked in other worlds."""
RENDERED = 3
"""Last moves of a history before which the players also read texts."""


def check_non_interference(game: Game, seed: int, samples: int = 12) -> None:
    """Check that observations do not depend on what is hidden from their player.

    `GameAnalysis.resample` draws another world, in which the player has seen the same.
    Both are played from the start. Texts, arrays, tables, actions, order, sizes and exact knowledge
    must be equal.
    """
    assert not game.initial_state().log.events, "events before the first move reach no replay"
    rng, viewers = stream(seed, "worlds"), stream(seed, "viewers")
    secrets = changed = False
    for position in sampled_positions(game, seed, samples):
        _check_sealed(position.state, seed)
        # Without private events there may be nothing to hide, and `resample` need not exist.
        private = any(event.audience is not None for event in position.state.log.events)
        secrets |= private
        for player in viewers.sample(range(game.num_players), min(DRAWN, game.num_players)):
            other = game.analysis.resample(position.history, player, rng)
            if other is None:
                assert not private, f"{game.name} has private events and no `resample`"
                continue
            changed |= other != list(position.history)
            mine = position.state.observe(player)
            # Before the other world is played, which may leave traces in the game.
            seen = _seen(game, mine)
            theirs = game.initial_state().apply_all(other).observe(player)
            for what, value in _seen(game, theirs).items():
                assert seen[what] == value, (
                    f"seed {seed}, after {len(position.history)} plies: player {player} can tell "
                    f"its world from another by its {what}:\n{mine.text()}\n--- other world:\n"
                    f"{theirs.text()}"
                )
    # A `resample` that returns the same world would make all comparisons pass.
    assert changed or not secrets, f"seed {seed}: `resample` of {game.name} never changes anything"


def _seen(game: Game, observation: Observation) -> dict[str, object]:
    """Return all that a player sees and knows, by the name of its part."""
    return {
        "observation": fingerprint(observation),
        "table": drawn_after(game, observation.player, observation.events),
        "exact knowledge": _knowledge_of(game, observation),
    }


def _knowledge_of(game: Game, seen: Observation) -> object:
    """Return the exact knowledge of a player and the consequences of its actions by it."""
    knowledge = game.analysis.knowledge(seen.player)
    if not isinstance(knowledge, PlacedKnowledge):
        return None
    for event in seen.events:
        knowledge.update(event)
    actions = list(seen.legal_actions)
    return knowledge.placement(), dict(game.analysis.consequences(knowledge, actions))


def check_reachable(game: Game, seed: int, samples: int = 3) -> None:
    """Check that no player can reach hidden information by following references.

    As in `check_non_interference`, but each world is played in a game object of its own, and all
    values that can be reached from the observation by attribute must be equal: caches, notes,
    attributes of the game. To save time, one player is drawn for each position.
    """
    rng = stream(seed, "reachable")
    for position in sampled_positions(game, seed, samples):
        player = rng.randrange(game.num_players)
        # Listed before the other world is played: both may share objects that change.
        mine = list[Token]()
        for token, path in reachable(_play_world(game, position.history, player)):
            kind = token[0] if isinstance(token, tuple) else token
            assert not (isinstance(kind, type) and issubclass(kind, ALL_SEEING)), (
                f"seed {seed}, after {len(position.history)} plies: player {player} can reach what "
                f"is hidden from it, a {kind.__name__}, at {path}"
            )
            mine.append(token)
        other = game.analysis.resample(position.history, player, rng)
        if other is None:
            continue
        difference = first_difference(mine, _play_world(game, other, player))
        assert difference is None, (
            f"seed {seed}, after {len(position.history)} plies: player {player} can reach what is "
            f"hidden from it, at {difference}"
        )


def check_schedule(game: Game, seed: int, samples: int = 3) -> None:
    """Check that the time at which a player gets news does not depend on what is hidden from it.

    As in `check_non_interference`; in both worlds bots play with the same release times, under a
    clock that stands still while they think. A phase that only some worlds have is found, too. To
    save time, one player is drawn for each position.
    """
    rng = stream(seed, "schedule")
    for position in sampled_positions(game, seed, samples):
        history = _whole_phases(game, position.history)
        player = rng.randrange(game.num_players)
        other = game.analysis.resample(history, player, rng)
        if other is None:
            continue
        mine, theirs = (_schedule(game, world, player) for world in (history, other))
        assert mine == theirs, (
            f"seed {seed}, after {len(history)} plies: player {player} can tell its world from "
            f"another by the clock: news, as (seconds, events), come at {mine} in one and at "
            f"{theirs} in the other"
        )


def _whole_phases(game: Game, history: Sequence[Step]) -> Sequence[Step]:
    """Return the beginning of a history without the last phase, if that is not over."""
    state, whole = game.initial_state(), 0
    while whole + len(state.to_act) <= len(history) and state.to_act:
        phase = history[whole : whole + len(state.to_act)]
        state.apply_all(phase)
        whole += len(phase)
    return history[:whole]


def _schedule(game: Game, history: Sequence[Step], player: int) -> list[tuple[float, int]]:
    """Return when the player witnesses events, in seconds, and how many it has witnessed then."""
    state, now, news = game.initial_state(), 0.0, [(0.0, 0)]
    bot = RandomBot(Seat(game, player, stream(0, "unused")))
    times, steps = ReleaseTimes([bot] * game.num_players, mean=1.0, seed=0), iter(history)
    for step in steps:
        phase = [step, *islice(steps, len(state.to_act) - 1)]
        if step.player != CHANCE:
            forced = {each: state.legal_actions(each).is_forced for each in state.to_act}
            now += times.seconds({each: None if forced[each] else 0.0 for each in forced})
        state.apply_all(phase)
        if (count := len(state.log.witnessed[player])) > news[-1][1]:
            news.append((now, count))
    return news


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
    """Check that no player sees that, or what, others have committed in a simultaneous move."""
    if len(state.to_act) < 2:
        return
    rng = stream(seed, "sealed")
    for observer in range(state.game.num_players):
        # All others but one commit, so that nothing is revealed yet.
        others = [player for player in state.to_act if player != observer]
        twin = state.clone()
        for player in others[: len(state.to_act) - 1]:
            twin.apply(player, rng.choice(twin.legal_actions(player)))
        assert fingerprint(state.observe(observer)) == fingerprint(twin.observe(observer)), (
            f"seed {seed}: player {observer} sees that others have committed"
        )


# Reachable values


Token = Hashable

ALL_SEEING = (State, EventLog, Popen, Connection)
"""Kinds of objects that know, or whose process knows, what is hidden from a player."""

ATOMS = frozenset({str, int, bool, bytes, complex, type(None), type(Ellipsis)})
CONTAINERS = (dict, list, set, bytearray, deque)


Place = tuple[str, object]
"""The end of a path, an attribute, key or index, and the value there."""


def reachable(root: object, name: str = "observation") -> Iterator[tuple[Token, str]]:
    """Yield a token and the path of each value that is reachable from `root`, in canonical order.

    Types, modules and code are excluded; mutable containers of classes, closures and bound objects
    are included. The order of the elements of a set is ignored. Objects that can change are
    numbered in order of the first visit, so that cycles end and identity counts.
    """
    numbers: dict[int, int] = {}
    alive: list[object] = []  # An id is unique only as long as its object lives.
    classes: set[type] = set()
    # An explicit stack: recursion would fail on long chains.
    stack: list[tuple[object, str]] = [(root, name)]
    while stack:
        value, path = stack.pop()
        token = _value_token(value)
        if token is not None:
            yield token, path
            continue
        kind = type(value)
        # Of immutable values the identity does not matter: games may share them or not.
        if kind not in (tuple, frozenset) and not _is_frozen(kind):
            if id(value) in numbers:
                yield ("visited", numbers[id(value)]), path
                continue
            numbers[id(value)] = len(numbers)
            alive.append(value)
        places = list(_places(value))
        if kind not in classes:
            classes.add(kind)
            # Only at the first instance, because all instances share them.
            places += _class_containers(kind)
        yield (kind, len(places)), path
        stack += [(child, path + end) for end, child in reversed(places)]


def first_difference(tokens: Iterable[Token], other: object) -> str | None:
    """Compare the tokens of one object with another object; return the first place that differs."""
    expected = iter(tokens)
    for found, path in reachable(other):
        token = next(expected, None)
        if token != found:
            return f"{path}: {_show(token)} in one world, {_show(found)} in the other"
    return None


def _show(token: Token) -> str:
    return repr(token[-1] if isinstance(token, tuple) else token)


def _value_token(value: Any) -> Token | None:
    """Return a token for an immutable value without references; None for any other object."""
    kind: Any = type(value)
    token: Token | None = None
    if kind in ATOMS:
        token = kind, value
    elif kind is float:
        token = kind, repr(value)  # NaN is not equal to itself.
    elif isinstance(value, type | ModuleType):
        token = kind, value.__name__
    elif isinstance(value, bytearray):
        token = kind, bytes(value)
    elif isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        token = kind, value.dtype.str, value.shape, value.tobytes()
    # Most values are actions and events. With a `__dict__` there may be more than the fields.
    elif _is_frozen(kind) and not kind.__dictoffset__:
        values = tuple([getattr(value, name) for name in _slot_names(kind)])
        types = tuple(map(type, values))
        if ATOMS.issuperset(types):
            token = kind, types, values
    return token


def _is_frozen(kind: type) -> bool:
    parameters = getattr(kind, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


def _places(value: object) -> Iterator[Place]:
    """Yield everything that one object refers to."""
    if isinstance(value, Mapping):
        for number, (key, item) in enumerate(value.items()):
            yield f".keys()[{number}]", key
            yield f"[{key!r}]", item
    elif isinstance(value, AbstractSet):
        # In the order of their tokens: the order of a set depends on hashes and is random.
        for item in sorted(value, key=_sort_key):
            yield ".element", item
    elif isinstance(value, list | tuple | deque):
        for number, item in enumerate(value):
            yield f"[{number}]", item
    else:
        yield from _bound_objects(value)
    if not isinstance(value, FunctionType | MethodType | BuiltinMethodType):
        yield from _attributes(value)
    if isinstance(value, Game):
        yield from _properties(value)


def _properties(game: Game) -> Iterator[Place]:
    """Yield the values of the properties of a game."""
    for name in dir(type(game)):
        if isinstance(inspect.getattr_static(type(game), name), property):
            with suppress(AssertionError, AttributeError, NotImplementedError):
                yield f".{name}", getattr(game, name)


def _sort_key(value: object) -> str:
    token = _value_token(value)
    return repr([found for found, _ in reachable(value)] if token is None else token)


def _bound_objects(value: Any) -> Iterator[Place]:
    """Yield the objects that functions, iterators and the like hold, but not as attributes."""
    match value:
        case FunctionType():
            names = ["__qualname__", "__defaults__", "__kwdefaults__", "__closure__"]
        case MethodType() | BuiltinMethodType():
            names = ["__name__", "__self__"]
        case functools.partial():
            names = ["func", "args", "keywords"]
        case CellType():
            names = ["cell_contents"]
        case GeneratorType():
            # A finished generator has no frame.
            names = ["gi_frame.f_locals"] if value.gi_frame else []
        case random.Random():
            yield ".getstate()", value.getstate()
            return
        case weakref.ref():
            yield "()", value()
            return
        case _:
            return
    for name in names:
        yield f".{name}", attrgetter(name)(value)


def _attributes(value: object) -> Iterator[Place]:
    """Yield the attributes of an instance, from its `__dict__` and from slots."""
    kind: Any = type(value)
    attributes: dict[str, object] = getattr(value, "__dict__", {})
    names = [name for name in _slot_names(kind) if hasattr(value, name)]
    for name, item in attributes.items():
        yield f".{name}", item
    for name in names:
        yield f".{name}", getattr(value, name)
    # Types of C have neither; their pickle is the only general way to their state.
    if not attributes and not names and not isinstance(value, Collection):
        yield from _pickled_state(value)


def _pickled_state(value: object) -> Iterator[Place]:
    """Yield the state of an object of a C type, as far as its pickle has it."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # Not every object can be pickled.
        return
    if isinstance(reduced, tuple):
        for number, part in enumerate(reduced):
            if not callable(part):
                yield f".__reduce__()[{number}]", part


@functools.cache
def _slot_names(kind: Any) -> tuple[str, ...]:
    names: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            # Python mangles private slot names with the name of their class.
            private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{base.__name__.lstrip('_')}{name}" if private else name)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _class_containers(kind: type) -> list[Place]:
    """Return the containers that hang on a class, where they can change and all instances share."""
    return [
        (f".__class__.{name}", value)
        for base in kind.__mro__
        for name, value in vars(base).items()
        if isinstance(value, CONTAINERS) and not (name.startswith("__") and name.endswith("__"))
    ]
