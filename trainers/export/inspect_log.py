"""A log of inspect_ai: `inspect view replays.eval`, `inspect_ai.log.read_eval_log("replays.eval")`.

A sample is the game of one model's seat: each request with its reply, the moves of all players in
between, and the numbers of `arena.envs.inspect_tasks.game_scores`, as if `inspect eval` had played
it. Samples of several players and games share a log; `metadata` of a sample names both. The log is
kept in memory until its end.
"""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import reduce
from itertools import chain
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, ClassVar

from arena.agents.chat import full_rules
from arena.core.game import Game
from arena.core.version import __version__
from arena.episodes.replay import Replay
from arena.llm.backend import Message
from arena.plugins.catalog import require
from trainers.export.exporter import Exporter
from trainers.export.seat_replies import ModelReply, ReplyReader, SeatReplies

require("--export inspect", ("inspect_ai",), "inspect")

from inspect_ai.event import InfoEvent, ModelEvent  # noqa: E402 - after the check of the extra.
from inspect_ai.log import (  # noqa: E402
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalSample,
    EvalSpec,
    EvalStats,
    recompute_metrics,
    write_eval_log,
)
from inspect_ai.model import (  # noqa: E402
    ChatCompletionChoice,
    ChatMessageAssistant,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score  # noqa: E402

from arena.envs.inspect_tasks import chat_messages, game_scores, move_text  # noqa: E402

STOP_REASONS = {"length": "max_tokens"}
"""Finish reasons that have another name there."""
METRICS = [
    {"name": "inspect_ai/mean", "options": {}},
    {"name": "inspect_ai/stderr", "options": {"cluster": "deal"}},
]


class InspectExport(Exporter[list[Any]]):
    """Exporter with one sample per seat of a model."""

    suffix: ClassVar[str] = "inspect.eval"
    requirement: ClassVar[str] = "a finished game of a model"

    def __init__(self, file: BinaryIO, games: Sequence[Game], reward: str) -> None:
        self._file = file
        self._reader = ReplyReader(games, reward)
        self._samples: list[Any] = []
        self._times: Counter[str] = Counter()

    def prepare(self, replay: Replay) -> list[Any]:
        return [game_sample(seat) for seat in self._reader.seats(replay)]

    def write(self, prepared: list[Any]) -> None:
        for sample in prepared:
            self._times[sample.id] += 1
            # Games of one deal with the same players are epochs of one sample.
            sample.epoch = self._times[sample.id]
            self._samples.append(sample)

    def finish(self) -> int:
        log = make_log(self._samples)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "log.eval"
            write_eval_log(log, path, "eval")
            with path.open("rb") as written:
                shutil.copyfileobj(written, self._file)
        return len(self._samples)

    def close(self) -> None:
        self._samples = []


def make_log(samples: Sequence[Any]) -> Any:
    """Return the log of finished samples, with the means and standard errors of their scores."""
    names = list(dict.fromkeys(chain.from_iterable(_score(each).value for each in samples)))
    for sample in samples:
        # inspect_ai expects the same numbers in all samples; NaN marks those that a game lacks.
        score = _score(sample)
        score.value = {name: score.value.get(name, math.nan) for name in names}
    games = sorted({sample.metadata["game"] for sample in samples})
    models = sorted({model for sample in samples for model in sample.model_usage})
    spec = EvalSpec(
        created=min(sample.started_at for sample in samples),
        task=f"arena/{games[0]}" if len(games) == 1 else "arena/games",
        dataset=EvalDataset(name=",".join(games), samples=len(samples)),
        model=",".join(models),
        config=EvalConfig(epochs=max(sample.epoch for sample in samples)),
        packages={"arena-games": __version__},
        scorers=[{"name": "game_score", "metrics": {"*": METRICS}}],
    )
    usage: dict[str, Any] = {}
    for model, used in chain.from_iterable(each.model_usage.items() for each in samples):
        usage[model] = usage[model] + used if model in usage else used
    stats = EvalStats(
        started_at=spec.created,
        completed_at=max(sample.completed_at for sample in samples),
        model_usage=usage,
    )
    log = EvalLog(status="success", eval=spec, stats=stats, samples=list(samples))
    recompute_metrics(log)
    return log


def _score(sample: Any) -> Any:
    return sample.scores["game_score"]


def game_sample(seat: SeatReplies) -> Any:
    """Return the sample of one seat of a game."""
    header, episode, game = seat.replay.header, seat.seat_episode.episode, seat.seat_episode.game
    transcript = SampleEvents(header.created)
    by_ply: dict[int, list[ModelReply]] = {}
    for reply in seat.replies:
        by_ply.setdefault(reply.ply.number, []).append(reply)
    for ply in seat.own.plies:
        for reply in by_ply.get(ply.number, ()):
            transcript.add_reply(reply)
        transcript.add_move(move_text(ply), 0.0 if ply.number in by_ply else ply.seconds or 0.0)
    last = transcript.replies[-1]
    metadata = {**seat.facts(()), "deal": header.seed}
    scores = game_scores(game, episode, seat.seat) | {"reward": seat.breakdown.reward}
    return EvalSample(
        id=f"{header.game} {header.seed}/{seat.seat} {metadata['spec']}",
        epoch=1,
        input=full_rules(game, header.max_turns),
        target="",
        messages=[*last.input, *(choice.message for choice in last.output.choices)],
        output=last.output,
        scores={"game_score": Score(value=scores)},
        metadata=metadata,
        events=transcript.events,
        model_usage=transcript.usage(),
        started_at=header.created.isoformat(),
        completed_at=transcript.now.isoformat(),
        total_time=transcript.elapsed,
        working_time=transcript.elapsed,
    )


class SampleEvents:
    """The events of one sample, in the order of the game."""

    def __init__(self, start: datetime) -> None:
        self.events: list[Any] = []
        self.replies: list[Any] = []
        """Of the events, those of answered requests."""
        self.elapsed = 0.0
        """Seconds since the start."""
        self._start = start
        self._known: dict[Message, Any] = {}

    @property
    def now(self) -> datetime:
        """The time of the next event."""
        return self._start + timedelta(seconds=self.elapsed)

    def add_move(self, text: str, seconds: float) -> None:
        """Add a move of any player that has taken so many seconds."""
        self.elapsed += seconds
        self.events.append(
            InfoEvent(source="arena", data=text, timestamp=self.now, working_start=self.elapsed)
        )

    def add_reply(self, reply: ModelReply) -> None:
        """Add a request, and its reply or the error of the provider."""
        attempt, started, working_start = reply.attempt, self.now, self.elapsed
        self.elapsed += attempt.seconds
        event = ModelEvent(
            model=attempt.model,
            input=[*self._messages(reply.request)],
            tools=[],
            tool_choice="none",
            config=GenerateConfig(max_tokens=attempt.sampling.get("max_tokens")),
            output=_output(reply) if reply.answered else ModelOutput(model=attempt.model),
            error=None if reply.answered else attempt.excerpt,
            timestamp=started,
            working_start=working_start,
            completed=self.now,
            working_time=attempt.seconds,
        )
        self.events.append(event)
        if reply.answered:
            self.replies.append(event)

    def usage(self) -> dict[str, Any]:
        """Return the tokens and the cost of each model."""
        models = dict.fromkeys(event.model for event in self.replies)
        used = {m: [e.output.usage for e in self.replies if e.model == m] for m in models}
        return {model: reduce(add, each) for model, each in used.items()}

    def _messages(self, messages: Sequence[Message]) -> Iterator[Any]:
        """Yield the messages of a request; equal ones are one object, which is stored once."""
        for message in messages:
            if message not in self._known:
                self._known[message] = chat_messages([message])[0]
            yield self._known[message]


def _output(reply: ModelReply) -> Any:
    attempt = reply.attempt
    content: list[Any] = [ContentText(text=reply.text)]
    if attempt.reasoning:
        content.insert(0, ContentReasoning(reasoning=attempt.reasoning))
    message = ChatMessageAssistant(content=content, model=attempt.model, source="generate")
    usage = ModelUsage(
        # There, tokens from the provider's cache do not count as tokens of the input.
        input_tokens=attempt.prompt_tokens - attempt.cached_tokens,
        output_tokens=attempt.completion_tokens,
        total_tokens=attempt.prompt_tokens + attempt.completion_tokens,
        input_tokens_cache_read=attempt.cached_tokens,
        reasoning_tokens=attempt.reasoning_tokens,
        total_cost=attempt.cost,
    )
    reason = STOP_REASONS.get(attempt.finish_reason, attempt.finish_reason)
    choice = ChatCompletionChoice(message=message, stop_reason=reason)
    return ModelOutput(
        model=attempt.model, choices=[choice], usage=usage, time=attempt.seconds, error=None
    )
