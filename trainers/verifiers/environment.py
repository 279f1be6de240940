"""Base classes of a game's package for verifiers 1: taskset, harness and environment.

A task is a deal. In its episode each seat is played by a model, through a rollout of verifiers with
a trace of its own, or by the agent of a SPEC, which leaves no trace. Every trace gets the reward
terms of its seat. A package adds only the name of the game and its seats, as
`docs/examples/verifiers_cluedo` does.
"""

# The annotations of pydantic's models are evaluated when the classes are made, so names that only
# annotations use are imported at run time too.
from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import ClassVar, Literal, TypedDict

from pydantic import Field, JsonValue, SecretStr

from arena.agents.agent import Seat
from arena.agents.chat import ChatMode, ChatOptions, attempts_in
from arena.agents.chat_agent import ChatAgent
from arena.core.errors import ArenaError, StopPlaying, UsageError
from arena.core.event import Decision
from arena.core.game import Game
from arena.core.observation import Observation, TextLevel
from arena.core.text import encodable, shorten
from arena.episodes.files import ReplayFile
from arena.episodes.job import GameJob, play_job, whole_episode
from arena.episodes.match import Match
from arena.llm.service import LLMService
from arena.llm.settings import RunLimits, Settings
from arena.plugins.catalog import make_game, require
from backends.openai_http import HTTPBackend
from trainers.credit import GAME, Credit
from trainers.rewards import Rewards, SeatEpisode
from trainers.rollouts.trajectories import decided_attempts
from trainers.trajectory import Judgements, reply_judgements

require("a package for verifiers", ("verifiers",), "verifiers")

import verifiers.v1 as vf  # noqa: E402 - after the check that names the extra.

MODEL = "model"
"""Player of a seat whose model verifiers serves."""
Decide = Callable[[str, str], Awaitable[None]]
"""Makes one decision; calls to the model go to the address, with the bearer token."""
PATIENCE = 24 * 3600.0
"""Seconds. verifiers limits the time of a rollout (`--env.seat_0.timeout.rollout`), not this."""


@dataclass(slots=True)
class Segment:
    """One segment of a rollout: one decision."""

    observation: Observation
    decision: Decision | None = None


class ModelSeat:
    """Agent that lets the model of an open rollout decide.

    verifiers records the calls of a rollout: a harness sends them to an address on this machine
    with a password of its own, and verifiers passes them on to the model. Here the harness is
    arena's `ChatAgent`: one segment of the rollout is one decision, with all its corrections. So
    the trace holds what the model has read, and prompts and parser are the same as everywhere else.
    """

    def __init__(self, interaction: vf.Interaction, settings: Settings) -> None:
        self._interaction = interaction
        self._settings = settings
        self._llm = LLMService(settings)
        self._agent: ChatAgent | None = None
        self._seat: Seat | None = None
        self._segment: Segment | None = None
        interaction.trace.state.decide = self._decide

    @property
    def trace(self) -> vf.Trace:
        """The record of the rollout."""
        return self._interaction.trace

    @property
    def spec(self) -> str:
        """Name of the player in replays."""
        return f"verifiers:{self.trace.agent.config.model}"

    def sit(self, seat: Seat) -> None:
        """Take the seat of a game, before its first move."""
        self._seat = seat

    async def act(self, observation: Observation) -> Decision:
        """Run one segment of the rollout.

        Raises:
            ArenaError: verifiers has ended the rollout at one of its limits. The runner plays
                fallback moves for the rest of the game.
            StopPlaying: The model gave no answer.
        """
        self._check_rollout()
        self._segment = segment = Segment(observation)
        # The text is not sent: the chat agent writes the request.
        await self._interaction.turn("Your move.")
        if segment.decision is None:
            self._check_rollout()
            raise StopPlaying(
                f"{self.spec}: the rollout made no decision; --env.seat_N.harness must be unset"
            )
        return segment.decision

    async def close(self) -> None:
        """Close the connections."""
        await self._llm.close()

    def _check_rollout(self) -> None:
        """Raise the error of a rollout that has failed or ended."""
        if self.trace.errors:
            raise StopPlaying(f"{self.spec}: {shorten(self.trace.errors[-1].message)}")
        if self.trace.stop_condition is not None:
            raise ArenaError(f"verifiers has ended the rollout: {self.trace.stop_condition}")

    async def _decide(self, endpoint: str, secret: str) -> None:
        """Decide, within a segment; calls go to `endpoint` with the bearer token `secret`."""
        segment = self._segment
        assert self._seat is not None and segment is not None, "called by `act`"
        if self._agent is None:
            self._agent = self._make_agent(self._seat, endpoint, secret)
        decision = await self._agent.act(segment.observation)
        if self.trace.stop_condition is None and (reason := _unanswered(decision)):
            # verifiers replaces this error by that of the model's provider, which it has kept.
            raise ArenaError(reason)
        segment.decision = decision

    def _make_agent(self, seat: Seat, endpoint: str, secret: str) -> ChatAgent:
        limits = self._settings.service.limits("verifiers")
        one_call = {"concurrency": 1, "read_timeout": PATIENCE, "call_timeout": PATIENCE}
        # The name of the model is overwritten by verifiers, which knows the right one.
        backend = HTTPBackend(
            endpoint, "model", limits.model_copy(update=one_call), SecretStr(secret)
        )
        self._llm.add(self.spec, backend)
        return ChatAgent(self.spec, replace(seat, llm=self._llm))


