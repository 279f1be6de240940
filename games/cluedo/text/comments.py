"""The assessments of a game of Cluedo in words, as one annotates chess; `assess` makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from arena import Assessment, Comment, Json

NOTHING = 1e-9
"""Fewer bits, or a smaller difference of probabilities, are none."""
SMALL = 0.005
"""Fewer bits are written as 0.00."""
POOR = 0.5
"""A question is a mistake that promised less than this share of the best one. The best is looked
for among the most promising only, which may miss it by an eighth: half is well beyond that."""
MUCH = 0.2
"""Bits that a mistake costs at least. With 6 to 8 bits in the envelope, and one or two of them won
by a good question, less than this changes no game."""

Facts = Mapping[str, Json]


def comment(assessment: Assessment) -> Comment | None:
    """None where there is nothing to say, or what is to say is said of the ply by another kind."""
    words = _WORDS.get(assessment.kind)
    return words(assessment.facts) if words else None


def _of_suggestion(facts: Facts) -> Comment:
    expected, best = facts["expected"], facts["best"]
    if facts["entropy_before"] < NOTHING:
        return Comment("Asked although the case was certain: there was nothing to learn.")
    promised = f"Promised {_bits(expected)}"
    if best - expected < SMALL:
        return Comment(f"{promised}; no question promised more.")
    question = ", ".join(facts["best_question"])
    text = f"{promised}, the best question ({question}) {_number(best)}."
    return Comment(text, mistake=expected < POOR * best and best - expected >= MUCH)


def _of_answer(facts: Facts) -> Comment | None:
    """Nothing where nothing was to be learned."""
    gained, expected = facts["gained"], facts["expected"]
    if abs(gained) < NOTHING and expected < NOTHING:
        return None
    expectation = f"{_number(expected)} were to be expected"
    if gained <= -SMALL:  # An answer that was not likely may leave more open than before.
        return Comment(f"Brought nothing and left {_bits(-gained)} more open; {expectation}.")
    return Comment(f"Brought {_bits(gained)}; {expectation}.")


def _of_accusation(facts: Facts) -> Comment:
    probability, least, correct = facts["probability"], facts["break_even"], facts["correct"]
    if facts["provable"] and correct:
        return Comment("Accused with certainty: nothing else was possible. Right.")
    if facts["provable"]:
        return Comment("Accused something impossible although the case was certain: wrong.", True)
    if probability < NOTHING:
        return Comment("Accused something impossible, as its own view could tell: wrong.", True)
    pays = "only certainty pays here" if least >= 1 else f"it pays from {_share(least)} on"
    premature = probability < least - NOTHING
    if premature:
        judged = f"premature, {'though right' if correct else 'and wrong'}"
    else:
        judged = f"in good time, {'and right' if correct else 'though wrong'}"
    return Comment(f"Accused with probability {_share(probability)}; {pays}: {judged}.", premature)


def _of_missed_accusation(facts: Facts) -> Comment:
    envelope, turns = ", ".join(facts["envelope"]), facts["turns"]
    text = f"Ended the turn without accusing, though the case was certain: {envelope}."
    return Comment(f"{text} Turns let pass so far: {turns}." if turns > 1 else text, mistake=True)


def _of_refutation(facts: Facts) -> Comment:
    """What a card tells depends on what the suggester knows: nobody but the viewer can tell."""
    leaked, least, choices = facts["leaked"], facts["least"], facts["choices"]
    gave = "Gave nothing away" if leaked < SMALL else f"Gave away {_bits(leaked)}"
    if leaked <= -SMALL:
        gave = f"{gave}, and left {_bits(-leaked)} more open"
    if choices == 1:
        return Comment(f"{gave}: there was only one card to show.", omniscient=True)
    if leaked - least < SMALL:
        text = f"{gave}; none of the {choices} cards to choose from would have told less."
        return Comment(text, omniscient=True)
    text = f"{gave}; another card would have {_would_have(least)}."
    return Comment(text, mistake=leaked - least >= MUCH, omniscient=True)


def _of_unused_certainty(facts: Facts) -> Comment:
    """No mistake of its own: each turn that was let pass has been called one."""
    turns = facts["turns"]
    passed = f"turns let pass: {turns}" if turns else "the game was over before its next turn"
    return Comment(f"The case was certain from here on and never accused; {passed}.")


def _would_have(least: float) -> str:
    if least <= -SMALL:
        return f"given nothing away, and left {_bits(-least)} more open"
    return "given nothing away" if least < SMALL else f"given {_number(least)}"


_WORDS: dict[str, Callable[[Facts], Comment | None]] = {
    "suggestion": _of_suggestion,
    "answer": _of_answer,
    "accusation": _of_accusation,
    "missed accusation": _of_missed_accusation,
    "refutation": _of_refutation,
    "unused certainty": _of_unused_certainty,
}


def _number(value: float) -> str:
    """Two decimals, and no "-0.00"."""
    return f"{round(value, 2) + 0.0:.2f}"


def _bits(value: float) -> str:
    return f"{_number(value)} bits"


def _share(value: float) -> str:
    """A probability; what is merely near to impossible or certain does not read so."""
    if 0 < value < 0.005:
        return "below 0.01"
    if 0.995 <= value < 1:
        return "over 0.99"
    return _number(value)
