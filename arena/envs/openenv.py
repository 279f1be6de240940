"""OpenEnv: any game as an environment that other programs train in, over HTTP and WebSocket.

First the messages of a session (calls, observation, state) and a client that sends them, then the
environment of one session and the application. An action is OpenEnv's `CallToolAction`: the name of
a function and its arguments. With `metadata={"turn": N}` it answers the decision of that number
only. A program that trains plays so:

    with GameClient("http://127.0.0.1:8000").sync() as env:
        result = env.reset(seed=7)
        while not result.done:
            action = call("Suggest", suspect="Miss Scarlett", weapon="Rope", room="Hall")
            result = env.step(action)

All of this needs the extra `openenv`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv.core.env_server.types import ConcurrencyConfig, EnvironmentMetadata
from openenv.core.env_server.types import State as SessionState
from pydantic import Field, JsonValue
from starlette.responses import JSONResponse

from arena.agents.action_tools import action_tools, called_action
from arena.agents.chat import full_rules
from arena.core.action import Action
from arena.core.errors import ActionError, ArenaError, InvalidAction, UsageError
from arena.core.event import Ply
from arena.core.game import Game, State
from arena.core.spec import check_seed, draw_seed
from arena.core.version import __version__
from arena.envs.hosting import HostedGame
from arena.episodes.match import Watcher
from arena.episodes.measurement import SeatEpisode
from arena.episodes.session import GameSession, SeatTurn

if TYPE_CHECKING:
    from fastapi import FastAPI, Request


class GameObservation(CallToolObservation):
    """What the seat of this session may know, when it must decide or the game is over.

    `result` is the text: everything after a reset, then what is new. `error` says why a call was
    refused; the game has not advanced then, and the same decision is awaited.
    """

    tool_name: str = Field(default="", description="The function that was called; '' for a reset")
    rules: str = Field(default="", description="Rules and notation, after a reset")
    seat: int = Field(description="Seat of this session, from 0")
    turn: int = Field(description="Number of the decision that is awaited, from 0")
    legal_actions: list[str] = Field(description="The actions that are legal now, as text")
    outcome: str = Field(default="", description="Why the game has ended, '' while it goes on")
    terms: dict[str, float] = Field(
        default_factory=dict, description="Terms of the reward, at the end"
    )


class GameState(SessionState):
    """Public facts of a session. It holds neither the seed nor anything that is hidden."""

    game: str = Field(description="Name of the game")
    players: int = Field(description="Number of seats")
    seat: int | None = Field(default=None, description="Seat of this session")
    turn: int = Field(default=0, description="Number of the decision that is awaited, from 0")
    done: bool = Field(default=False, description="Whether the episode is over")


REPLY = "reply"
"""The function that takes a reply in words, for models that call no functions."""
MAX_ARGUMENTS = 65_536
"""Characters of the arguments of one call."""


def served_tools(game: Game) -> list[Tool]:
    """Return the functions of a game: one for each kind of action, and `reply`."""
    tools = []
    for tool in action_tools(game):
        properties = tool.parameters["properties"]
        assert isinstance(properties, dict)
        # Models in training think in their reply, not in an argument.
        fields = {name: field for name, field in properties.items() if name != "thoughts"}
        schema = _schema(fields)
        tools.append(Tool(name=tool.name, description=tool.description, input_schema=schema))
    about = "Answer in words; the action is read from the text, for example 'Action: …'."
    schema = _schema({"text": {"type": "string"}})
    return [*tools, Tool(name=REPLY, description=about, input_schema=schema)]


def _schema(properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the JSON schema of arguments, all of which are required."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def read_call(game: Game, action: CallToolAction) -> Action | str:
    """Return the action of a call, or the text of a `reply`. Raises InvalidAction."""
    arguments = action.arguments
    length = len(str(arguments)) + len(action.tool_name)
    if length > MAX_ARGUMENTS:
        raise InvalidAction(
            f"the call has {length:,} characters; at most {MAX_ARGUMENTS:,} are read"
        )
    if action.tool_name != REPLY:
        return called_action(game, action.tool_name, arguments, [REPLY])
    text = arguments.get("text")
    if not isinstance(text, str) or len(arguments) != 1:
        raise InvalidAction("the call of reply takes one argument, text, a string")
    return text


def turn_number(action: CallToolAction) -> int | None:
    """Return the decision that an action answers. Raises UsageError if it is no whole number."""
    turn = action.metadata.get("turn")
    if turn is not None and type(turn) is not int:
        raise UsageError(f"metadata.turn={turn!r}: give the turn of the observation")
    return turn


def call(function: str, turn: int | None = None, /, **arguments: JsonValue) -> CallToolAction:
    """Return the call of a function, as the answer to the decision of number `turn`."""
    metadata = {} if turn is None else {"turn": turn}
    return CallToolAction(tool_name=function, arguments=arguments, metadata=metadata)


class GameClient(EnvClient[CallToolAction, GameObservation, GameState]):
    """Plays one session of a server. It is async; `sync()` returns a client without `await`."""

    def _step_payload(self, action: CallToolAction) -> dict[str, JsonValue]:
        payload: dict[str, JsonValue] = action.model_dump(mode="json")
        return payload

    def _parse_result(self, payload: dict[str, JsonValue]) -> StepResult[GameObservation]:
        fields = payload["observation"]
        assert isinstance(fields, dict)
        reward, done = payload["reward"], payload["done"]
        observation = GameObservation.model_validate({**fields, "reward": reward, "done": done})
        return StepResult(observation=observation, reward=observation.reward, done=observation.done)

    def _parse_state(self, payload: dict[str, JsonValue]) -> GameState:
        state: GameState = GameState.model_validate(payload)
        return state


MAX_EPISODE_ID = 255
"""Characters, as in OpenEnv's requests."""
MAX_SESSIONS = 64
SESSION_SECONDS = 1800.0


