"""Conversion of a finished game to ART's trajectory of one seat.

The tokens of `Choice`s with log-probabilities are trained. Everything else, e.g. the messages about
other players' moves, is context. A chat that was restarted or shortened becomes another history of
the trajectory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, cast

from pydantic import JsonValue

from arena.agents.chat import Attempt, ChatLine
from arena.episodes.record import Episode
from trainers.hosts.art import Choice, History, Trajectory
from trainers.rollouts.attempts import attempts_of, sampling_logprob

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

HistoryItem: TypeAlias = "ChatCompletionMessageParam | Choice"
"""A message (role and content), or an answer with its tokens."""

OPENAI_FINISH_REASONS = frozenset({"stop", "length", "content_filter", "tool_calls"})


@dataclass(slots=True)
class HistoryBuilder:
    """A history under construction."""

    items: list[HistoryItem] = field(default_factory=list)
    lines: list[ChatLine] = field(default_factory=list)
    """The messages of the last request."""
    pending: Attempt | None = None
    """The answer to the last request. The next request shows its wording in the chat."""

    def add_answer(self, content: str | None = None) -> None:
        """Append the pending answer, with its wording in the chat or else as it was sampled."""
        if self.pending is not None:
            content = self.pending.reply if content is None else content
            self.items.append(choice_of(self.pending, content))
            self.pending = None


def trajectory_of(episode: Episode, seat: int) -> Trajectory:
    """Return the seat's share of a game that was played with `logprobs`. Its reward is 0."""
    histories = [
        history.items for history in _histories(attempts_of(episode, seat)) if history.items
    ]
    # ART's trajectory has one main history; a seat that never decided has an empty one.
    first, *others = histories or [[]]
    return Trajectory(
        messages_and_choices=first,
        additional_histories=[History(messages_and_choices=items) for items in others],
    )


def _histories(attempts: Iterable[Attempt]) -> Iterator[HistoryBuilder]:
    """Yield the histories of a seat. A request that extends the last one continues its history."""
    lines: list[ChatLine] = []
    history = HistoryBuilder()
    for attempt in attempts:
        # An attempt stores only the messages after those it shares with the previous request.
        lines = [*lines[: attempt.kept], *attempt.messages]
        if not attempt.tokens:
            continue  # No answer, or an answer whose tokens are unknown.
        before = history.lines
        # The request extends the last one if it starts with all of its messages.
        # Strictly longer: a repeated request is not an extension.
        extends = len(lines) > len(before) and lines[: len(before)] == before
        if extends and history.pending and lines[len(before)].role == "assistant":
            # The chat repeats the last answer; it may have been shortened there.
            history.add_answer(lines[len(before)].content)
            new = lines[len(before) + 1 :]
        else:
            # Otherwise a new history starts. The very first one is empty here; `trajectory_of`
            # drops it.
            history.add_answer()
            yield history
            history, new = HistoryBuilder(), lines
        history.items += [
            cast("ChatCompletionMessageParam", {"role": line.role, "content": line.content})
            for line in new
        ]
        history.lines, history.pending = lines, attempt
    history.add_answer()
    yield history


def choice_of(attempt: Attempt, content: str) -> Choice:
    """Return the answer as OpenAI's class, with the ids of the prompt and of the sampled tokens.

    `logprob` of a token is that of the distribution it was sampled from, with temperature and
    constraints, as importance ratios need it. `policy_logprob` is that of the model's own
    distribution.
    """
    tokens: list[JsonValue] = [
        {
            "token": f"token_id:{number}",
            "logprob": sampling_logprob(logprob, sampled),
            "bytes": None,
            "top_logprobs": [],
            "policy_logprob": logprob,
        }
        for number, logprob, sampled in attempt.tokens
    ]
    # OpenAI's class rejects reasons that it does not know.
    known = attempt.finish_reason in OPENAI_FINISH_REASONS
    return Choice.model_validate(
        {
            "index": 0,
            "finish_reason": attempt.finish_reason if known else "stop",
            "message": {"role": "assistant", "content": content},
            "logprobs": {"content": tokens},
            "prompt_token_ids": list(attempt.prompt_token_ids),
        }
    )
