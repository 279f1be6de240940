"""OpenEnv: sessions of a hosted game over real sockets."""

# ruff: noqa: E402 - the imports below need openenv.

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

import pytest

pytest.importorskip("openenv.core", reason="needs openenv: make test-openenv")
pytestmark = [
    pytest.mark.openenv,
    # Its own deprecations are not ours to mend.
    pytest.mark.filterwarnings("ignore"),
]

import httpx
from hostile_heads import statuses
from pydantic import SecretStr
from trajectory_servers import serving
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from arena.core.action import CHANCE, Action, Step
from arena.core.game import Game
from arena.envs.hosting import HostedGame
from arena.envs.openenv import GameClient, GameEnvironment, GameObservation, call, make_app
from arena.episodes import session as session_module
from arena.episodes.match import Watcher, play
from arena.episodes.session import GameSession
from arena.http import server as connections
from arena.http.access import Guard
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.catalog import make_game
from arena.testing.positions import sampled_positions
from trainers.rewards import Rewards

# Patient: the server shares its cores with other tests.
get, post = partial(httpx.get, timeout=60), partial(httpx.post, timeout=60)
KUHN, CLUEDO = make_game("kuhn_poker"), make_game("cluedo", players=3)
SLOTS = 4


def hosted(game: Any = KUHN, *opponents: str, **options: Any) -> HostedGame:
    return HostedGame(game, opponents or ("bot:random",), **options)


def hosting(app: Any, message_bytes: int = 262_144) -> AbstractContextManager[str]:
    """Serve an application as the command does; yields its URL."""
    return serving(
        app,
        lifespan="auto",
        http=connections.DeadlineProtocol,
        ws="websockets-sansio",
        ws_max_size=message_bytes,
    )


def session(url: str, query: str = "") -> ClientConnection:
    """Open a connection for a session."""
    return connect(f"{url.replace('http', 'ws')}/ws{query}")


@pytest.fixture(scope="module")
def kuhn() -> Iterator[str]:
    app = make_app(hosted(), max_sessions=SLOTS, session_timeout=600)
    with hosting(app, 50_000) as url:
        yield url


@pytest.fixture(scope="module")
def cluedo() -> Iterator[str]:
    with hosting(make_app(hosted(CLUEDO, "bot:novice"), max_sessions=64)) as url:
        yield url


def clients(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(work(), 60))


async def played(url: str, seed: int | None, choices: int = 0, **reset: Any) -> list[str]:
    """Play one game at random; return all that was served, as text."""
    rng, served = random.Random(choices), []
    async with GameClient(url) as env:
        result = await env.reset(seed=seed, **reset)
        while True:
            served.append(result.observation.model_dump_json())
            served.append((await env.state()).model_dump_json())
            if result.done:
                return served
            action = rng.choice(result.observation.legal_actions)
            result = await env.step(call("reply", result.observation.turn, text=action))


def test_a_game_by_its_functions(kuhn: str) -> None:
    with GameClient(kuhn).sync() as env:
        result = env.reset(seed=7, episode_id="mine")
        seen = result.observation
        assert seen.rules.startswith("Kuhn poker") and "Your actions: pass | bet" in seen.result
        assert (seen.seat, seen.turn, seen.legal_actions) == (0, 0, ["pass", "bet"])
        state = env.state()
        assert (state.episode_id, state.step_count, state.game) == ("mine", 0, "kuhn_poker")
        while not result.done:
            assert result.reward == 0.0
            result = env.step(call("Bet"))
        assert result.reward in {-2.0, 1.0, 2.0} and result.observation.outcome
        assert env.state().done
        with pytest.raises(RuntimeError, match="the episode is over: call reset"):
            env.step(call("Bet"))
        assert not env.reset(seed=7).done