def _says(message: vf.AssistantMessage, reply: str) -> bool:
    """Return whether a message of a trace is this reply, in which calls follow the text."""
    text = encodable(message.content or "")
    return reply.startswith(text) if message.tool_calls else reply == text


def _unanswered(decision: Decision) -> str:
    """Return why the provider gave no answer; empty if it did, or if the chat was too long."""
    attempts = attempts_in(decision)
    if not attempts:
        return ""
    last = attempts[-1]
    # A chat that is too long even after shortening is the model's own fault.
    failed = last.failure == "provider_error" and last.cause != "context_length"
    return last.excerpt if failed else ""


class GameData(vf.TaskData):  # type: ignore[misc]
    """A deal."""

    game: str
    options: dict[str, JsonValue]
    seed: int


class TaskState(vf.State):  # type: ignore[misc]
    """State of a rollout while its game is played."""

    decide: Decide | None = Field(None, exclude=True)


class GameTask(vf.Task[GameData, TaskState, vf.TaskConfig]):  # type: ignore[misc]
    """Task without rewards of its own: `GameEnv` records them, since they depend on all seats."""


class GameTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Deals to play (`--env.taskset.*`)."""

    seed: int = Field(0, ge=0, description="The first deal; the others have the next seeds.")


class GameTaskset(vf.Taskset[GameTask, GameTasksetConfig]):  # type: ignore[misc]
    """The deals of one game, without an end: `-n` says how many are played."""

    INFINITE = True
    game: ClassVar[str]
    options: ClassVar[Mapping[str, JsonValue]] = {}

    def make_game(self) -> Game:
        """Make the game of all tasks. Raises UsageError for bad options."""
        return make_game(self.game, **self.options)

    def load(self) -> Iterator[GameTask]:
        """Yield a task for each seed."""
        options = self.make_game().options.model_dump(mode="json")
        for seed in count(self.config.seed):
            data = GameData(name=f"{self.game}#{seed}", game=self.game, options=options, seed=seed)
            yield GameTask(data, self.config.task)


class GameHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """Harness in which arena's chat agent asks the model, in this process."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, *args: object, **others: object) -> vf.ProgramResult:
        """Refuse a rollout without a game. Raises UsageError."""
        raise UsageError(f"{self.config.id} plays games only: use the environment of its package")

    async def resume(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        *others: object,
    ) -> vf.ProgramResult:
        await trace.state.decide(endpoint, secret)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class SeatConfig(vf.AgentConfig):  # type: ignore[misc]
    """Player of one seat (`--env.seat_0.*`).

    With `player` "model", the other fields are those of any agent of verifiers: `model`, `client`,
    `sampling`, `max_turns`. A seat with a `model` of its own is not trained.
    """

    player: str = Field(MODEL, description="model, or the SPEC of an agent: bot:novice.")
    runtime: vf.RuntimeConfig = vf.SubprocessConfig()


class TurnReward(TypedDict):
    """One reply of a model in `trace.info["turns"]`."""

    node: int
    """Its index in `trace.nodes`."""
    ply: int
    reward: float
    """Judged reward, as `arena train --credit judged` computes it, without baselines."""


class GameEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """Rules of play, and the reward (`--env.*`); a package adds `seat_0`, `seat_1`, …"""

    reward: str = Field("", description="NAME=WEIGHT,…; empty: the default of the game.")
    credit: Literal["game", "judged"] = Field(
        "game",
        description="judged: the values of the decisions by exact knowledge, and half of the "
        "reward; info.turns has the value of each reply.",
    )
    text_level: TextLevel = "notes"
    chat: ChatMode = "append"
    max_attempts: int = Field(3, ge=1, description="Replies for one decision, with corrections.")
    max_turns: int | None = Field(None, ge=1, description="Turns of a game; null: the game's own.")
    replays: Path | None = Field(None, description="Folder for a replay of each game.")

    @property
    def seats(self) -> list[SeatConfig]:
        """The seats in the order of the fields."""
        return [value for _, value in self if isinstance(value, SeatConfig)]


