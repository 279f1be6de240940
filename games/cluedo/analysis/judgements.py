"""Facts of each kind of assessment, with their comments and their values for credit in training.

All amounts of information are in bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from arena import Assessment, Comment, DecisionKind, Ply
from arena.core.analysis import Measurements
from arena.core.text import bits_text, decimal
from games.cluedo.analysis.measures import STAGES
from games.cluedo.inference.knowledge import CluedoKnowledge

NEGLIGIBLE = 1e-9
"""A smaller amount of bits, or a smaller difference of probabilities, counts as zero."""
SMALL = 0.005
"""Fewer bits are written as 0.00."""
POOR = 0.5
"""A question is a mistake if its expected bits are below this share of the best question's. The
search for the best may miss it by an eighth, so that half is well below any error."""
MUCH = 0.2
"""A mistake costs at least this many bits. The envelope has 6 to 8 bits, and a good question gains
one or two of them: a smaller loss does not change a game."""


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """Facts of one kind of assessment that has a comment.

    The others are a `turn` (the number among the player's own turns, the entropy of the envelope at
    its start) and a `skipped question` (the best question and its information).
    """

    @classmethod
    def of(cls, assessment: Assessment) -> Self:
        """Return the facts of an assessment of this kind."""
        facts: Any = assessment.facts
        return cls(**facts)

    def assessment(self, kind: str, ply: Ply, measurements: Measurements) -> Assessment:
        """Return the assessment of a ply with these facts."""
        return Assessment(ply.number, ply.player, kind, asdict(self), measurements)

    def comment(self) -> Comment | None:
        """Return the facts as text; None if there is nothing to say."""
        return None


@dataclass(frozen=True, slots=True)
class SuggestionFacts(MoveFacts):
    """Expected information of a question that was asked, and of the best legal question."""

    expected: float
    best: float
    best_question: Sequence[str]
    """Suspect, weapon, room."""
    entropy_before: float

    def comment(self) -> Comment:
        if self.entropy_before < NEGLIGIBLE:
            return Comment(
                "Asked although the case was already certain: there was nothing to learn."
            )
        expected, loss = f"Expected {bits_text(self.expected)}", self.best - self.expected
        if loss < SMALL:
            return Comment(f"{expected}; no question was better.")
        question = ", ".join(self.best_question)
        poor = self.expected < POOR * self.best and loss >= MUCH
        return Comment(f"{expected}; the best question ({question}): {bits_text(self.best)}.", poor)


@dataclass(frozen=True, slots=True)
class AnswerFacts(MoveFacts):
    """Facts of the answer to a question."""

    gained: float
    """`entropy_before - entropy_after`; negative if an unlikely answer left more open."""
    expected: float
    entropy_before: float
    entropy_after: float

    def comment(self) -> Comment | None:
        # The comment on the suggestion says already that there was nothing to learn.
        if abs(self.gained) < NEGLIGIBLE and self.expected < NEGLIGIBLE:
            return None
        gained = f"Gained {bits_text(self.gained)}"
        if self.gained <= -SMALL:  # An unlikely answer may leave more open than before.
            gained = f"Gained nothing: the uncertainty grew by {bits_text(-self.gained)}"
        return Comment(f"{gained}; {decimal(self.expected)} were expected.")


@dataclass(frozen=True, slots=True)
class AccusationFacts(MoveFacts):
    """Facts of an accusation that was made."""

    probability: float
    """Probability that it is right."""
    break_even: float
    """Probability above which accusing pays."""
    highest: float
    """Probability of the most probable envelope."""
    correct: bool
    provable: bool
    """True if only one envelope was possible in the accuser's view."""

    @property
    def premature(self) -> bool:
        """True if waiting was better."""
        # The tolerance keeps rounding from turning an even case into a mistake.
        return self.probability < self.break_even - NEGLIGIBLE

    @property
    def value(self) -> float:
        """Value for credit; in a certain case nothing is left to ask, so waiting wins nothing."""
        waiting = 0.0 if self.provable else self.break_even
        return gain(self.probability, self.highest, waiting)

    def comment(self) -> Comment:
        if self.provable and self.correct:
            return Comment("Accused with certainty: no other envelope was possible. Right.")
        if self.provable:
            return Comment(
                "Accused an impossible envelope although the case was certain: wrong.", True
            )
        if self.probability < NEGLIGIBLE:
            return Comment("Accused an envelope that its own view excluded: wrong.", True)
        # A break-even of 1 means that waiting is better as long as any doubt is left.
        certainty_only = self.break_even >= 1
        threshold = (
            "only when certain" if certainty_only else f"from {_probability(self.break_even)}"
        )
        if self.premature:
            verdict = f"premature, {'although right' if self.correct else 'and wrong'}"
        else:
            verdict = f"well timed, {'and right' if self.correct else 'although wrong'}"
        accused = f"Accused with probability {_probability(self.probability)}"
        return Comment(f"{accused}; accusing pays {threshold}: {verdict}.", self.premature)


@dataclass(frozen=True, slots=True)
class WaitFacts(MoveFacts):
    """Facts of a turn that ended without an accusation."""

    break_even: float
    """Probability above which accusing would have paid."""
    highest: float
    """Probability of the most probable envelope."""

    @property
    def value(self) -> float:
        """Value for credit: positive if waiting was right, which it never is in a certain case."""
        waiting = 0.0 if self.highest > 1 - NEGLIGIBLE else self.break_even
        return gain(waiting, self.highest, waiting)


