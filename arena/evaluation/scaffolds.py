"""Comparison of one model with several scaffolds: can it not deduce, or can it not remember?

Each deal is played once with each scaffold, in the same seat against the same opponents. The
difference of the last scaffold to the first is the primary result; the p-values of all others are
adjusted together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.spec import SCAFFOLDS, Spec, redacted
from arena.core.text import percentage
from arena.evaluation.formatting import amount, p_text
from arena.evaluation.paired import compare, difference_of_returns, holm
from arena.evaluation.records import GameResult
from arena.evaluation.report import PairedComparison, Report
from arena.evaluation.schedule import design_text
from arena.evaluation.summary import Sample, make_report

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


class ScaffoldAggregator:
    """Results of `arena eval --scaffolds`: a player for each scaffold, on the same deals."""

    enough = False
    """The whole schedule is played."""
    target: float | None = None
    any_time = False
    """Several differences have no common confidence sequence."""

    def __init__(self, game: Game, players: Sequence[str], against: Sequence[str] = ()) -> None:
        self.game = game
        self.against = list(against)
        self.games = 0
        self.scored = 0
        self._samples = {player: Sample(player) for player in players}
        self._deal: list[GameResult] = []

    def add(self, result: GameResult) -> None:
        """Add the next game; games count once their deal was played with each scaffold."""
        self._deal.append(result)
        if len(self._deal) < len(self._samples):
            return
        for each in self._deal:
            self._samples[each.tested.player].add_tested(each, self.game.return_scale)
            self.scored += each.scored
        self.games += len(self._deal)
        self._deal.clear()

    def status(self) -> str:
        """Return the share of games won with each scaffold so far."""
        won = (
            f"{Spec.parse(player).scaffold} {percentage(sum(sample.won) / max(1, len(sample)))}"
            for player, sample in self._samples.items()
        )
        return f"won with {', '.join(won)}"

    def report(self) -> Report:
        comparisons = self._comparisons()
        return make_report(
            "eval",
            self.game,
            self.games,
            self.scored,
            self._samples.values(),
            notes=self._answers(comparisons),
            primary="comparison.difference",
            against=self.against,
            design=f"{design_text(paired=False)} Each deal is played with each scaffold, in the "
            "same seat against the same opponents: most of the luck cancels in differences.",
            comparison=comparisons[-1],
            comparisons=comparisons,
        )

    def _comparisons(self) -> list[PairedComparison]:
        """Return each scaffold minus each earlier one; the last minus the first comes last."""
        pairs = list(combinations(self._samples.values(), 2))
        # The primary comparison: of the first scaffold with the last one.
        pairs.append(pairs.pop(len(self._samples) - 2))
        scale = self.game.return_scale
        p_values = {
            place: difference_of_returns(later, earlier, scale).p
            for place, (earlier, later) in enumerate(pairs[:-1])
        }
        adjusted = holm(p_values)
        compared = []
        for place, (earlier, later) in enumerate(pairs):
            paired = compare(self.game, later, earlier)
            if place in adjusted:
                p = {**paired.adjusted_p, "difference": adjusted[place]}
                paired = paired.model_copy(update={"adjusted_p": p})
            compared.append(paired)
        return compared

    def _answers(self, comparisons: Sequence[PairedComparison]) -> Iterator[str]:
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
            size = amount(difference, self.game.return_scale, signed=True)
            exact = "" if p is None else f", adjusted p {p_text(p)}"
            yield f"{question}: {better} − {plain} is {size}{exact}: {finding}."
