"""Conversion of a finished game to the trajectory of one seat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from arena.agents.chat import Attempt, ChatLine
from arena.core.errors import ArenaError
from arena.episodes.record import Episode
from arena.llm.backend import Message
from trainers.rollouts.attempts import decided_attempts, sampling_logprob
from trainers.trajectory import SampledToken, Trajectory, Turn


def trajectory_of(episode: Episode, seat: int, version: int | None = None) -> Trajectory:
    """Return the seat's share of a game that was played with `logprobs`. Its reward is 0.

    Each answer whose tokens are known is a turn. Everything else, e.g. the messages about other
    players' moves, is the chat before a turn.

    Args:
        episode: The game.
        seat: The seat.
        version: Policy version of answers whose server reports none.

    Raises:
        ArenaError: The server has returned tokens without ids.
    """
    turns: list[Turn] = []
    lines: list[ChatLine] = []
    before: list[ChatLine] = []
    """The messages of the request of the last turn."""
    for ply, attempt in decided_attempts(episode, seat):
        # An attempt stores only the messages after those it shares with the previous request.
        lines = [*lines[: attempt.kept], *attempt.messages]
        if not attempt.tokens:
            continue  # No answer, or an answer whose tokens are unknown.
        # The request extends the last one if it starts with all of its messages and the answer.
        continues = bool(turns) and lines[: len(before)] == before and _answers(lines, before)
        if continues:
            # The chat repeats the last answer; it may have been shortened there.
            turns[-1] = replace(turns[-1], text=lines[len(before)].content)
        reported = attempt.policy_version
        new = lines[len(before) + 1 :] if continues else lines
        turns.append(
            Turn(
                messages=tuple(Message(line.role, line.content) for line in new),
                text=attempt.reply,
                tokens=_tokens(attempt),
                prompt_ids=attempt.prompt_token_ids,
                starts_chat=not continues,
                finish_reason=attempt.finish_reason,
                policy_version=reported if reported is not None else version,
                ply=ply,
            )
        )
        before = lines
    return Trajectory(
        tuple(turns),
        seed=episode.header.seed,
        seat=seat,
        won=episode.outcome.is_winner(seat),
        plies=len(episode.plies),
    )


def _answers(lines: Sequence[ChatLine], before: Sequence[ChatLine]) -> bool:
    """Return whether an answer follows the messages `before`; not in a repeated request."""
    return len(lines) > len(before) and lines[len(before)].role == "assistant"


def _tokens(attempt: Attempt) -> tuple[SampledToken, ...]:
    tokens = []
    for number, logprob, sampled in attempt.tokens:
        if number is None:
            raise ArenaError(
                "a token of the answer has no id: the server must return tokens as token_id:N "
                "(arena serve --tokens-as-ids, vLLM --return-tokens-as-token-ids)"
            )
        # Importance ratios need the distribution that the token was sampled from.
        tokens.append(SampledToken(number, sampling_logprob(logprob, sampled), logprob))
    return tuple(tokens)