@dataclass(frozen=True, slots=True)
class MissedAccusationFacts(MoveFacts):
    """Facts of a turn that ended without an accusation although the envelope was provable."""

    envelope: Sequence[str]
    turns: int
    """Own turns so far that ended like this."""

    def comment(self) -> Comment:
        case = ", ".join(self.envelope)
        text = f"Ended the turn without accusing although the case was certain: {case}."
        if self.turns > 1:
            text += f" Number of such turns so far: {self.turns}."
        return Comment(text, mistake=True)


@dataclass(frozen=True, slots=True)
class RefutationFacts(MoveFacts):
    """Information about the envelope that a shown card gave to the suggester."""

    leaked: float
    least: float
    """Information of the card, among those that could be shown, that gives least."""
    choices: int
    """Number of cards that could be shown."""

    def comment(self) -> Comment:
        # The information depends on what the suggester knows: for omniscient viewers only.
        gave = f"Gave {bits_text(self.leaked)} to the suggester"
        if self.leaked < SMALL:
            gave = "Gave no information"
        if self.leaked <= -SMALL:
            gave += f" and increased the uncertainty by {bits_text(-self.leaked)}"
        mistake = False
        if self.leaked - self.least < SMALL:
            gave += f"; none of the {self.choices} possible cards gives less."
        else:
            gave += f"; another card gives {_least(self.least)}."
            mistake = self.leaked - self.least >= MUCH
        return Comment(gave, mistake, omniscient=True)


JUDGEMENTS: dict[str, type[MoveFacts]] = {
    "suggestion": SuggestionFacts,
    "answer": AnswerFacts,
    "accusation": AccusationFacts,
    "missed accusation": MissedAccusationFacts,
    "refutation": RefutationFacts,
}
"""The facts of each kind of assessment with a comment."""


# Numbers in comments


def _probability(value: float) -> str:
    """Return a probability; only 0 and 1 are written as 0.00 and 1.00."""
    if 0 < value < 0.005:
        return "below 0.01"
    return "over 0.99" if 0.995 <= value < 1 else decimal(value)


def _least(bits: float) -> str:
    if bits <= -SMALL:
        return f"no information and increases the uncertainty by {bits_text(-bits)}"
    return "no information" if bits < SMALL else decimal(bits)


# Values of decisions, for credit in training


HAZARD = 0.1
"""Probability that a rival solves the case in its next turn when the player in turn is down to two
envelopes (1 bit). Chosen by games of the oracle: against novices 0.1 wins 20 points more than 0.5,
against detectives 4 less (results/break-even.json)."""


def break_even(knowledge: CluedoKnowledge, rivals: int, may_suggest: bool) -> float:
    """Return the probability of an envelope above which accusing now wins as often as waiting.

    It is 1 while the player may still make a suggestion in this turn, because asking first costs
    nothing, and 1 if no rival is left. Otherwise it is the probability that none of the `rivals`
    (the other players still in the game) solves the case before the player's next turn, in which
    the player is assumed to win:

        (1 - HAZARD * 2 ** (1 - H)) ** rivals,    H = entropy of the envelope in bits.

    This is an estimate; only the cases with value 1 are exact. It depends on nothing but the
    player's own uncertainty: stronger rivals solve the case earlier, and weaker ones later.
    """
    if may_suggest or not rivals:
        return 1.0
    # A rival with H bits left faces about 2^H envelopes: the threat halves with each bit.
    threat = HAZARD * 2 ** (1 - knowledge.entropy())
    # The rivals count as independent, and each of them must fail.
    return float((1 - threat) ** rivals)


def gain(winning: float, highest: float, waiting: float) -> float:
    """Return the value of a decision that wins with this probability, between two choices.

    These are to accuse the most probable envelope, which wins with probability `highest`, and to
    wait. The value is twice the distance from their mean, so each of them has its gain against the
    other one, and a less probable envelope loses twice what it is less probable by.
    """
    return 2 * winning - (highest + waiting)


def stage_of(knowledge: CluedoKnowledge) -> str:
    """Return the measure of a question that is asked now, by the share of entropy that is left."""
    dealt = knowledge.facts.entropy_dealt
    left = knowledge.entropy() / dealt if dealt else 0.0
    # An unlikely answer may raise the entropy above that of the deal: still the first stage.
    return next(stage.measure for stage in STAGES if left >= stage.least)


DECISION_KINDS = {
    "suggestion": DecisionKind.of_measure(
        "efficiency", "expected bits of the question, of the best one", "questions"
    ),
    "skipped question": DecisionKind(
        lambda _: 0.0, "a turn without a question gains nothing", "questions"
    ),
    "accusation": DecisionKind(
        lambda assessment: AccusationFacts.of(assessment).value,
        "its exact probability, minus that of winning by waiting (the break-even)",
    ),
    "wait": DecisionKind(
        lambda assessment: WaitFacts.of(assessment).value,
        "the probability of winning by ending the turn, minus that of the best accusation; -1 "
        "if the envelope was provable",
    ),
    "refutation": DecisionKind.of_measure(
        "excess_leak", "minus the bits given away beyond the least", "refutations", sign=-1
    ),
}
