"""A finished game as data for training: attempts, counts, rewards, the trajectory of a seat.

Imports neither ART nor torch, so that a worker, which computes rewards, starts quickly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from arena.agents.chat import Attempt, attempts_in
from arena.core.action import CHANCE
from arena.core.errors import ArenaError, StopPlaying, UsageError
from arena.core.game import Game
from arena.core.text import pluralize
from arena.episodes.record import Episode
from arena.llm.backend import Message
from trainers.rewards import RewardBreakdown
from trainers.trajectory import SampledToken, Trajectory, Turn


def decided_attempts(episode: Episode, seat: int) -> Iterator[tuple[int, Attempt]]:
    """Yield each request for a move of the seat's model, in order, with the number of the ply."""
    for ply in episode.plies:
        if ply.player == seat and ply.player != CHANCE:
            for attempt in attempts_in(ply.decision):
                yield ply.number, attempt


def attempts_of(episode: Episode, seat: int) -> Iterator[Attempt]:
    """Yield each request for a move of the seat's model, with its answer, in order."""
    return (attempt for _, attempt in decided_attempts(episode, seat))


@dataclass(frozen=True, slots=True)
class DecisionStatus:
    """Result of asking a model for one decision."""

    unanswered: bool
    """The provider did not answer, so the move is not the model's."""
    context_overflow: bool
    """The chat was too long even after shortening. This is the model's own fault."""


def decision_statuses(episode: Episode, seat: int) -> Iterator[DecisionStatus]:
    """Yield the status of each decision for which the seat's model was asked."""
    for ply in episode.plies:
        attempts = attempts_in(ply.decision)
        if ply.player == seat and ply.player != CHANCE and attempts:
            # Only the last one counts: after earlier failures the chat was shortened or repeated.
            last = attempts[-1]
            failed, too_long = last.failure == "provider_error", last.cause == "context_length"
            yield DecisionStatus(failed and not too_long, failed and too_long)


def check_context(decisions: int, overflows: int) -> None:
    """Raise UsageError if the chat of every decision exceeded the model's context."""
    if decisions and overflows == decisions:
        raise UsageError(
            "not even the first prompt of a game fits into the model's context: allow more with "
            "max_context_tokens, or make it shorter with another --text-level or --prompt brief"
        )


def sampling_logprob(logprob: float, sampled: float | None) -> float:
    """Return the log-probability of sampling; the model's own one if they differ by rounding."""
    # Equal numbers keep the two distributions the same for plain sampling at temperature 1.
    if sampled is None or math.isclose(logprob, sampled, rel_tol=0, abs_tol=1e-9):
        return logprob
    return sampled


def trajectory_of(episode: Episode, seat: int, version: int | None = None) -> Trajectory:
    """Return the seat's share of a game that was played with `logprobs`. Its reward is 0.

    Each answer whose tokens are known is a turn. Everything else, e.g. the messages about other
    players' moves, is the chat before a turn. `version` is the policy version of answers whose
    server reports none. Raises ArenaError if the server has returned tokens without ids.
    """
    turns: list[Turn] = []
    lines: list[Message] = []
    before: list[Message] = []
    """The messages of the request of the last turn."""
    actions = {ply.number: str(ply.decision.action) for ply in episode.plies}
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
                messages=tuple(new),
                text=attempt.reply,
                tokens=_tokens(attempt),
                prompt_ids=attempt.prompt_token_ids,
                starts_chat=not continues,
                finish_reason=attempt.finish_reason,
                policy_version=reported if reported is not None else version,
                ply=ply,
                is_legal=attempt.failure is None,
                action="" if attempt.failure else actions[ply],
            )
        )
        before = lines
    return Trajectory(
        tuple(turns),
        seed=episode.header.seed,
        seat=seat,
        won=episode.outcome.is_winner(seat),
    )


def _answers(lines: Sequence[Message], before: Sequence[Message]) -> bool:
    """Return whether an answer follows the messages `before`; not in a repeated request."""
    return len(lines) > len(before) and lines[len(before)].role == "assistant"


def _tokens(attempt: Attempt) -> tuple[SampledToken, ...]:
    tokens = []
    for number, logprob, sampled in attempt.tokens:
        if number is None:
            raise ArenaError(
                "a token of the answer has no id: the server must return tokens as token_id:N "
                "(arena serve, vLLM: --return-tokens-as-token-ids)"
            )
        # Importance ratios need the distribution that the token was sampled from.
        tokens.append(SampledToken(number, sampling_logprob(logprob, sampled), logprob))
    return tuple(tokens)