class ScoredEpisode(Protocol):
    """The reward of one seat of a finished game, and its terms by name, unweighted."""

    @property
    def reward(self) -> float: ...
    @property
    def terms(self) -> Mapping[str, float]: ...


Scoring = Callable[[SeatEpisode], ScoredEpisode]
"""Scores a finished game for one seat. Raises ArenaError if that fails."""


@dataclass(frozen=True, slots=True)
class StepRewards:
    """Rewards of single steps beside that of the game, from what the seat knows at the step."""

    judge: Callable[[Game, int], Callable[[Ply], float]]
    """Return a function that gives the reward of each ply of a game, in order, for a seat."""
    refused: float
    """Reward of a call that is refused."""
    game_weight: float
    """Weight of the game's reward in the reward of the last step."""


class _StepJudge(Watcher):
    """Values the plies of one seat."""

    def __init__(self, judge: Callable[[Ply], float], seat: int) -> None:
        self._judge, self._seat = judge, seat
        self.rewards: list[float] = []
        """Rewards of the seat's plies so far."""

    def ply(self, ply: Ply, state: State) -> None:
        reward = self._judge(ply)
        if ply.player == self._seat:
            self.rewards.append(reward)


class GameEnvironment(Environment):
    """One session of a hosted game.

    Args:
        host: What is played.
        score: The reward at the end of a game; None: the return that the game gives the seat.
        steps: Rewards of single steps. None: all steps but the last have the reward 0.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self, host: HostedGame, score: Scoring | None = None, steps: StepRewards | None = None
    ) -> None:
        super().__init__()
        self._host = host
        self._score = score
        self._step_rewards = steps
        self._judge: _StepJudge | None = None
        self._session: GameSession | None = None
        self._episode_id: str | None = None
        self._seat = self._steps = self._read = 0
        self._turn: SeatTurn
        self._loop: asyncio.AbstractEventLoop | None = None
        self._busy = self._closed = False

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        seat: int | None = None,
        **unknown: Any,
    ) -> GameObservation:
        """Start an episode, and wait until the seat must decide.

        Args:
            seed: Seed of the game. None: a random one, which is not served.
            episode_id: Name of the episode, which opens nothing.
            seat: Seat of this session. None: the first one.
            unknown: Refused.

        Raises UsageError for a wrong argument.
        """
        with self._one_call():
            game = self._host.game
            if unknown:
                names = "seed, episode_id, seat"
                raise UsageError(f"reset takes {names}, and no '{next(iter(unknown))}'")
            if not isinstance(episode_id, str | None) or len(episode_id or "") > MAX_EPISODE_ID:
                raise UsageError(f"episode_id: give a text of at most {MAX_EPISODE_ID} characters")
            taken = 0 if seat is None else seat
            if type(taken) is not int or not 0 <= taken < game.num_players:
                raise UsageError(f"seat={seat!r}: give a seat from 0 to {game.num_players - 1}")
            checked = draw_seed() if seed is None else check_seed(seed)
            self._loop = asyncio.get_running_loop()
            self._leave()
            self._judge = None
            if self._step_rewards is not None:
                self._judge = _StepJudge(self._step_rewards.judge(game, taken), taken)
            watchers = () if self._judge is None else (self._judge,)
            self._session = session = self._host.start(checked, {taken}, *watchers)
            self._episode_id, self._seat, self._steps, self._read = episode_id, taken, 0, 0
            self._turn = await session.turn(taken)
            rules = full_rules(game, game.turn_limit(self._host.max_turns))
            return self._observe(session, "", rules)

    async def step_async(
        self, action: Any, timeout_s: float | None = None, **unknown: Any
    ) -> GameObservation | ListToolsObservation:
        """Call a function, and wait until the seat must decide again or the game is over.

        `timeout_s` is not used: an answer that is cut off would leave the game between two turns.

        Raises:
            UsageError: There is no game, it is over, another call is in progress, or the action
                answers another decision than the present one.
        """
        with self._one_call():
            if isinstance(action, ListToolsAction):
                return ListToolsObservation(tools=served_tools(self._host.game))
            session = self._present()
            judged = [] if self._judge is None else self._judge.rewards
            decided = len(judged)
            try:
                session.act(self._seat, read_call(self._host.game, action), turn_number(action))
            except ActionError as fault:
                self._steps += 1
                is_wrong = isinstance(fault, InvalidAction)
                kind = ToolErrorType.INVALID_ARGS if is_wrong else ToolErrorType.EXECUTION_ERROR
                error = ToolError(error_type=kind, message=str(fault))
                reward = 0.0 if self._step_rewards is None else self._step_rewards.refused
                return self._observation(action.tool_name, error=error, reward=reward)
            self._turn = await session.turn(self._seat)
            self._steps += 1
            # The next ply of the seat is this decision; more may follow, which were forced.
            own = judged[decided : decided + 1]
            return self._observe(session, action.tool_name, step_reward=sum(own))

    def reset(self, *_: Any, **__: Any) -> GameObservation:
        """Refuse: the other seats are played in the event loop of the session."""
        raise NotImplementedError("GameEnvironment is async: await reset_async and step_async")

    step = reset

    @property
    def state(self) -> GameState:
        """Public facts of the session."""
        facts = {"game": self._host.game.name, "players": self._host.game.num_players}
        if self._session is None:
            return GameState(**facts)
        return GameState(
            **facts,
            episode_id=self._episode_id,
            step_count=self._steps,
            seat=self._seat,
            turn=self._turn.number,
            done=self._turn.is_over,
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the name and the summary of the game."""
        game = self._host.game
        return EnvironmentMetadata(name=game.name, description=game.summary, version=__version__)

    def close(self) -> None:
        """End the session and its game. May be called from another thread than the event loop's."""
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.leave(self._seat)

    @contextmanager
    def _one_call(self) -> Iterator[None]:
        """Refuse a call while another one is in progress, and any after the end."""
        if self._closed:
            raise UsageError("the session was closed, for example after a long silence: reconnect")
        if self._busy:
            raise UsageError("another call of this session is in progress: wait for its answer")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def _present(self) -> GameSession:
        if self._session is None:
            raise UsageError("there is no episode: call reset first")
        if self._turn.is_over:
            raise UsageError("the episode is over: call reset")
        return self._session

    def _observe(
        self, session: GameSession, function: str, rules: str = "", step_reward: float = 0.0
    ) -> GameObservation:
        """Return what is new for the seat, and the reward of the step."""
        seen, ended = self._turn.observation, {}
        text, self._read = seen.text(self._host.text_level, self._read), seen.num_events
        # A game may end before the seat has decided, so a reset can bring the reward too.
        if self._turn.is_over:
            outcome = session.episode.outcome
            ended = {"done": True, "outcome": outcome.reason}
            reward = outcome.returns[self._seat]
            if self._score is not None:
                scored = self._score(SeatEpisode(self._host.game, session.episode, self._seat))
                reward, ended["terms"] = scored.reward, dict(scored.terms)
            weight = 1.0 if self._step_rewards is None else self._step_rewards.game_weight
            step_reward += weight * reward
        return self._observation(function, result=text, rules=rules, reward=step_reward, **ended)

    def _observation(self, function: str, **fields: Any) -> GameObservation:
        return GameObservation(
            tool_name=function,
            seat=self._seat,
            turn=self._turn.number,
            legal_actions=list(self._turn.observation.legal_actions.notations()),
            **fields,
        )


