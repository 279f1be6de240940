"""Reward terms of Cluedo: questions, accusations, refutations and stated deductions.

Each term is a number for one seat of one game, computed from the assessments of that seat, which
are based on exact knowledge. The `about` texts are shown by `arena train --dry-run`.
"""

from __future__ import annotations

from collections.abc import Sequence

from arena.core.analysis import Assessment
from arena.episodes.measurement import RewardTerm, SeatEpisode, measure_sum, ratio


def _accusation(_: SeatEpisode, assessments: Sequence[Assessment]) -> float:
    """Return 2 * (share of right accusations) - 1, or 0 without accusations."""
    right = measure_sum("accusations_right", assessments)
    return 2 * ratio(right) - 1 if right.weight else 0.0


def _measured(
    name: str, about: str, measure: str, kinds: set[str], sign: int = 1, cheap: bool = False
) -> RewardTerm:
    """Return a term whose value is a measure of the seat, times `sign`."""

    def value(_: SeatEpisode, assessments: Sequence[Assessment]) -> float:
        # The sum with 0.0 gives 0.0 instead of -0.0.
        return 0.0 + sign * ratio(measure_sum(measure, assessments))

    return RewardTerm(name, about, value, frozenset(kinds), frozenset({measure}), cheap)


def _claims(_: SeatEpisode, assessments: Sequence[Assessment]) -> float:
    """Return F1 = 2 * right / (claimed + provable), or 0 if both are 0."""
    # Precision is right / claimed, recall is right / provable: both have the same total.
    claimed, provable = (measure_sum(name, assessments) for name in ("precision", "recall"))
    cards = claimed.weight + provable.weight
    return 2 * claimed.total / cards if cards else 0.0


QUESTION = _measured(
    "question",
    "Expected bits of the seat's own questions, divided by those of the best questions it could "
    "have asked; from 0 to 1, 0 without questions.",
    "efficiency",
    {"suggestion"},
)
ACCUSATION = RewardTerm(
    "accusation",
    "1 for a right accusation, -1 for a wrong one, 0 without accusations; from -1 to 1.",
    _accusation,
    frozenset({"accusation"}),
    frozenset({"accusations_right"}),
    cheap=True,
)
PREMATURE = _measured(
    "premature",
    "Minus the share of the seat's accusations whose probability was below the break-even; from "
    "-1 to 0.",
    "premature",
    {"accusation"},
    sign=-1,
    cheap=True,
)
MISSED = _measured(
    "missed",
    "Minus the share of turns that ended without the right accusation, among own turns in which "
    "the solution was provable; from -1 to 0.",
    "missed",
    {"accusation", "missed accusation"},
    sign=-1,
    cheap=True,
)
LEAK = _measured(
    "leak",
    "Minus the bits that the shown cards gave beyond the least possible, per refutation with "
    "several cards to choose from; 0 or less.",
    "excess_leak",
    {"refutation"},
    sign=-1,
)
CLAIMS = RewardTerm(
    "claims",
    "F1 score of the deductions that the seat stated (beliefs=true), compared with all provable "
    "ones, own cards left out; from 0 to 1, 0 without statements. The statements themselves are "
    "not trained: this is a noisy signal on the actions only.",
    _claims,
    frozenset({"beliefs"}),
    frozenset({"precision", "recall"}),
)
