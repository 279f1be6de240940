"""Measures of play in Battleship; `BattleshipAssessor` computes them."""

from __future__ import annotations

from arena import Measure
from arena.core.analysis import Fact

MEASURES = (
    Measure(
        "efficiency",
        "information of shots",
        "share",
        "higher",
        "Expected information about the other fleet of the shots fired, over that of the best "
        "shots; both exact, given what the player could know. Shots at a fleet whose place is "
        "certain do not count.",
    ),
    Measure(
        "hit_efficiency",
        "chance of a hit",
        "share",
        "higher",
        "Exact probability that the shots fired hit, over that of the squares that were most "
        "likely to hold a ship.",
    ),
    Measure(
        "hits",
        "hits",
        "share",
        "higher",
        "Shots that hit, over all shots.",
    ),
    Measure(
        "bits",
        "bits per shot",
        "bits per shot",
        "higher",
        "Entropy of the other fleet before a shot minus after its result; over shots. Late shots "
        "have less to gain.",
        comparable=False,
    ),
)

FACTS = {
    "expected": Fact("bits", "expected information of the shot", ranks="shots by information"),
    "best": Fact("bits", "expected information of the best shot", of_position=True),
    "gained": Fact("bits", "information that the result gave"),
    "probability": Fact(
        "%", "exact probability that the shot hits", ranks="shots by chance of a hit"
    ),
    "best_probability": Fact("%", "greatest probability of a hit", of_position=True),
}
"""Descriptions of the facts of assessments, by name."""
