"""Generic reward terms: return, information and legal replies.

A term declares the kinds of assessments that it reads (`GameAnalysis.assessor`); no others
are computed.
"""

from __future__ import annotations

from arena.core.action import CHANCE
from arena.core.ply import Ply
from arena.episodes.measurement import RewardTerm, SeatEpisode, function_term
from trainers.rewards.information import entropy_removed


def _format(seat_episode: SeatEpisode) -> float:
    own = [ply for ply in seat_episode.episode.plies if CHANCE != ply.player == seat_episode.seat]
    # A decision without any reply and without a fallback was not put to a model.
    asked = [ply for ply in own if _reply_failures(ply) or ply.decision.failure]
    if not asked:
        return 1.0
    # None is the failure of a legal reply.
    first_legal = sum(_reply_failures(ply)[:1] == [None] for ply in asked)
    # A fallback counts twice: it was no legal first reply, and it costs 1 more.
    fallbacks = sum(bool(ply.decision.failure) for ply in asked)
    return (first_legal - fallbacks) / len(asked)


def _reply_failures(ply: Ply) -> list[object]:
    """Return the failure of each reply of the model at this decision; None for a legal reply.

    Requests that the provider did not answer gave no reply and are left out.
    """
    attempts = ply.decision.details.get("attempts")
    if not isinstance(attempts, list):
        return []
    failures = [attempt.get("failure") for attempt in attempts if isinstance(attempt, dict)]
    return [failure for failure in failures if failure != "provider_error"]


WIN = function_term(
    "win",
    "The seat's return, in the game's own unit: 1 for a win of Cluedo and 0 otherwise; chips in "
    "Kuhn poker.",
    lambda seat_episode: seat_episode.episode.outcome.returns[seat_episode.seat],
)
FORMAT = function_term(
    "format",
    "Share of the seat's decisions whose first reply was a legal action, minus the share in which "
    "a fallback had to be played; from -1 to 1, and 1 if the model was never asked.",
    _format,
)
INFORMATION = RewardTerm(
    "information",
    "Share of the entropy of the hidden information after the deal that exact knowledge of all "
    "the seat saw has removed by the end; from 0 to 1.",
    lambda _, assessments: entropy_removed(assessments),
    frozenset({"knowledge"}),
    cheap=True,
)
