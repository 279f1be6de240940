"""Measures of play in Hanabi; `HanabiAssessor` computes them."""

from __future__ import annotations

from arena import Measure
from arena.core.assessment import Fact

MEASURES: tuple[Measure, ...] = (
    Measure(
        "certain_plays",
        "certain plays",
        "share",
        "higher",
        "Cards played that fitted for certain, by the player's exact knowledge without the meaning "
        "of conventions; over cards played.",
    ),
    Measure(
        "play_probability",
        "probability of plays",
        "probability",
        "higher",
        "Exact probability, in the player's view, that the card it played would fit; over cards "
        "played. Plays that trust a convention have a low probability here and still fit.",
    ),
    Measure(
        "fitting_plays",
        "plays that fitted",
        "share",
        "higher",
        "Cards played that fitted, over cards played.",
    ),
    Measure(
        "certain_taken",
        "certain plays taken",
        "share",
        None,
        "Turns in which a card was played that fitted for certain, over turns in which the player "
        "held such a card.",
    ),
    Measure(
        "discard_risk",
        "risk of discards",
        "probability",
        "lower",
        "Exact probability, in the player's view, that the card it discarded was the last copy of "
        "a card that could still score; over discards.",
    ),
    Measure(
        "hint_bits",
        "bits per hint",
        "bits per hint",
        "higher",
        "Entropy of the receiver's hand, in its own exact view, before the hint minus after it; "
        "over hints.",
    ),
    Measure(
        "lives_lost",
        "lives lost",
        "lives per game",
        "lower",
        "Plays of the seat that did not fit, per game.",
    ),
)

FACTS: dict[str, Fact] = {
    "probability": Fact("%", "probability that the played card fits, in the seat's exact view"),
    "best": Fact("%", "probability that the likeliest slot fits", of_position=True),
    "risk": Fact("%", "probability that the discarded card is the last copy of a needed card"),
    "useless": Fact("%", "probability that the discarded card can no longer score"),
    "bits": Fact("bits", "information of the hint about the receiver's hand"),
}
"""Descriptions of the facts of assessments, by name."""
