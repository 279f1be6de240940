"""Games as tasks of inspect_ai: `inspect eval arena/cluedo --model openai/gpt-5`.

A sample is one game: the model has one seat, which changes from sample to sample, and the agents of
`-T opponents=SPEC,…` have the others. Options of the game are arguments too: `-T players=4`. Each
score is the mean over games of one number; exact knowledge gives most of them. inspect_ai finds the
tasks by the entry point of the package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspect_ai import Task, model, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, mean, scorer, stderr
from inspect_ai.solver import solver
from inspect_ai.util import LimitExceededError, registry_info

from arena.agents.chat import Attempt, attempts_in, full_rules, requests_of
from arena.agents.chat_agent import ChatAgent
from arena.core.errors import ContextOverflow, StopPlaying
from arena.core.spec import split_specs
from arena.envs.hosting import HostedGame
from arena.episodes.files import ReplayFile
from arena.episodes.job import GameJob, play_job
from arena.episodes.measurement import custom_measures, measure_seats
from arena.llm.backend import BackendTraits, Choice, Completion, Message, Request, Usage
from arena.llm.service import LLMService
from arena.plugins.catalog import catalog, make_game

if TYPE_CHECKING:
    from arena.core.game import Game
    from arena.core.observation import TextLevel
    from arena.episodes.record import Episode

MODEL = "inspect"
"""Name of the evaluated model in the record of a game."""


class EvaluatedModel:
    """The model of `inspect eval --model`; inspect_ai samples by its own flags, and retries."""

    model = MODEL
    context_length: int | None = None
    traits = BackendTraits(is_remote=True, has_known_price=False)

    async def complete(self, request: Request) -> Completion:
        """Answer once. Raises ContextOverflow, and StopPlaying for every error of inspect_ai."""
        asked = chat_messages(request.messages)
        config = model.GenerateConfig(seed=request.sampling.seed)
        try:
            output = await model.get_model().generate(asked, config=config)
        except Exception as error:  # Of any provider; limits of the sample are exceptions too.
            raise StopPlaying(f"{MODEL}: {error}") from error
        if not output.choices or output.stop_reason == "model_length":
            raise ContextOverflow(f"{MODEL}: {output.error or output.stop_reason}")
        used = output.usage or model.ModelUsage()
        usage = Usage(used.input_tokens, used.output_tokens)
        was_cut = output.stop_reason == "max_tokens"
        choice = Choice(output.completion, "length" if was_cut else "stop")
        return Completion(choice, output.model, usage)

    async def close(self) -> None:
        """Do nothing: inspect_ai shares its models among all samples."""


def chat_messages(messages: Sequence[Message]) -> list[Any]:
    """Return messages in the form of inspect_ai, which has a class for each role."""
    names = [(f"ChatMessage{message.role.title()}", message.content) for message in messages]
    return [getattr(model, name)(content=content) for name, content in names]


def game_scores(game: Game, episode: Episode, seat: int) -> dict[str, float]:
    """Return the numbers of a seat: its result, its replies, and its measures by exact knowledge.

    NaN marks a number for which the game gave no opportunity; inspect_ai counts it as unscored.
    """
    outcome, attempts = episode.outcome, seat_attempts(episode, seat)
    measured = measure_seats(game, episode)[seat]
    names = [each.name for each in game.analysis.measures if each.comparable]
    names += [each.definition.name for each in custom_measures(game)]
    sums = {name: measured.get(name) for name in names if "/" not in name}  # "/": of a series.
    legal = sum(attempt.failure is None for attempt in attempts)
    return {
        "won": float(outcome.is_winner(seat)),
        "return": float(outcome.returns[seat]),
        "truncated": float(outcome.status == "truncated"),
        "turns": float(episode.turns),
        "fallbacks": float(sum(each.player == seat for each in episode.failures)),
        "legal_rate": legal / len(attempts) if attempts else math.nan,
        **{
            n: each.total / each.weight if each and each.weight else math.nan
            for n, each in sums.items()
        },
    }


def seat_attempts(episode: Episode, seat: int) -> list[Attempt]:
    """Return the requests to the model of a seat, in the order of the game."""
    plies = (ply for ply in episode.plies if ply.player == seat)
    return [attempt for ply in plies for attempt in attempts_in(ply.decision)]


def _played(game: Game, episode: Episode, seat: int) -> tuple[dict[str, float], list[Any]]:
    """Return the scores of a finished game, and the model's last chat with its reply."""
    attempts = seat_attempts(episode, seat)
    last = [Message("assistant", attempt.reply) for attempt in attempts[-1:]]
    chat = [*requests_of(attempts)[-1], *last] if attempts else []
    return game_scores(game, episode, seat), chat_messages(chat)