def make_app(
    host: HostedGame,
    score: Scoring | None = None,
    steps: StepRewards | None = None,
    *,
    max_sessions: int = MAX_SESSIONS,
    session_timeout: float = SESSION_SECONDS,
) -> FastAPI:
    """Return OpenEnv's application for a game: `/ws`, `/mcp`, `/schema`, `/health` and more.

    Args:
        host: What is played.
        score: See `GameEnvironment`.
        steps: See `GameEnvironment`.
        max_sessions: Sessions at the same time; one more gets the error CAPACITY_REACHED.
        session_timeout: Seconds without a call after which a session ends and frees its slot. A
            connection that breaks frees it at once.

    Raises UsageError if the time for one decision is not shorter than `session_timeout`.
    """
    if host.turn_seconds is not None and host.turn_seconds >= session_timeout:
        raise UsageError(
            f"{host.turn_seconds:g} seconds for a decision: give less than the {session_timeout:g} "
            "after which a silent session ends"
        )
    app = create_fastapi_app(
        partial(GameEnvironment, host, score, steps),
        CallToolAction,
        GameObservation,
        concurrency_config=ConcurrencyConfig(
            max_concurrent_envs=max_sessions, session_timeout=session_timeout
        ),
        env_name=host.game.name.replace("/", "-"),
        state_cls=GameState,
    )
    # The WebSocket reports errors itself; over HTTP they would be a status 500 with a traceback.
    app.add_exception_handler(ArenaError, _answer_error)
    app.router.redirect_slashes = False  # A redirect would name the host that the client sent.
    return app


async def _answer_error(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 400 if isinstance(error, UsageError) else 409)
