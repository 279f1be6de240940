"""A game as a task of inspect_ai; the model that is evaluated has one seat, bots the others.

pip install inspect-ai
inspect eval docs/examples/inspect_task.py --model openai/gpt-5-mini -T game=cluedo -T games=40
"""

from __future__ import annotations

from typing import Any

from inspect_ai import Task, model, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, mean, scorer, stderr
from inspect_ai.solver import solver
from inspect_ai.util import LimitExceededError

import arena

MODEL = "scripted:inspect"
"""A SPEC with the prefix of a backend is played by arena's chat agent; `solve` adds the backend."""


class EvaluatedModel:
    """The model of `inspect eval --model`; inspect_ai samples by its own flags, and retries."""

    model = MODEL
    context_length: int | None = None

    async def complete(self, request: arena.Request) -> arena.Completion:
        """Answer once. Raises StopPlaying for every error and limit of inspect_ai."""
        roles = {
            "system": model.ChatMessageSystem,
            "user": model.ChatMessageUser,
            "assistant": model.ChatMessageAssistant,
        }
        chat = [roles[message.role](content=message.content) for message in request.messages]
        try:
            output = await model.get_model().generate(chat)
        except Exception as error:
            raise arena.StopPlaying(f"inspect: {error}") from error
        if not output.choices or output.stop_reason == "model_length":
            raise arena.ContextOverflow(f"inspect: {output.error or output.stop_reason}")
        used = output.usage or model.ModelUsage()
        was_cut = output.stop_reason == "max_tokens"
        choice = arena.Choice(output.completion, "length" if was_cut else "stop")
        return arena.Completion(
            choice, output.model, arena.Usage(used.input_tokens, used.output_tokens)
        )

    async def close(self) -> None:
        """Do nothing: inspect_ai shares its models among all samples."""


@solver
def play_game(game: arena.Game, opponent: str) -> Any:
    """Play the deal of a sample with the model in the seat of the sample."""

    async def solve(state: Any, _generate: Any) -> Any:
        deal, seat = state.metadata["deal"], state.metadata["seat"]
        specs = [MODEL if player == seat else opponent for player in range(game.num_players)]
        async with arena.LLMService() as llm:
            llm.add(MODEL, EvaluatedModel())
            try:
                episode = await arena.play(arena.Match(game, specs, deal), llm=llm)
            except arena.StopPlaying as error:
                if isinstance(error.__cause__, LimitExceededError):
                    raise error.__cause__ from None  # inspect_ai ends the sample at its limit.
                raise
        scores = {
            "won": float(episode.outcome.is_winner(seat)),
            "return": float(episode.outcome.returns[seat]),
            "fallbacks": float(sum(each.player == seat for each in episode.failures)),
        }
        state.store.set("scores", scores)
        return state

    return solve


@scorer(metrics={"*": [mean(), stderr(cluster="deal")]})
def game_score() -> Any:
    """Return the numbers of a finished game. Games of one deal are one unit of the error."""

    async def score(state: Any, _target: Any) -> Any:
        scores = state.store.get("scores")
        return Score(value=scores) if scores else Score.unscored(reason="the game did not end")

    return score


@task
def play(game: str, games: int = 20, seed: int = 0, opponent: str = "bot:random") -> Task:
    """Return the task: each deal is played once from each seat."""
    rules = arena.make_game(game)
    deals = [(seed + n // rules.num_players, n % rules.num_players) for n in range(games)]
    samples = [
        Sample(id=f"{d}/{s}", input=rules.summary, metadata={"deal": d, "seat": s})
        for d, s in deals
    ]
    return Task(MemoryDataset(samples), solver=play_game(rules, opponent), scorer=game_score())
