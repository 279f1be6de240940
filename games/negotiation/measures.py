"""Measures of play in the negotiation; `NegotiationAssessor` computes them."""

from __future__ import annotations

from arena import Measure
from arena.core.analysis import Fact

MEASURES = (
    Measure(
        "agreements", "agreements", "share", "higher", "Games with an agreement, over all games."
    ),
    Measure(
        "pareto",
        "Pareto-optimal agreements",
        "share",
        "higher",
        "Agreements in which no other division gives one player more and none less, over "
        "agreements.",
    ),
    Measure(
        "nash_ratio",
        "points relative to Nash",
        "relative to Nash's solution",
        "higher",
        "Own points, 0 without an agreement, over own points at Nash's bargaining solution of the "
        "same deal: the division with the largest product of points. Points are before the "
        "discount.",
    ),
    Measure(
        "welfare",
        "joint points",
        "share",
        "higher",
        "Sum of the points of all players over the largest possible sum; 0 without an agreement.",
    ),
)

FACTS = {
    "points": Fact("points", "own points, before the discount"),
    "nash": Fact("points", "own points at Nash's bargaining solution"),
}
"""Descriptions of the facts of assessments, by name."""
