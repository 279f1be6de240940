"""The conformance kit: what every game must satisfy, whoever wrote it.

    from arena.testing.conformance import check_game
    check_game(MyGame(players=3))

Each check raises AssertionError with the seed and the player that show the fault.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import random
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, get_args

from arena.agents.agent import Agent, Seat, act_now
from arena.agents.random_bot import RandomBot
from arena.agents.seating import bot_names, make_agent
from arena.core.action import CHANCE, Step
from arena.core.event import Event
from arena.core.game import Game, State
from arena.core.json import Json
from arena.core.observation import Observation, TextLevel
from arena.core.seeds import stream
from arena.core.view import Scene
from arena.episodes.record import Episode, ReplayWriter
from arena.episodes.replay import read_replay, verify
from arena.episodes.runner import act_out, play
from arena.plugins.loader import catalog

LONGEST = 20_000
"""Plies after which random play counts as endless."""


@dataclass(frozen=True, slots=True)
class Position:
    """A state of random play and how it came about."""

    state: State
    history: tuple[Step, ...]


def check_game(game: Game, seeds: Iterable[int] = range(3)) -> None:
    """Run every check on `game`, and on the scene that is registered for it."""
    seeds = tuple(seeds)
    check_hashing(game)
    check_codec(game)
    for seed in seeds:
        check_random_play(game, seed)
        check_clone(game, seed)
        check_pickle(game, seed)
        check_observations(game, seed)
        check_non_interference(game, seed)
        check_replay(game, seed)
    if game.name in catalog().names("scene"):
        make = catalog().load("scene", game.name)
        for seed in seeds:
            check_scene(game, make, seed)


def random_positions(game: Game, seed: int) -> Iterator[Position]:
    """The positions of a random game, first to last. The state goes on changing.

    On odd seeds every legal action is equally likely. On even seeds the seats are played by the
    first of the game's own bots, if it has any: uniform play may be over before the interesting
    moves come up (in Cluedo it is half accusations).
    """
    rng = stream(seed, "conformance")
    seats = [Seat(game, player, rng) for player in range(game.num_players)]
    bot = f"bot:{bot_names(game.name)[0]}"
    agents = [RandomBot(seat) if seed % 2 else make_agent(bot, seat) for seat in seats]
    state, history = game.initial_state(), list[Step]()
    yield Position(state, ())
    while state.to_act and (seed % 2 or state.turn <= (game.default_max_turns or LONGEST)):
        player = rng.choice(state.to_act)
        if player == CHANCE:
            action = state.sample_chance(rng)
        else:
            action = act_now(agents[player], state.observe(player)).action
        state.apply(player, action)
        history.append(Step(player, action))
        assert len(history) < LONGEST, f"seed {seed}: random play does not end"
        yield Position(state, tuple(history))


def sampled_positions(game: Game, seed: int, samples: int = 10) -> list[Position]:
    """Some positions of a random game, in order, each with a state of its own."""
    positions = [Position(p.state.clone(), p.history) for p in random_positions(game, seed)]
    chosen = stream(seed, "positions").sample(range(len(positions)), min(samples, len(positions)))
    # The second one is there in any case: after the deal everything is still hidden.
    return [positions[number] for number in sorted({1, *chosen})]


def check_hashing(game: Game) -> None:
    """Equal options make equal games, with equal hashes."""
    twin = type(game)(**game.options.model_dump())
    assert twin == game and hash(twin) == hash(game), "a game made again is not equal to itself"
    assert pickle.loads(pickle.dumps(game)) == game, "a game does not survive pickling"


def check_codec(game: Game) -> None:
    """`str(action)` names the action, and no other."""
    for action in game.actions:
        assert game.actions.parse(str(action)) == action, f"'{action}' does not parse back"
    assert len(game.actions.index) == len(game.actions), "an action stands in the table twice"


def check_random_play(game: Game, seed: int) -> None:
    """Legal actions exist for whoever must act; the game ends; a return for each player."""
    for position in random_positions(game, seed):
        state = position.state
        if state.to_act == (CHANCE,):
            drawn = state.sample_chance(stream(seed, "draw"))
            assert state.parse(str(drawn)) == drawn, f"seed {seed}: '{drawn}' does not parse back"
            continue
        for player in state.to_act:
            legal = state.legal_actions(player)
            assert legal, f"seed {seed}: player {player} must act and may do nothing"
            fallbacks = game.fallback_actions(state.observe(player))
            assert fallbacks and set(fallbacks) <= set(legal), f"seed {seed}: a fallback is illegal"
            for action in random.Random(seed).sample(legal, min(5, len(legal))):
                assert state.parse(str(action)) == action, f"seed {seed}: '{action}' is not parsed"
        for player in set(range(game.num_players)) - set(state.to_act):
            assert not state.legal_actions(player), f"seed {seed}: {player} acts out of turn"
    assert len(state.returns()) == game.num_players, "returns need one entry per player"
    assert state.to_act or state.reason(), "a finished game needs a reason"


def check_clone(game: Game, seed: int) -> None:
    """A clone plays on without touching its original."""
    for position in sampled_positions(game, seed):
        state = position.state
        before, twin = snapshot(state), state.clone()
        assert snapshot(twin) == before, f"seed {seed}: a clone differs from its original"
        act_out(twin, stream(seed, "clone"), plies=5)
        assert snapshot(state) == before, f"seed {seed}: playing a clone changed its original"


def check_pickle(game: Game, seed: int) -> None:
    """States and observations survive pickling."""
    for position in sampled_positions(game, seed):
        twin = pickle.loads(pickle.dumps(position.state))
        assert snapshot(twin) == snapshot(position.state), f"seed {seed}: a state pickles wrongly"
        for player in range(game.num_players):
            seen = position.state.observe(player)
            again = pickle.loads(pickle.dumps(seen))
            assert fingerprint(again) == fingerprint(seen), f"seed {seed}: observation pickling"


def check_observations(game: Game, seed: int) -> None:
    """Arrays are shaped as announced, and an observation does not change when the game goes on."""
    kept: list[tuple[Observation, bytes]] = []
    for position in random_positions(game, seed):
        for player in range(game.num_players):
            observation = position.state.observe(player)
            arrays = observation.arrays()
            assert list(arrays) == list(game.array_specs), f"arrays are {list(arrays)}"
            for name, spec in game.array_specs.items():
                array = arrays[name]
                assert array.shape == spec.shape, f"array {name} has shape {array.shape}"
                assert str(array.dtype) == spec.dtype, f"array {name} has dtype {array.dtype}"
                inside = (array >= spec.low) & (array <= spec.high)
                assert inside.all(), f"seed {seed}: array {name} leaves its bounds"
            if len(kept) < 20:
                kept.append((observation, fingerprint(observation)))
    for observation, before in kept:
        assert fingerprint(observation) == before, f"seed {seed}: an old observation has changed"


def check_non_interference(game: Game, seed: int, samples: int = 12) -> None:
    """No player can tell its world from another that is consistent with what it saw.

    The other world is made by `Game.resample` and played through the rules from the start.
    """
    assert not game.initial_state().log.events, "events before the first move reach no replay"
    rng, secrets, changed = stream(seed, "worlds"), False, False
    for position in sampled_positions(game, seed, samples):
        _check_sealed(position.state, seed)
        secrets |= any(event.audience is not None for event in position.state.log.events)
        for player in range(game.num_players):
            other = game.resample(position.history, player, rng)
            if other is None:
                hidden = [e for e in position.state.log.events if e.audience is not None]
                assert not hidden, f"{game.name} has private events and no `resample`"
                continue
            changed |= other != list(position.history)
            state = replay_history(game, other)
            mine, theirs = position.state.observe(player), state.observe(player)
            assert fingerprint(mine) == fingerprint(theirs), (
                f"seed {seed}, after {len(position.history)} plies: player {player} can tell "
                f"its world from another:\n{mine.text()}\n--- other world:\n{theirs.text()}"
            )

    assert changed or not secrets, f"seed {seed}: `resample` of {game.name} never changes anything"


def _check_sealed(state: State, seed: int) -> None:
    """While several players act at once, nobody learns what, or whether, another has committed."""
    if len(state.to_act) < 2:
        return
    for player in state.to_act:
        twin = state.clone()
        twin.apply(player, stream(seed, "sealed").choice(twin.legal_actions(player)))
        for other in set(range(state.game.num_players)) - {player}:
            before, after = fingerprint(state.observe(other)), fingerprint(twin.observe(other))
            assert before == after, f"seed {seed}: player {other} sees that {player} has committed"


def replay_history(game: Game, history: Sequence[Step]) -> State:
    """The state after these moves."""
    state = game.initial_state()
    for move in history:
        state.apply(move.player, move.action)
    return state


def check_replay(game: Game, seed: int) -> None:
    """The replay of a game verifies, and the same seed gives the same bytes but for times."""
    with tempfile.TemporaryDirectory() as folder:
        first = _record(game, seed, Path(folder))
        second = _record(game, seed, Path(folder))
        difference = verify(read_replay(first))
        assert difference is None, f"seed {seed}: the replay does not verify: {difference}"
        assert timeless(first) == timeless(second), f"seed {seed}: two runs differ"


def _record(game: Game, seed: int, folder: Path) -> Path:
    writer = ReplayWriter(folder, "game")
    agents: list[Agent] = [
        RandomBot(Seat(game, player, stream(seed, f"agent {player}")))
        for player in range(game.num_players)
    ]
    episode = act_now_all(game, agents, seed, writer)
    assert len(episode.outcome.returns) == game.num_players
    return writer.path


def act_now_all(game: Game, agents: Sequence[Agent], seed: int, writer: ReplayWriter) -> Episode:
    """`play` with agents that never wait, whether or not an event loop is running."""
    with ThreadPoolExecutor(1) as pool:
        playing = pool.submit(lambda: asyncio.run(play(game, agents, seed, watchers=[writer])))
        return playing.result()


class MakesScenes(Protocol):
    """What a game registers as its scene: a class."""

    @property
    def module(self) -> Path: ...

    def __call__(self, game: Any, seat: int | None) -> Scene: ...


def check_scene(game: Game, make: MakesScenes, seed: int, samples: int = 4) -> None:
    """A scene is JSON, depends on its events only, and tells a seat nothing that it cannot know."""
    source = make.module.read_text(encoding="utf-8")
    assert "export function draw(" in source, f"{make.module} exports no function `draw`"
    *_, final = random_positions(game, seed)
    for viewer in (None, *range(game.num_players)):
        _check_growth(game, make, viewer, _witnessed(final.state, viewer))
    rng = stream(seed, "scenes")
    for position in sampled_positions(game, seed, samples):
        for player in range(game.num_players):
            # Before the other world is made: what a state leaves in the game must not be seen.
            mine = _scene_bytes(
                _scene_after(game, make, player, _witnessed(position.state, player))
            )
            other = game.resample(position.history, player, rng)
            if other is None:
                continue
            events = _witnessed(replay_history(game, other), player)
            theirs = _scene_bytes(_scene_after(game, make, player, events))
            assert mine == theirs, (
                f"seed {seed}, after {len(position.history)} plies: the scene of player {player} "
                f"tells its world from another:\n{mine!r}\n--- other world:\n{theirs!r}"
            )


def _check_growth(
    game: Game, make: MakesScenes, viewer: int | None, events: Sequence[Event]
) -> None:
    """Looking at a scene does not change it, and what was seen of it does not change later."""
    scene = make(game, viewer)
    kept = [scene.to_json()]
    then = [_scene_bytes(scene)]
    for event in events:
        scene.update(event)
        kept.append(scene.to_json())
        then.append(_scene_bytes(scene))
    assert [_json_bytes(value) for value in kept] == then, "an old `to_json` has changed"
    for number in range(0, len(events) + 1, max(1, len(events) // 8)):
        fresh = _scene_bytes(_scene_after(game, make, viewer, events[:number]))
        assert fresh == then[number], f"after {number} events the scene depends on who looked at it"


def _witnessed(state: State, viewer: int | None) -> Sequence[Event]:
    return state.log.events if viewer is None else state.log.witnessed[viewer]


def _scene_after(
    game: Game, make: MakesScenes, viewer: int | None, events: Iterable[Event]
) -> Scene:
    scene = make(game, viewer)
    for event in events:
        scene.update(event)
    return scene


def _scene_bytes(scene: Scene) -> bytes:
    return _json_bytes(scene.to_json())


def _json_bytes(value: Json) -> bytes:
    """Raises TypeError or ValueError for what a browser could not read."""
    return json.dumps(value, allow_nan=False).encode()


def timeless(path: Path) -> list[dict[str, object]]:
    """The lines of a replay without the two kinds of times."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{k: v for k, v in line.items() if k not in ("created", "seconds")} for line in lines]


def snapshot(state: State) -> bytes:
    """Everything that can be seen of a state, by all players together."""
    seen = [fingerprint(state.observe(player)) for player in range(state.game.num_players)]
    return repr((state.to_act, state.turn, state.returns(), state.log.events, seen)).encode()


def fingerprint(observation: Observation) -> bytes:
    """Everything that can be seen of an observation: texts, arrays, actions, order and sizes."""
    texts = [
        observation.text(level, since)
        for level in get_args(TextLevel)
        for since in (0, observation.num_events // 2)
    ]
    arrays = {name: array.tobytes() for name, array in observation.arrays().items()}
    legal = [str(action) for action in observation.legal_actions]
    diagram = observation.game.diagram(observation.events)
    parts = (observation.events, texts, arrays, legal, diagram, observation.num_events)
    return repr(parts).encode()