def test_tools_of_each_kind_over_mcp(cluedo: str) -> None:
    def rpc(method: str, **params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return post(f"{cluedo}/mcp", json=body).json()

    tools = {tool["name"]: tool for tool in rpc("tools/list")["result"]["tools"]}
    assert list(tools) == ["Suggest", "Accuse", "Show", "EndTurn", "reply"]
    suggest = tools["Suggest"]["input_schema"]
    assert suggest["required"] == ["suspect", "weapon", "room"]
    assert "Rope" in suggest["properties"]["weapon"]["enum"]
    name = rpc("openenv/session/create")["result"]["session_id"]
    refused = rpc("tools/call", session_id=name, name="EndTurn", arguments={})
    assert refused["error"]["message"] == "there is no episode: call reset first"
    unknown = rpc("tools/call", session_id="nobody", name="EndTurn", arguments={})
    assert unknown["error"]["message"] == "Unknown session_id: nobody"
    with session(cluedo, f"?session_id={name}") as socket:
        socket.send(json.dumps({"type": "reset", "data": {"seed": 1}}))
        first = json.loads(socket.recv())["data"]["observation"]
        action = next(text for text in first["legal_actions"] if text.startswith("suggest"))
        arguments = dict(zip(suggest["required"], action[8:].split(", "), strict=True))
        done = rpc("tools/call", session_id=name, name="Suggest", arguments=arguments)
    assert done["result"]["error"] is None and done["result"]["turn"] == 1
    assert rpc("openenv/session/close", session_id=name)["result"]["closed"]


def test_a_refused_call_gives_the_reason_and_keeps_the_turn(cluedo: str) -> None:
    with GameClient(cluedo).sync() as env:
        first = env.reset(seed=3).observation
        for action, kind, reason in (
            (
                call("Fly"),
                "invalid_args",
                "Suggest, Accuse, Show, EndTurn, reply",
            ),
            (call("Suggest", weapon="Rope"), "invalid_args", "lacks suspect, room"),
            (call("Show", card="Rope"), "execution_error", "'show Rope' is not allowed now"),
            (call("reply", text="hm"), "invalid_args", "No action was found in your reply"),
            (call("reply", text=7), "invalid_args", "takes one argument, text, a string"),
            (call("reply", text="x" * 70_000), "invalid_args", "at most 65,536 are read"),
        ):
            result = env.step(action)
            error = result.observation.error
            assert error is not None and error.error_type.value == kind and reason in error.message
            assert (result.reward, result.done, result.observation.turn) == (0.0, False, 0)
            assert result.observation.legal_actions == first.legal_actions
        assert env.state().step_count == 6 and env.state().turn == 0


def test_late_repeated_and_wrong_messages_are_one_line(kuhn: str) -> None:
    def error(message: Any) -> str:
        socket.send(message if isinstance(message, str | bytes) else json.dumps(message))
        answer = json.loads(socket.recv())
        assert answer["type"] == "error"
        assert "\n" not in answer["data"]["message"]
        return str(answer["data"]["message"])

    step = {"type": "step", "data": {"tool_name": "Pass", "metadata": {"turn": 0}}}
    with session(kuhn) as socket:
        assert error(step) == "there is no episode: call reset first"
        for data, reason in (
            ({"seed": "7"}, "seed='7': give a whole number"),
            ({"seed": True}, "seed=True: give a whole number"),
            ({"seed": 2**63}, "give a whole number from -2"),
            ({"seed": 1.0}, "seed=1.0: give a whole number"),
            ({"sed": 1}, "reset takes seed, episode_id, seat, and no 'sed'"),
            ({"seat": 2}, "seat=2: give a seat from 0 to 1"),
            ({"seat": "0"}, "seat='0': give a seat from 0 to 1"),
            ({"seats": 2}, "reset takes seed, episode_id, seat, and no 'seats'"),
            ({"episode_id": "x" * 300}, "episode_id: give a text of at most 255"),
            ({"episode_id": 5}, "episode_id: give a text"),
        ):
            assert reason in error({"type": "reset", "data": data})
        assert "Invalid JSON" in error("{")
        socket.send(json.dumps({"type": "reset", "data": {"seed": 0}}))
        assert json.loads(socket.recv())["data"]["observation"]["turn"] == 0
        assert "turn 1 of seat 0 is to come; the turn now is 0" in error(
            {"type": "step", "data": {"tool_name": "Pass", "metadata": {"turn": 1}}}
        )
        assert "metadata.turn='x'" in error(
            {"type": "step", "data": {"tool_name": "Pass", "metadata": {"turn": "x"}}}
        )
        assert error({"type": "step", "data": {"tool": "Pass"}}) == "Invalid message"
        socket.send(json.dumps(step))
        served = json.loads(socket.recv())["data"]
        if not served["done"]:
            assert "turn 0 of seat 0 was decided already: the answer is late or repeated" in error(
                step
            )


def test_an_oversized_message_ends_its_connection_only(kuhn: str) -> None:
    with GameClient(kuhn).sync() as other, session(kuhn) as socket:
        other.reset(seed=1)
        socket.send("x" * 60_000)
        with pytest.raises(ConnectionClosed, match="1009"):
            socket.recv()
        assert other.state().step_count == 0


def test_errors_over_http_are_no_tracebacks(kuhn: str) -> None:
    action = {"action": {"type": "call_tool", "tool_name": "Pass", "arguments": {}}}
    answer = post(f"{kuhn}/step", json=action)
    assert answer.status_code == 400
    assert answer.json() == {"detail": "there is no episode: call reset first"}
    assert post(f"{kuhn}/reset", json={"seed": 2**70}).status_code == 400
    assert post(f"{kuhn}/reset", json={"seed": 7}).json()["observation"]["seat"] == 0
    assert get(f"{kuhn}/state").json()["episode_id"] is None
    assert get(f"{kuhn}/metadata").json()["name"] == "kuhn_poker"


def free_slots(kuhn: str) -> int:
    """Take all slots, count them and give them back."""
    sockets = []
    try:
        while True:
            socket = session(kuhn)
            sockets.append(socket)
            with suppress(ConnectionClosed):  # One that is refused may be closed already.
                socket.send(json.dumps({"type": "state"}))
            answer = json.loads(socket.recv())
            if answer["type"] == "error":
                assert answer["data"]["code"] == "CAPACITY_REACHED"
                return len(sockets) - 1
    finally:
        for socket in sockets:
            socket.close()


def wait_for_slots(kuhn: str) -> None:
    end = time.monotonic() + 60
    while (free := free_slots(kuhn)) != SLOTS:
        assert time.monotonic() < end, f"{free} of {SLOTS} slots are free"
        time.sleep(0.05)


def test_a_client_that_vanishes_frees_its_slot(kuhn: str) -> None:
    wait_for_slots(kuhn)
    for _ in range(3 * SLOTS):
        socket = session(kuhn)
        socket.send(json.dumps({"type": "reset", "data": {"seed": 1}}))
        socket.recv()
        # Without a goodbye, as when its process is killed.
        socket.socket.close()
        wait_for_slots(kuhn)


def test_a_session_may_be_silent_for_longer_than_a_connection_of_http(
    kuhn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = dict.fromkeys(connections.PHASE_SECONDS, 0.2)
    monkeypatch.setattr(connections, "PHASE_SECONDS", limits)
    monkeypatch.setattr(connections, "CHECK_SECONDS", 0.05)
    with session(kuhn) as socket:
        for _ in range(3):
            socket.send(json.dumps({"type": "reset", "data": {"seed": 1}}))
            assert json.loads(socket.recv())["type"] == "observation"
            time.sleep(0.6)


def test_a_silent_session_ends() -> None:
    app = make_app(hosted(), max_sessions=1, session_timeout=0.5)
    # OpenEnv looks for silent sessions every five seconds at the most.
    with hosting(app) as server, GameClient(server).sync() as env:
        env.reset(seed=1)
        time.sleep(6.5)
        with pytest.raises(RuntimeError, match="the session was closed"):
            env.step(call("Pass"))
        with GameClient(server).sync() as other:
            assert not other.reset(seed=1).done


def test_the_same_seed_and_actions_give_the_same_observations_in_many_sessions(
    cluedo: str,
) -> None:
    async def work() -> None:
        games = await asyncio.gather(*(played(cluedo, seed, seed) for seed in range(32)))
        again = await asyncio.gather(*(played(cluedo, seed, seed) for seed in range(0, 32, 8)))
        assert games[::8] == again
        # What differs is the deal, or the choices.
        other = await played(cluedo, 0, 1)
        assert games[0][0] == other[0] != games[1][0] and games[0] != other

    clients(work)


def test_a_model_of_this_process_is_an_opponent() -> None:
    """The extras `openenv` and `embedded` install together and work together."""
    llm = LLMService(Settings.load())
    host = hosted(CLUEDO, "embedded:clue-tiny", llm=llm, max_turns=2)

    async def play() -> None:
        env = GameEnvironment(host)
        seen = await env.reset_async(seed=1)
        while not seen.done:
            seen = await env.step_async(call("reply", text=seen.legal_actions[0]))
        assert seen.outcome == "stopped after 2 turns"
        env.close()

    asyncio.run(play())


def test_without_the_token_nothing_is_served() -> None:
    app = make_app(hosted())
    guarded = Guard(app, SecretStr("secret"), 10_000)
    with hosting(guarded) as server:
        right = {"Authorization": "Bearer secret"}
        assert get(f"{server}/health").status_code == 200
        assert get(f"{server}/schema").status_code == 401
        assert set(statuses(server, "/schema").values()) <= {400, 401, 403}
        assert get(f"{server}/schema", headers=right).status_code == 200
        large = {"data": "x" * 20_000}
        assert post(f"{server}/reset", json=large, headers=right).status_code == 503
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            with pytest.raises(ConnectionError, match="401"):
                GameClient(server, headers=headers).sync().connect()
        with GameClient(server, headers=right).sync() as env:
            assert not env.reset(seed=1).done
    with hosting(Guard(app, None)) as server:
        foreign = {"Origin": "http://evil.example"}
        with pytest.raises(ConnectionError, match="403"):
            GameClient(server, headers=foreign).sync().connect()


def test_the_reward_and_its_terms_come_at_the_end() -> None:
    score = Rewards.parse("win=1,entropy_removed=0.5", CLUEDO).score

    async def play() -> None:
        env = GameEnvironment(hosted(CLUEDO, "bot:novice"), score)
        seen = await env.reset_async(seed=1)
        while not seen.done:
            assert seen.reward == 0.0 and not seen.terms
            seen = await env.step_async(call("reply", text=seen.legal_actions[-1]))
        assert seen.reward == pytest.approx(seen.terms["win"] + 0.5 * seen.terms["entropy_removed"])
        assert (await env.reset_async(seed=1)).terms == {}
        env.close()

    asyncio.run(play())


class AllSeats(HostedGame):
    """A game whose other seats the test plays, too."""

    def start(self, seed: int, seats: Collection[int], *watchers: Watcher) -> GameSession:
        players = range(self.game.num_players)
        session = GameSession(self.match(seed, players), players)
        STARTED.append(session)
        return session


STARTED: list[GameSession] = []


def served_in(game: Game, history: Sequence[Step], seat: int) -> list[str]:
    """Return all that the session of a seat is served in a game with exactly these moves.

    All seats have sessions; chance draws what the history has.
    """
    state, choices = game.initial_state(), [list[Action]() for _ in range(game.num_players)]
    for move in history:
        # Sessions are not asked for moves without an alternative.
        if move.player != CHANCE and not state.legal_actions(move.player).is_forced:
            choices[move.player].append(move.action)
        state.apply(move.player, move.action)
    draws = iter([move.action for move in history if move.player == CHANCE])
    served: list[str] = []

    async def play_session(env: GameEnvironment) -> None:
        def keep(seen: GameObservation) -> None:
            served.extend((seen.model_dump_json(), env.state.model_dump_json()))

        keep(await env.reset_async(seed=0, seat=seat))
        for action in choices[seat]:
            keep(await env.step_async(call("reply", text=str(action))))

    async def play_seat(session: GameSession, player: int) -> None:
        for action in choices[player]:
            await session.turn(player)
            session.act(player, action)

    async def work() -> None:
        env = GameEnvironment(AllSeats(game))
        tasks = [asyncio.ensure_future(play_session(env))]
        await asyncio.sleep(0)
        session, others = STARTED.pop(), set(range(game.num_players)) - {seat}
        tasks += [asyncio.ensure_future(play_seat(session, player)) for player in others]
        # Nothing waits for anything but the sessions, so at some time all of them are idle.
        for _ in range(100 + 20 * len(history)):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [each for each in outcomes if isinstance(each, Exception)]
        assert not errors, errors
        await session.close()

    with pytest.MonkeyPatch.context() as patch:
        # At the end of the history the next draw of chance waits too.
        patch.setattr(type(state), "sample_chance", lambda _state, _rng: next(draws))
        patch.setattr(session_module, "play", until_chance_ends(play))
        asyncio.run(work())
    return served


def until_chance_ends(usual: Any) -> Any:
    """Return a `play` that waits for ever where the history has no draw of chance left."""

    async def waiting(*args: Any, **more: Any) -> Any:
        try:
            return await usual(*args, **more)
        except (StopIteration, RuntimeError):
            await asyncio.Event().wait()

    return waiting


@pytest.mark.parametrize(
    "name",
    [
        *("kuhn_poker", "leduc_poker", "liars_dice", "cluedo", "battleship", "hanabi"),
        *("negotiation", "codenames", "avalon", "werewolf"),
    ],
)
def test_nothing_that_is_served_depends_on_what_is_hidden(name: str) -> None:
    game = make_game(name)
    rng, compared = random.Random(1), 0
    for seed in range(3):
        for position in sampled_positions(game, seed, 5):
            seat, state = rng.randrange(game.num_players), position.state
            # At the end the reward is served too, and the game may show it no other way.
            other = game.analysis.resample(position.history, seat, rng)
            if other is None or state.is_terminal or other == list(position.history):
                continue
            # A move without an alternative is played at once, and what follows it is seen too.
            worlds = (state, game.initial_state().apply_all(other))
            if any(
                world.legal_actions(p).is_forced
                for world in worlds
                for p in set(world.to_act) - {CHANCE}
            ):
                continue
            mine = served_in(game, position.history, seat)
            assert mine == served_in(game, other, seat)
            compared += bool(mine)
    assert compared, "no world differed from the true one"
