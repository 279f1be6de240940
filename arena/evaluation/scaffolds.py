"""Comparison of one model with several scaffolds: can it not deduce, or can it not remember?

Each deal is played once with each scaffold, in the same seat against the same opponents. The
difference of the last scaffold to the first is the primary result; the p-values of all others are
adjusted together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from arena.core.errors import UsageError
from arena.core.outcome import ReturnScale
from arena.core.spec import SCAFFOLDS, Spec, redacted
from arena.evaluation.document import amount, p_text
from arena.evaluation.report import PairedComparison

QUESTIONS = (
    ("Memory", "notes", "none"),
    ("Memory", "scratchpad", "none"),
    ("Deduction", "deductions", "notes"),
)
"""Two scaffolds whose difference answers a question about the model."""
ANSWERS = {
    "Memory": "the model does not keep in mind by itself all that it has seen",
    "Deduction": "the model does not deduce by itself all that follows from what it has seen",
}
"""Conclusion if the first scaffold of a question is better."""
SIGNIFICANT = 0.05


def scaffolded(player: str, names: str) -> list[str]:
    """Return the SPEC of a model with each scaffold of a list `none,notes`.

    Raises UsageError for a list that cannot be compared.
    """
    chosen, known = [name.strip() for name in names.split(",")], ", ".join(SCAFFOLDS)
    wrong = next((name for name in chosen if name not in SCAFFOLDS), None)
    if wrong is not None:
        raise UsageError(f"--scaffolds {names}: '{wrong}' is no scaffold; choose from: {known}")
    if len(set(chosen)) < max(2, len(chosen)):
        raise UsageError(f"--scaffolds {names}: name two or more different ones of: {known}")
    if scaffold := Spec.parse(player).scaffold:
        raise UsageError(
            f"--scaffolds {names}: --player {redacted(player)} names a scaffold already; leave out "
            f"+{scaffold}"
        )
    return [f"{player}+{name}" for name in chosen]


def answers(comparisons: Sequence[PairedComparison], scale: ReturnScale) -> Iterator[str]:
    """Yield what the differences say about memory and deduction."""
    pairs = {paired.scaffolds: paired for paired in comparisons}
    for question, better, plain in QUESTIONS:
        if (better, plain) not in pairs:
            continue
        paired = pairs[better, plain]
        difference, p = paired.difference, paired.adjusted_p.get("difference")
        shown = difference.excludes_zero and (p is None or p < SIGNIFICANT)
        finding = ANSWERS[question] if shown else "these games do not show that it matters"
        if shown and (difference.value or 0.0) < 0:
            finding = "this help makes its play worse"
        size = amount(difference, scale, signed=True)
        exact = "" if p is None else f", adjusted p {p_text(p)}"
        yield f"{question}: {better} − {plain} is {size}{exact}: {finding}."