@dataclass(frozen=True, slots=True, order=True)
class RolloutResult:
    """Result of one learning seat in one game."""

    deal: int
    """Seed of the deal. Games of one deal are not independent."""
    reward: float
    won: bool


@dataclass(slots=True)
class RolloutCounts:
    """Statistics of the games of a step."""

    games: int = 0
    failed: int = 0
    """Failed games. Each retry counts."""
    replies: int = 0
    legal: int = 0
    decisions: int = 0
    context_overflow: int = 0
    """Decisions whose chat exceeded the model's context. They count as illegal replies."""
    sampled: int = 0
    """Tokens."""
    prompt: int = 0
    """Tokens."""
    results: list[RolloutResult] = field(default_factory=list)
    """Results of all learning seats in finished games, in order of completion. Groups that are
    dropped later are included."""
    terms: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Deal and value of each reward term, in order of completion."""
    faults: list[str] = field(default_factory=list)
    """The reason of each failed game."""
    reward_faults: list[str] = field(default_factory=list)
    """The reason of each game without a reward."""

    def reward_warnings(self) -> list[str]:
        """Return a line about the rewards that could not be computed, if there are any."""
        if not self.reward_faults:
            return []
        times = pluralize(len(self.reward_faults), "time")
        return [f"no reward {times}, and the groups are dropped: {self.reward_faults[0]}"]

    def add_game(self, episode: Episode, seat: int, deal: int, breakdown: RewardBreakdown) -> None:
        """Add the statistics of one learning seat of a finished game."""
        # A request without an answer is not a reply; an overflow counts as an illegal one.
        attempts = [one for one in attempts_of(episode, seat) if one.failure != "provider_error"]
        overflows = sum(status.context_overflow for status in decision_statuses(episode, seat))
        self.context_overflow += overflows
        self.replies += len(attempts) + overflows
        self.legal += sum(attempt.failure is None for attempt in attempts)
        self.decisions += sum(
            ply.player == seat and bool(ply.decision.details) for ply in episode.plies
        )
        self.sampled += sum(len(attempt.tokens) for attempt in attempts)
        self.prompt += sum(attempt.prompt_tokens for attempt in attempts)
        self.results.append(RolloutResult(deal, breakdown.reward, episode.outcome.is_winner(seat)))
        for name, value in breakdown.terms.items():
            self.terms.setdefault(name, []).append((deal, value))


Score = Callable[[Episode, int], RewardBreakdown]
"""Reward of a seat for a finished game. Workers need a picklable one."""


class GameFailed(ArenaError):
    """A game could not be played to its end. A retry may succeed."""


class RewardFailed(GameFailed):
    """A reward could not be computed. The game is not played again: it says nothing about it."""


@dataclass(frozen=True, slots=True)
class RewardedEpisode:
    """A finished game with the rewards of the seats that learn."""

    episode: Episode
    rewards: Mapping[int, RewardBreakdown]


def score_seats(
    learners: tuple[int, ...], score: Score, _: Game, episode: Episode
) -> RewardedEpisode:
    """Score the seats that learn: the measurement of a job. Raises GameFailed (`check_answers`)."""
    check_answers(episode)
    try:
        rewards = {seat: score(episode, seat) for seat in learners}
    except StopPlaying:
        raise
    except ArenaError as error:
        raise RewardFailed(str(error)) from error
    return RewardedEpisode(episode, rewards)


def check_answers(episode: Episode) -> None:
    """Raise GameFailed if a player got no answer: its move was not its own decision.

    A chat that exceeds the model's context is not a failure of the game: it is the model's fault.
    """
    for ply in episode.plies:
        failure, details = ply.decision.failure, ply.decision.details
        # Without details the agent itself raised an error.
        if failure and not details:
            raise GameFailed(f"seat {ply.player} failed: {failure}")
    for seat, spec in enumerate(episode.header.players):
        for attempt in attempts_of(episode, seat):
            if attempt.failure == "provider_error" and attempt.cause != "context_length":
                reason = attempt.excerpt or attempt.cause
                raise GameFailed(f"seat {seat} ({spec}) got no answer: {reason}")
