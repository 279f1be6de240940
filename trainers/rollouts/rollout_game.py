"""Rewards of one game of a training step, computed where the game was played.

Imports neither ART nor torch, so that a worker starts quickly and stays small.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.episodes.record import Episode
from trainers.rewards import RewardBreakdown
from trainers.rollouts.trajectories import attempts_of, belief_failures

Score = Callable[[Episode, int], RewardBreakdown]
"""Reward of a seat for a finished game. Workers need a picklable one."""


class GameFailed(ArenaError):
    """A game could not be played to its end. A retry may succeed."""


@dataclass(frozen=True, slots=True)
class RewardedEpisode:
    """A finished game with the rewards of the seats that learn."""

    episode: Episode
    rewards: Mapping[int, RewardBreakdown]
    seconds_scoring: float


def score_seats(
    learners: tuple[int, ...], score: Score, _: Game, episode: Episode
) -> RewardedEpisode:
    """Score the seats that learn: the measurement of a job. Raises GameFailed (`check_answers`)."""
    check_answers(episode)
    started = time.perf_counter()
    rewards = {seat: score(episode, seat) for seat in learners}
    return RewardedEpisode(episode, rewards, time.perf_counter() - started)


def check_answers(episode: Episode) -> None:
    """Raise GameFailed if a player got no answer: its move was not its own decision.

    A chat that exceeds the model's context is not a failure of the game: it is the model's fault.
    """
    for ply in episode.plies:
        failure, details = ply.decision.failure, ply.decision.details
        # Without details the agent itself raised an error; a forfeit is a legal way to lose.
        if failure and not details and not failure.startswith("forfeit"):
            raise GameFailed(f"seat {ply.player} failed: {failure}")
    for seat, spec in enumerate(episode.header.players):
        for cause in belief_failures(episode, seat):
            if cause != "context_length":
                raise GameFailed(f"seat {seat} ({spec}): the belief question failed: {cause}")
        for attempt in attempts_of(episode, seat):
            if attempt.failure == "provider_error" and attempt.cause != "context_length":
                reason = attempt.excerpt or attempt.cause
                raise GameFailed(f"seat {seat} ({spec}) got no answer: {reason}")
