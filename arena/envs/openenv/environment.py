"""The environment of one session: one seat of one game after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    ListToolsAction,
    ListToolsObservation,
    ToolError,
    ToolErrorType,
)
from openenv.core.env_server.types import EnvironmentMetadata

from arena.agents.chat import full_rules
from arena.core.errors import ActionError, InvalidAction, UsageError
from arena.core.version import __version__
from arena.envs.hosting import HostedGame, SeatHandle, SharedEpisodes
from arena.envs.openenv.protocol import (
    EpisodeRubric,
    GameObservation,
    GameState,
    read_call,
    served_tools,
    turn_number,
)
from arena.episodes.measurement import SeatEpisode

MAX_EPISODE_ID = 255
"""Characters, as in OpenEnv's requests."""

T = TypeVar("T")


class GameEnvironment(Environment):
    """One session of a hosted game.

    `reset` and `step` are also there without a running event loop, for use in this process.

    Args:
        host: What is played.
        shared_episodes: The episodes that sessions share; they belong to one event loop.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, host: HostedGame, shared_episodes: SharedEpisodes) -> None:
        super().__init__(rubric=EpisodeRubric(host.score))
        self._host = host
        self._shared_episodes = shared_episodes
        self._handle: SeatHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._busy = self._closed = False

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        seat: int | None = None,
        token: str | None = None,
        **unknown: Any,
    ) -> GameObservation:
        """Start an episode, or join a shared one, and wait until the seat must decide.

        Args:
            seed: Seed of the game. None: a random one, which is not served.
            episode_id: Name of the episode, which opens nothing.
            seat: Seat of this session. None: the first one.
            token: Token of a seat of a shared episode, which has its own name, seed and seats.
            unknown: Refused.

        Raises:
            UsageError: A wrong argument; the episode before has ended in any case.
            ArenaError: The other sessions have not joined in time.
        """
        with self._one_call():
            if unknown:
                names = "seed, episode_id, seat, token"
                raise UsageError(f"reset takes {names}, and no '{next(iter(unknown))}'")
            if not isinstance(episode_id, str | None) or len(episode_id or "") > MAX_EPISODE_ID:
                raise UsageError(f"episode_id: give a text of at most {MAX_EPISODE_ID} characters")
            if not isinstance(token, str | None):
                raise UsageError("token: give a text")
            if token is not None and (seed, seat, episode_id) != (None, None, None):
                raise UsageError("token: its episode has a name, a seed and seats: leave them out")
            self._loop = asyncio.get_running_loop()
            self._leave()
            if token is None:
                handle = await self._host.play_alone(episode_id, seed, seat)
            else:
                handle = await self._shared_episodes.join(token)
            self._handle = handle
            if self._closed:  # While it waited for the others.
                self._leave()
            self._check_open()
            self._reset_rubric()
            game = self._host.game
            rules = full_rules(game, game.turn_limit(self._host.max_turns))
            return self._observe(handle, CallToolAction(tool_name=""), rules)

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
            handle = self._present()
            session = handle.session
            try:
                move = read_call(self._host.game, action)
                session.act(handle.seat, move, turn_number(action))
            except ActionError as error:
                handle.steps += 1
                return self._refuse(handle, action, error)
            handle.turn = await session.turn(handle.seat)
            handle.steps += 1
            return self._observe(handle, action)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **more: Any
    ) -> GameObservation:
        """Do the same as `reset_async`, without a running event loop."""
        return self._run(self.reset_async(seed, episode_id, **more))

    def step(
        self, action: Any, timeout_s: float | None = None, **more: Any
    ) -> GameObservation | ListToolsObservation:
        """Do the same as `step_async`, without a running event loop."""
        return self._run(self.step_async(action, timeout_s, **more))

    @property
    def state(self) -> GameState:
        """Public facts of the session."""
        game, handle = self._host.game, self._handle
        if handle is None:
            return GameState(game=game.name, players=game.num_players)
        return GameState(
            episode_id=handle.episode_id,
            step_count=handle.steps,
            game=game.name,
            players=game.num_players,
            seat=handle.seat,
            turn=handle.turn.number,
            done=handle.turn.is_over,
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the name and the summary of the game."""
        game = self._host.game
        return EnvironmentMetadata(name=game.name, description=game.summary, version=__version__)

    def close(self) -> None:
        """End the session: fallback moves play its seat; its game ends if it has no other session.

        May be called from another thread than that of the event loop.
        """
        self._closed = True
        if self._own_loop is not None:
            self._run(self._leave_now())
            self._own_loop.close()
            self._own_loop = None
        elif self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.session.leave(handle.seat)

    async def _leave_now(self) -> None:
        """Leave, and wait until the game has stopped."""
        handle = self._handle
        self._leave()
        if handle is not None:
            await handle.session.close()

    @contextmanager
    def _one_call(self) -> Iterator[None]:
        """Refuse a call while another one is in progress, and any after the end."""
        self._check_open()
        if self._busy:
            raise UsageError("another call of this session is in progress: wait for its answer")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the session was closed, for example after a long silence: reconnect")

    def _present(self) -> SeatHandle:
        if self._handle is None:
            raise UsageError("there is no episode: call reset first")
        if self._handle.turn.is_over:
            raise UsageError("the episode is over: call reset")
        return self._handle

    def _observe(
        self, handle: SeatHandle, action: CallToolAction, rules: str = ""
    ) -> GameObservation:
        """Return what is new for the seat, and the reward of the step."""
        seen, over = handle.turn.observation, handle.turn.is_over
        observation = self._observation(
            handle,
            action,
            result=seen.text(self._host.text_level, handle.read),
            rules=rules,
            done=over,
        )
        handle.read = seen.num_events
        if over:
            episode = handle.session.episode
            observation.outcome = episode.outcome.reason
            self.rubric.finished = SeatEpisode(self._host.game, episode, handle.seat)
        # A game may end before the seat has decided, so a reset can bring the reward too.
        observation.reward = self._apply_rubric(action, observation)
        observation.terms = self.rubric.terms if over else {}
        return observation

    def _refuse(
        self, handle: SeatHandle, action: CallToolAction, fault: ActionError
    ) -> GameObservation:
        """Return the reason why a call was refused."""
        kind = ToolErrorType.EXECUTION_ERROR
        if isinstance(fault, InvalidAction):
            names = [tool.name.casefold() for tool in served_tools(self._host.game)]
            is_known = action.tool_name.casefold() in names
            kind = ToolErrorType.INVALID_ARGS if is_known else ToolErrorType.TOOL_NOT_FOUND
        error = ToolError(error_type=kind, message=str(fault))
        return self._observation(handle, action, error=error, reward=0.0)

    def _observation(
        self, handle: SeatHandle, action: CallToolAction, **fields: Any
    ) -> GameObservation:
        return GameObservation(
            tool_name=action.tool_name,
            seat=handle.seat,
            turn=handle.turn.number,
            legal_actions=list(handle.turn.observation.legal_actions.notations()),
            **fields,
        )

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._own_loop is None:
            self._own_loop = asyncio.new_event_loop()
        return self._own_loop.run_until_complete(work)