def _hosted(
    name: str,
    opponents: str = "",
    text_level: TextLevel = "notes",
    max_turns: int | None = None,
    **options: Any,
) -> HostedGame:
    """Return the game with its players. Raises UsageError for a wrong argument."""
    game, specs = make_game(name, **options), split_specs(opponents)
    return HostedGame(game, specs, text_level, max_turns, llm=LLMService(), session_spec=MODEL)


def play_game(name: str, replays: str | None, **settings: Any) -> Callable[..., Any]:
    """Return the solver: it plays the game of a sample with the model in one seat."""
    host = _hosted(name, **settings)

    async def solve(state: Any, _generate: Callable[..., Any]) -> Any:
        deal, seat = state.metadata["deal"], state.metadata["seat"]
        file = ReplayFile(Path(replays), f"{deal}-{seat}", numbered=True) if replays else None
        match = host.match(deal, {seat})
        job = GameJob(f"deal {deal}, seat {seat}", match, partial(_played, seat=seat), True, file)
        async with LLMService() as llm:
            llm.add(MODEL, EvaluatedModel())
            agents = match.seat(llm, {seat: ChatAgent(MODEL, match.seat_of(seat, llm))})
            try:
                scores, chat = (await play_job(job, llm, agents=agents)).value
            except StopPlaying as error:
                if isinstance(error.__cause__, LimitExceededError):
                    raise error.__cause__ from None  # inspect_ai ends the sample at its limit.
                raise
        if chat:
            state.messages, state.output = chat, model.ModelOutput.from_message(chat[-1])
        state.store.set("scores", scores)
        return state

    return solve


def game_score() -> Callable[..., Any]:
    """Return the scorer: the numbers of `game_scores`."""

    async def score(state: Any, _target: Any) -> Any:
        scores = state.store.get("scores")
        return (
            Score.unscored(reason="the game did not end") if scores is None else Score(value=scores)
        )

    return score


def _task_function(name: str) -> Callable[..., Any]:
    def game_task(
        games: int = 20,
        seed: int = 0,
        seat: int | None = None,
        replays: str | None = None,
        **settings: Any,
    ) -> Any:
        host = _hosted(name, **settings)
        rules = full_rules(host.game, host.game.turn_limit(host.max_turns))
        seats = range(host.game.num_players) if seat is None else [seat]
        samples = []
        for number in range(games):
            deal, place = seed + number // len(seats), seats[number % len(seats)]
            facts = {"deal": deal, "seat": place}
            samples.append(Sample(id=f"{deal}/{place}", input=rules, metadata=facts))
        return Task(
            dataset=MemoryDataset(samples, name=name),
            solver=_solver(name, replays, **settings),
            scorer=_scorer(),
            metadata={"game": name, "options": host.game.options.model_dump(mode="json")},
        )

    return game_task


_solver = solver(name="play_game")(play_game)
# Games of one deal are one unit of the standard error.
_scorer = scorer(metrics={"*": [mean(), stderr(cluster="deal")]}, name="game_score")(game_score)
for _game in catalog().names("game"):
    # inspect_ai adds the package to a name only in an installation that is not editable.
    if registry_info(task(name=_game)(_task_function(_game))).name == _game:
        task(name=f"arena/{_game}")(_task_function(_game))
