"""Output of `arena replay --ask`: the moves of a policy beside those of a replay."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from pydantic import JsonValue

from arena.core.errors import ArenaError
from arena.core.spec import Spec, redacted
from arena.core.text import pluralize
from arena.episodes.policy_agreement import Comparison, is_number, mean_facts

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from arena.core.assessment import Fact
    from arena.core.ply import Decision
    from arena.episodes.policy_agreement import (
        Facts,
        MeanFact,
        PolicyAgreement,
        RecordedDecision,
    )
    from arena.evaluation.output.tables import Grid


def report(agreement: PolicyAgreement, max_concurrent: int, as_json: bool) -> int:
    """Ask the policy and print its answers; return the exit code.

    Raises the error that ended the run early, after the answers so far were printed.
    """
    import asyncio

    decisions, interrupted, stopped = agreement.recorded_decisions(), False, None
    with _progress(agreement) as progress:
        try:
            asyncio.run(_ask(agreement, decisions, max_concurrent, progress))
        except KeyboardInterrupt:
            interrupted = True
        except ArenaError as error:  # A spent budget, a provider that is down.
            stopped = error
        bar = progress.add_task("exact knowledge", total=len(agreement.answers))
        comparisons = []
        for comparison in agreement.comparisons():
            comparisons.append(comparison)
            progress.advance(bar)
    _warn_of_failures(agreement, comparisons)
    if as_json:
        print(json.dumps(to_json(agreement, comparisons, len(decisions))))
    else:
        AgreementTables(agreement, comparisons).print(len(decisions))
    if stopped is not None:
        raise stopped
    return 130 if interrupted else 0


def _progress(agreement: PolicyAgreement) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    hidden = Spec.parse(agreement.spec).is_human or not sys.stderr.isatty()
    return Progress(console=Console(stderr=True), disable=hidden, transient=True)


async def _ask(
    agreement: PolicyAgreement,
    decisions: list[RecordedDecision],
    max_concurrent: int,
    progress: Progress,
) -> None:
    if Spec.parse(agreement.spec).is_human:
        max_concurrent = 1
    bar = progress.add_task(redacted(agreement.spec), total=len(decisions))
    async with agreement.llm or nullcontext():
        await agreement.ask(decisions, max_concurrent, lambda: progress.advance(bar))


def _warn_of_failures(agreement: PolicyAgreement, comparisons: list[Comparison]) -> None:
    failures = [each for each in comparisons if each.proposed.failure]
    if failures:
        times, first = pluralize(len(failures), "time"), failures[0]
        print(
            f"warning: {redacted(agreement.spec)} gave no legal reply {times}; "
            f"the first time, for ply {first.ply + 1}: {first.proposed.failure}",
            file=sys.stderr,
        )


def to_json(
    agreement: PolicyAgreement, comparisons: list[Comparison], questions: int
) -> dict[str, JsonValue]:
    """Return the result for `--json`; `questions` is the number of decisions of the replay."""
    from arena.evaluation.statistics.intervals import rate

    same = sum(each.is_same for each in comparisons)
    context = _context(agreement.replay.make_game().facts)
    means: dict[str, JsonValue] = {
        name: {"played": mean.played, "said": mean.proposed, "n": mean.n}
        for name, mean in mean_facts(comparisons, context).items()
    }
    return {
        "replay": str(agreement.replay.path),
        "asked": redacted(agreement.spec),
        "seed": agreement.seed,
        "seats": list(agreement.seats),
        "questions": questions,
        "forced": agreement.forced_moves,
        "answers": len(comparisons),
        "failures": sum(each.proposed.failure is not None for each in comparisons),
        "same": same,
        "agreement": rate(same, len(comparisons)).to_json(),
        "means": means,
        "decisions": [_decision_json(each) for each in comparisons],
        **({"ledger": agreement.llm.ledger.to_json()} if agreement.llm else {}),
    }


def _decision_json(comparison: Comparison) -> dict[str, JsonValue]:
    failure = comparison.proposed.failure
    return {
        "ply": comparison.ply,
        "player": comparison.player,
        "played": str(comparison.played.action),
        "fallback": comparison.played.failure is not None,
        "said": None if failure else str(comparison.proposed.action),
        "failure": failure,
        "same": comparison.is_same,
        "of_played": dict(comparison.facts_of_played),
        "of_said": dict(comparison.facts_of_proposed),
        "details": dict(comparison.proposed.details),
    }


def _context(facts: Mapping[str, Fact]) -> set[str]:
    """Return the names of the facts that describe the position, whatever is played in it."""
    return {name for name, fact in facts.items() if fact.of_position}


class AgreementTables:
    """Tables and sentences for the terminal."""

    def __init__(self, agreement: PolicyAgreement, comparisons: Sequence[Comparison]) -> None:
        self._agreement = agreement
        self._comparisons = comparisons
        self._facts = agreement.replay.make_game().facts
        self._context = _context(self._facts)

    def print(self, questions: int) -> None:
        """Print the table, the share of equal moves, the mean facts and the legend."""
        from rich.console import Console
        from rich.text import Text

        console, comparisons, agreement = Console(), self._comparisons, self._agreement
        if comparisons:
            console.print(self._table())
        if len(comparisons) < questions:
            of = pluralize(questions, "decision")
            print(f"Asked about: {len(comparisons)} of {of}", file=sys.stderr)
        forced = agreement.forced_moves
        left_out = f" ({pluralize(forced, 'forced move')} left out)" if forced else ""
        if not questions:
            console.print(Text(f"No decisions to ask about{left_out}."))
        if comparisons:
            console.print(Text(self._share_of_equal_moves() + left_out + "."))
        means = mean_facts(comparisons, self._context)
        if means:
            console.print(self._means(means).rich(console.width))
        for line in self._legend():
            console.print(Text(line, style="dim"))
        if agreement.llm is not None:
            Console(stderr=True).print(agreement.llm.ledger.table())

    def _share_of_equal_moves(self) -> str:
        from arena.evaluation.statistics.intervals import rate

        total = len(self._comparisons)
        same = sum(each.is_same for each in self._comparisons)
        share = rate(same, total)
        return (
            f"{redacted(self._agreement.spec)} would have played the same at {same} of "
            f"{pluralize(total, 'decision')}: "
            f"{share.value:.0%} ({share.low:.0%} to {share.high:.0%})"
        )

    def _means(self, means: Mapping[str, MeanFact]) -> Grid:
        from arena.evaluation.output.tables import Grid

        headings = ["mean, where both moves have it", "played", "proposed", "decisions"]
        rows = [
            [
                _words(name),
                self._value(name, mean.played),
                self._value(name, mean.proposed),
                str(mean.n),
            ]
            for name, mean in means.items()
        ]
        return Grid("means", headings, rows)

    def _table(self) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        table.add_column("ply", justify="right")
        table.add_column("seat", justify="right")
        table.add_column("played", overflow="fold")
        table.add_column(Text(redacted(self._agreement.spec)), overflow="fold")
        table.add_column("same")
        for each in self._comparisons:
            played = self._move(each.played, self._facts_beside_played(each), "fallback")
            proposed = self._move(each.proposed, self._facts_beside_proposed(each))
            if each.is_same:
                proposed = "the same"
            elif each.proposed.failure:
                proposed = "no legal reply"
            numbers = (str(each.ply + 1), str(each.player))  # Plies are counted from 1 for people.
            table.add_row(*numbers, *map(Text, (played, proposed)), "yes" if each.is_same else "no")
        return table

    def _facts_beside_played(self, comparison: Comparison) -> Facts:
        """Return the facts of the played move.

        `best` is the best of the moves that were compared, and the proposed move is one of them: of
        the two values of this one number the larger is shown.
        """
        played, other = comparison.facts_of_played, comparison.facts_of_proposed.get("best")
        best = played.get("best")
        if is_number(best) and is_number(other):
            return {**played, "best": max(best, other)}
        return played

    def _facts_beside_proposed(self, comparison: Comparison) -> Facts:
        """Return the facts of the proposed move, without those of the position shown already."""
        shown = self._context & comparison.facts_of_played.keys()
        facts = comparison.facts_of_proposed.items()
        return {name: value for name, value in facts if name not in shown}

    def _move(self, decision: Decision, facts: Facts, failed: str = "") -> str:
        """Return the move, and below it its numeric facts."""
        move = f"{decision.action}{f' ({failed})' if failed and decision.failure else ''}"
        numbers = ", ".join(
            f"{_words(name)} {self._value(name, value)}"
            for name, value in facts.items()
            if is_number(value)
        )
        # In a row of numbers with the unit bits, only the last shows the unit.
        numbers = re.sub(r" bits(?=, \D+ [-\d.]+ bits)", "", numbers)
        return f"{move}\n{numbers}" if numbers else move

    def _value(self, name: str, value: float) -> str:
        unit = self._facts[name].unit if name in self._facts else ""
        if unit == "%":
            return f"{value:.0%}".replace("%", " %")
        number = str(value) if isinstance(value, int) else f"{value:.2f}"
        return f"{number} {unit}".rstrip()

    def _legend(self) -> Iterator[str]:
        """Yield the meaning of each fact that the table shows."""
        names = {
            name: None
            for each in self._comparisons
            for name in {**each.facts_of_played, **each.facts_of_proposed}
        }
        for name in names:
            if name in self._facts:
                yield f"{_words(name)}: {self._facts[name].about}"


def _words(name: str) -> str:
    return name.replace("_", " ")
