"""The terms that a reward is made of.

Each looks at one seat of one finished game. What it needs of exact knowledge it says by the kinds
of assessments (`Game.assessor`), and nothing else is computed.
"""

from __future__ import annotations

from arena.core.action import CHANCE
from arena.core.json import Json
from arena.core.ply import Ply
from arena.episodes.reward import Rollout, Term, function_term
from trainers.rewards.information import share_removed

# Replies


def _format(rollout: Rollout) -> float:
    asked = [ply for ply in _own(rollout) if _replies(ply) or ply.decision.failure]
    if not asked:
        return 1.0
    return sum(_was_legal_at_once(ply) - bool(ply.decision.failure) for ply in asked) / len(asked)


def _own(rollout: Rollout) -> list[Ply]:
    return [ply for ply in rollout.episode.plies if CHANCE != ply.player == rollout.seat]


def _replies(ply: Ply) -> list[Json]:
    """How each reply of a model failed, None where it did not; what gave no reply is left out."""
    attempts = ply.decision.details.get("attempts")
    listed = attempts if isinstance(attempts, list) else []
    failures = [attempt.get("failure") for attempt in listed if isinstance(attempt, dict)]
    return [failure for failure in failures if failure != "provider_error"]


def _was_legal_at_once(ply: Ply) -> bool:
    return _replies(ply)[:1] == [None]


WIN = function_term(
    "win",
    "The seat's return, in the game's own unit: 1 for a win of Cluedo and 0 otherwise; chips in "
    "Kuhn poker.",
    lambda rollout: rollout.episode.outcome.returns[rollout.seat],
)
FORMAT = function_term(
    "format",
    "Share of the seat's decisions whose first reply was a legal action, minus the share in which "
    "a fallback had to be played; from -1 to 1, and 1 if it was never asked.",
    _format,
)
INFORMATION = Term(
    "information",
    "Share of the entropy of what is hidden, as it was after the deal, that exact knowledge of all "
    "the seat saw has removed by the end; from 0 to 1.",
    lambda _, assessments: share_removed(assessments),
    frozenset({"knowledge"}),
)
