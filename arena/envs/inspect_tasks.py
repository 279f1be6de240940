"""Games as tasks of inspect_ai: `inspect eval arena/cluedo --model openai/gpt-5`.

A sample is one game: the model has one seat, which changes from sample to sample, and the agents of
`-T opponents=SPEC,…` have the others. Options of the game are arguments too: `-T players=4`. Each
score is the mean over games of one number; exact knowledge gives most of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from arena.agents.chat import Attempt, full_rules, requests_of
from arena.core.action import CHANCE
from arena.core.errors import StopPlaying
from arena.core.spec import split_specs
from arena.envs.hosting import HostedGame
from arena.episodes.job import GameJob, ReplayFile, play_job
from arena.episodes.measurement import custom_measures, measure_seats
from arena.llm.service import LLMService
from arena.plugins.catalog import require
from arena.plugins.loader import catalog, make_game

require("inspect eval arena/GAME", ("inspect_ai",), "inspect")

from inspect_ai import Task, task  # noqa: E402 - after the check that names the extra.
from inspect_ai.dataset import MemoryDataset, Sample  # noqa: E402
from inspect_ai.log import transcript  # noqa: E402
from inspect_ai.model import (  # noqa: E402
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ModelOutput,
)
from inspect_ai.scorer import Score, mean, scorer, stderr  # noqa: E402
from inspect_ai.solver import solver  # noqa: E402
from inspect_ai.util import LimitExceededError, registry_info  # noqa: E402

if TYPE_CHECKING:
    from arena.core.analysis import WeightedSum
    from arena.core.event import Ply
    from arena.core.game import Game
    from arena.core.observation import TextLevel
    from arena.core.outcome import Outcome
    from arena.core.state import State
    from arena.episodes.record import Episode, Header
    from arena.llm.backend import Message

MODEL = "inspect"
"""SPEC of the model that is evaluated."""
METRICS = {"*": [mean(), stderr(cluster="deal")]}
"""Of each number of a score; games of one deal are one unit of the standard error."""


def game_scores(game: Game, episode: Episode, seat: int) -> dict[str, float]:
    """Return the numbers of a seat: its result, its replies, and its measures by exact knowledge.

    NaN marks a number for which the game gave no opportunity; inspect_ai counts it as unscored.
    """
    outcome, attempts = episode.outcome, seat_attempts(episode, seat)
    measured = measure_seats(game, episode)[seat]
    legal = [float(attempt.failure is None) for attempt in attempts]
    names = [each.name for each in game.analysis.measures if each.comparable]
    names += [each.definition.name for each in custom_measures(game)]
    return {
        "won": float(outcome.is_winner(seat)),
        "return": float(outcome.returns[seat]),
        "truncated": float(outcome.status == "truncated"),
        "turns": float(episode.turns),
        "fallbacks": float(sum(each.player == seat for each in episode.failures)),
        "legal_rate": sum(legal) / len(legal) if legal else math.nan,
        # A name with "/" is a point of a series, for plots.
        **{name: _value(measured.get(name)) for name in names if "/" not in name},
    }


def _value(measured: WeightedSum | None) -> float:
    return measured.total / measured.weight if measured and measured.weight else math.nan


def seat_attempts(episode: Episode, seat: int) -> list[Attempt]:
    """Return the requests to the model of a seat, in the order of the game."""
    details = (ply.decision.details for ply in episode.plies if ply.player == seat != CHANCE)
    found = (each.get("attempts") for each in details)
    lists = (each for each in found if isinstance(each, list))
    return [Attempt.model_validate(raw) for attempts in lists for raw in attempts]


def chat_messages(messages: Sequence[Message]) -> list[Any]:
    """Return messages in the form of inspect_ai."""
    kinds = {
        "system": ChatMessageSystem,
        "user": ChatMessageUser,
        "assistant": ChatMessageAssistant,
    }
    return [kinds[message.role](content=message.content) for message in messages]


def move_text(ply: Ply) -> str:
    """Return a move as the log shows it."""
    player = "chance" if ply.player == CHANCE else f"player {ply.player}"
    failure = f" ({ply.decision.failure})" if ply.decision.failure else ""
    return f"{player}: {ply.decision.action}{failure}"


class MoveLog:
    """Watcher that writes each move into the log of the sample."""

    def begin(self, header: Header, state: State) -> None: ...
    def ply(self, ply: Ply, state: State) -> None:
        transcript().info(move_text(ply), source="arena")

    def end(self, outcome: Outcome) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PlayedSample:
    """What is kept of a finished game."""

    scores: dict[str, float]
    chat: list[Any]
    """The last request to the model, and its reply."""


def _played(game: Game, episode: Episode, seat: int) -> PlayedSample:
    attempts = seat_attempts(episode, seat)
    chat = chat_messages(requests_of(attempts)[-1]) if attempts else []
    last = [ChatMessageAssistant(content=attempts[-1].reply)] if attempts else []
    return PlayedSample(game_scores(game, episode, seat), chat + last)


def play_game(
    game: str,
    options: dict[str, JsonValue],
    opponents: str,
    text_level: TextLevel,
    max_turns: int | None,
    replays: str | None,
) -> Callable[..., Any]:
    """Return the solver: it plays the game of a sample with the model in one seat."""
    made, specs = make_game(game, **options), split_specs(opponents)

    async def solve(state: Any, _generate: Callable[..., Any]) -> Any:
        deal, seat = state.metadata["deal"], state.metadata["seat"]
        file = ReplayFile(Path(replays), f"{deal}-{seat}", numbered=True) if replays else None
        async with LLMService() as llm:
            host = HostedGame(made, specs, text_level, max_turns, llm=llm, session_spec=MODEL)
            match, measure = host.match(deal, {seat}), partial(_played, seat=seat)
            job = GameJob(f"deal {deal}, seat {seat}", match, measure, True, file)
            try:
                played = (await play_job(job, llm, watchers=[MoveLog()])).value
            except StopPlaying as error:
                if isinstance(error.__cause__, LimitExceededError):
                    raise error.__cause__ from None  # inspect_ai ends the sample at its limit.
                raise
        if played.chat:
            state.messages = played.chat
            state.output = ModelOutput.from_message(played.chat[-1])
        state.store.set("scores", played.scores)
        return state

    return solve


def game_score() -> Callable[..., Any]:
    """Return the scorer: the numbers of `game_scores`."""

    async def score(state: Any, _target: Any) -> Any:
        scores = state.store.get("scores")
        if scores is None:
            return Score.unscored(reason="the game did not end")
        return Score(value=scores)

    return score


def register_tasks() -> None:
    """Register a task for each game of the catalog: `arena/GAME`."""
    for game in catalog().names("game"):
        registered = task(name=game)(_task_function(game))
        if registry_info(registered).name == game:
            # inspect_ai adds the package to a name only in an installation that is not editable.
            task(name=f"arena/{game}")(_task_function(game))


def _task_function(name: str) -> Callable[..., Any]:
    def game_task(
        games: int = 20,
        seed: int = 0,
        seat: int | None = None,
        opponents: str = "",
        text_level: TextLevel = "notes",
        max_turns: int | None = None,
        replays: str | None = None,
        **options: JsonValue,
    ) -> Any:
        game = make_game(name, **options)
        seats = range(game.num_players) if seat is None else [seat]
        samples = [
            Sample(
                id=f"{seed + number // len(seats)}/{seats[number % len(seats)]}",
                input=full_rules(game, game.turn_limit(max_turns)),
                metadata={"deal": seed + number // len(seats), "seat": seats[number % len(seats)]},
            )
            for number in range(games)
        ]
        specs = split_specs(opponents)
        # Finds a wrong SPEC before a game starts.
        HostedGame(game, specs, text_level, max_turns, llm=LLMService())
        given = dict(options)
        return Task(
            dataset=MemoryDataset(samples, name=name),
            solver=_solver(name, given, opponents, text_level, max_turns, replays),
            scorer=_scorer(),
            metadata={"game": name, "options": game.options.model_dump(mode="json")},
        )

    return game_task


_solver = solver(name="play_game")(play_game)
_scorer = scorer(metrics=METRICS, name="game_score")(game_score)
register_tasks()
