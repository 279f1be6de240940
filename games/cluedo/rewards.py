"""Reward terms of Cluedo: questions, accusations, refutations and stated deductions.

Each is computed by exact knowledge from the assessments of one seat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from arena.core.assessment import Assessment
from arena.episodes.reward import Rollout, Term, measured, ratio


def _accusation(_: Rollout, assessments: Sequence[Assessment]) -> float:
    share = measured("accusations_right", assessments)
    return 2 * ratio(share) - 1 if share.weight else 0.0


def _minus(measure: str) -> Callable[[Rollout, Sequence[Assessment]], float]:
    return lambda _, assessments: 0.0 - ratio(measured(measure, assessments))


def _claims(_: Rollout, assessments: Sequence[Assessment]) -> float:
    claimed, provable = (measured(name, assessments) for name in ("precision", "recall"))
    cards = claimed.weight + provable.weight
    return 2 * claimed.total / cards if cards else 0.0


QUESTION = Term(
    "question",
    "Expected bits of the seat's own questions over those of the best ones it could have asked; "
    "from 0 to 1, and 0 if it asked none.",
    lambda _, assessments: ratio(measured("efficiency", assessments)),
    frozenset({"suggestion"}),
    frozenset({"efficiency"}),
)


ACCUSATION = Term(
    "accusation",
    "1 for a right accusation, -1 for a wrong one, the mean of several, 0 without any.",
    _accusation,
    frozenset({"accusation"}),
    frozenset({"accusations_right"}),
)


PREMATURE = Term(
    "premature",
    "Minus the share of the seat's accusations that were less probable than the break-even; from "
    "-1 to 0.",
    _minus("premature"),
    frozenset({"accusation"}),
    frozenset({"premature"}),
)


MISSED = Term(
    "missed",
    "Minus the share of the own turns in which the solution was provable that ended without "
    "naming it; from -1 to 0.",
    _minus("missed"),
    frozenset({"accusation", "missed accusation"}),
    frozenset({"missed"}),
)


LEAK = Term(
    "leak",
    "Minus the bits that the cards shown gave beyond what the least telling ones would have given, "
    "per refutation with a choice; 0 or less.",
    _minus("excess_leak"),
    frozenset({"refutation"}),
    frozenset({"excess_leak"}),
)


CLAIMS = Term(
    "claims",
    "F1 of the deductions that the seat stated (--beliefs) against all that were provable, own "
    "cards left out; from 0 to 1, and 0 if it stated none. The statements are not trained: it is a "
    "noisy signal on the moves only.",
    _claims,
    frozenset({"beliefs"}),
    frozenset({"precision", "recall"}),
)