class GameEnv(vf.Env[GameEnvConfig]):  # type: ignore[misc]
    """Plays one game for each episode and records the rewards of the models' seats."""

    def __init__(self, config: GameEnvConfig) -> None:
        """Raises UsageError for seats, a reward or a limit that the game does not have."""
        super().__init__(config)
        self._game: Game = self.taskset.make_game()
        self._rewards = Rewards.parse(config.reward, self._game, credit=config.credit)
        self._credit = Credit.judged(self._game) if config.credit == "judged" else Credit()
        self._settings = Settings.load()
        seats, needed = len(config.seats), self._game.num_players
        if seats != needed:
            raise UsageError(f"{self._game!r} has {needed} seats, and this package {seats}")
        if not any(seat.player == MODEL for seat in config.seats):
            raise UsageError(f"no seat has a model: set --env.seat_0.player {MODEL}")
        self._game.turn_limit(config.max_turns)

    async def setup(self, agents: vf.Agents) -> None:
        """Exclude the seats that other models play from training."""
        for number, seat in enumerate(self.config.seats):
            getattr(agents, f"seat_{number}").trainable = seat.model is None

    async def run(self, task: GameTask, agents: vf.Agents) -> None:
        """Play the game of a task. Raises StopPlaying if a model gave no answer."""
        async with AsyncExitStack() as stack:
            service = LLMService(self._settings, RunLimits())
            llm = await stack.enter_async_context(service)
            models: dict[int, ModelSeat] = {}
            for number, seat in enumerate(self.config.seats):
                if seat.player == MODEL:
                    rollout = getattr(agents, f"seat_{number}").interaction(task)
                    opened = await stack.enter_async_context(rollout)
                    models[number] = ModelSeat(opened, self._settings)
                    stack.push_async_callback(models[number].close)
            match = self._match(task.data, models)
            for number, model in models.items():
                model.sit(match.seat_of(number, llm))
            seated = match.seat(llm, models)
            folder, seed = self.config.replays, task.data.seed
            file = None if folder is None else ReplayFile(folder, f"{seed}", numbered=True)
            job = GameJob(f"the task of seed {seed}", match, whole_episode, replay=file)
            episode = (await play_job(job, None, agents=seated)).value
            for number, model in models.items():
                self._record(SeatEpisode(self._game, episode, number), model.trace)

    def _match(self, data: GameData, models: Mapping[int, ModelSeat]) -> Match:
        config = self.config
        specs = [
            models[number].spec if number in models else seat.player
            for number, seat in enumerate(config.seats)
        ]
        chat = ChatOptions(
            chat=config.chat, max_attempts=config.max_attempts, system=data.system_prompt
        )
        # Rollouts of one task share the deal; their ids, drawn by verifiers, make the play differ.
        # 62 bits fit into a signed 64-bit integer.
        first = next(iter(models.values())).trace.id
        agents_seed = int(first, 16) % 2**62
        return Match(
            self._game, specs, data.seed, config.text_level, chat, config.max_turns, agents_seed
        )

    def _record(self, seat_episode: SeatEpisode, trace: vf.Trace) -> None:
        """Record the reward terms of a seat; those without a weight are metrics."""
        episode, seat = seat_episode.episode, seat_episode.seat
        scored, weights = self._rewards.score(seat_episode), self._rewards.weights
        for name, value in scored.terms.items():
            if name in weights:
                weight = weights[name] * self._credit.weights.get(GAME, 1.0)
                trace.record_reward(name, value, weight)
            else:
                trace.record_metric(name, value)
        if self._credit.name == "judged":
            turns = self._turns(seat_episode, scored.judgements, trace)
            trace.info["turns"] = turns
            trace.record_reward("judged", math.fsum(turn["reward"] for turn in turns))
        trace.record_metric("won", episode.outcome.is_winner(seat))
        failures = [failure.text for failure in episode.failures if failure.player == seat]
        trace.record_metric("fallbacks", len(failures))
        players, reason = list(episode.header.players), episode.outcome.reason
        trace.info["game"] = {"players": players, "reason": reason, "fallbacks": failures}

    def _turns(
        self, seat_episode: SeatEpisode, judged: Mapping[int, Judgements], trace: vf.Trace
    ) -> list[TurnReward]:
        """Return the judged reward of each reply, with its node in the trace."""
        turns = list[TurnReward]()
        nodes = (call.node for call in trace.calls if call.node is not None)
        for ply, attempt in decided_attempts(seat_episode.episode, seat_episode.seat):
            if attempt.failure == "provider_error":
                continue
            values = reply_judgements(judged, ply, attempt.failure is None)
            # The trace also has answers that were discarded before a retry.
            node = next(each for each in nodes if _says(trace.nodes[each].message, attempt.reply))
            turns.append({"node": node, "ply": ply, "reward": self._credit.turn_reward(values)})
        return turns
