"""Comments on the assessments of a game of Cluedo, in the manner of chess annotations.

People read these comments in the viewers; models do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import JsonValue

from arena import Comment
from games.cluedo.analysis.position_analysis import (
    NEGLIGIBLE,
    AccusationFacts,
    AnswerFacts,
    MissedAccusationFacts,
    RefutationFacts,
    SuggestionFacts,
    UnusedCertaintyFacts,
)

SMALL = 0.005
"""Fewer bits are written as 0.00."""
POOR = 0.5
"""A question is a mistake if its expected bits are below this share of the best question's. The
search for the best may miss it by an eighth, so that half is well below any error."""
MUCH = 0.2
"""A mistake costs at least this many bits. The envelope has 6 to 8 bits, and a good question gains
one or two of them: a smaller loss does not change a game."""

Facts = Mapping[str, JsonValue]


def _suggestion(values: Facts) -> Comment:
    facts = SuggestionFacts.model_validate(values)
    if facts.entropy_before < NEGLIGIBLE:
        return Comment("Asked although the case was already certain: there was nothing to learn.")
    expected = f"Expected {_bits(facts.expected)}"
    if facts.best - facts.expected < SMALL:
        return Comment(f"{expected}; no question was better.")
    question = ", ".join(facts.best_question)
    poor = facts.expected < POOR * facts.best and facts.best - facts.expected >= MUCH
    return Comment(f"{expected}; the best question ({question}): {_bits(facts.best)}.", poor)


def _answer(values: Facts) -> Comment | None:
    facts = AnswerFacts.model_validate(values)
    # The comment on the suggestion says already that there was nothing to learn.
    if abs(facts.gained) < NEGLIGIBLE and facts.expected < NEGLIGIBLE:
        return None
    expectation = f"{_number(facts.expected)} were expected"
    if facts.gained <= -SMALL:  # An unlikely answer may leave more open than before.
        return Comment(
            f"Gained nothing: the uncertainty grew by {_bits(-facts.gained)}; {expectation}."
        )
    return Comment(f"Gained {_bits(facts.gained)}; {expectation}.")


def _accusation(values: Facts) -> Comment:
    facts = AccusationFacts.model_validate(values)
    if facts.provable and facts.correct:
        return Comment("Accused with certainty: no other envelope was possible. Right.")
    if facts.provable:
        return Comment("Accused an impossible envelope although the case was certain: wrong.", True)
    if facts.probability < NEGLIGIBLE:
        return Comment("Accused an envelope that its own view excluded: wrong.", True)
    # A break-even of 1 means that waiting is better as long as any doubt is left.
    certainty_only = facts.break_even >= 1
    threshold = "only when certain" if certainty_only else f"from {_probability(facts.break_even)}"
    premature = facts.probability < facts.break_even - NEGLIGIBLE
    if premature:
        verdict = f"premature, {'although right' if facts.correct else 'and wrong'}"
    else:
        verdict = f"well timed, {'and right' if facts.correct else 'although wrong'}"
    accused = f"Accused with probability {_probability(facts.probability)}"
    return Comment(f"{accused}; accusing pays {threshold}: {verdict}.", premature)


def _missed_accusation(values: Facts) -> Comment:
    facts = MissedAccusationFacts.model_validate(values)
    envelope = ", ".join(facts.envelope)
    text = f"Ended the turn without accusing although the case was certain: {envelope}."
    if facts.turns > 1:
        text += f" Number of such turns so far: {facts.turns}."
    return Comment(text, mistake=True)


def _refutation(values: Facts) -> Comment:
    # The information depends on what the suggester knows, so only an omniscient viewer may see it.
    facts = RefutationFacts.model_validate(values)
    gave = f"Gave {_bits(facts.leaked)} to the suggester"
    if facts.leaked < SMALL:
        gave = "Gave no information"
    if facts.leaked <= -SMALL:
        gave += f" and increased the uncertainty by {_bits(-facts.leaked)}"
    if facts.choices == 1:
        return Comment(f"{gave}: there was only one card to show.", omniscient=True)
    if facts.leaked - facts.least < SMALL:
        text = f"{gave}; none of the {facts.choices} possible cards gives less."
        return Comment(text, omniscient=True)
    text = f"{gave}; another card gives {_least(facts.least)}."
    return Comment(text, mistake=facts.leaked - facts.least >= MUCH, omniscient=True)


def _unused_certainty(values: Facts) -> Comment:
    # Not a mistake of its own: each missed accusation is marked as one already.
    facts = UnusedCertaintyFacts.model_validate(values)
    passed = "the game ended before its next turn"
    if facts.turns:
        passed = f"turns without an accusation: {facts.turns}"
    return Comment(f"The case was certain from here on but was never accused; {passed}.")


def _least(bits: float) -> str:
    if bits <= -SMALL:
        return f"no information and increases the uncertainty by {_bits(-bits)}"
    return "no information" if bits < SMALL else _number(bits)


WRITERS: dict[str, Callable[[Facts], Comment | None]] = {
    "suggestion": _suggestion,
    "answer": _answer,
    "accusation": _accusation,
    "missed accusation": _missed_accusation,
    "refutation": _refutation,
    "forced refutation": _refutation,
    "unused certainty": _unused_certainty,
}


def _number(value: float) -> str:
    """Return a number with two decimals, without "-0.00"."""
    return f"{round(value, 2) + 0.0:.2f}"


def _bits(value: float) -> str:
    return f"{_number(value)} bits"


def _probability(value: float) -> str:
    """Return a probability; only 0 and 1 are written as 0.00 and 1.00."""
    if 0 < value < 0.005:
        return "below 0.01"
    if 0.995 <= value < 1:
        return "over 0.99"
    return _number(value)
