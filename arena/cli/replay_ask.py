"""Output of `arena replay --ask`: the moves of a policy beside those of a replay."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import TYPE_CHECKING

from pydantic import JsonValue

from arena.cli.terminal import progress_bar, run_until_stopped
from arena.core.spec import Spec, redacted
from arena.core.text import decimal, percentage, pluralize, real_minus
from arena.episodes.policy_agreement import (
    Comparison,
    Facts,
    PolicyAgreement,
    is_number,
    mean_facts,
)

if TYPE_CHECKING:
    from rich.table import Table

    from arena.core.event import Decision
    from arena.evaluation.formatting import Grid


def report(agreement: PolicyAgreement, max_concurrent: int, as_json: bool) -> int:
    """Ask the policy and print its answers; return the exit code.

    Raises the error that ended the run early, after the answers so far were printed.
    """
    decisions = agreement.recorded_decisions()
    is_human = Spec.parse(agreement.spec).is_human
    with progress_bar(hidden=is_human, transient=True) as progress:
        bar = progress.add_task(redacted(agreement.spec), total=len(decisions))

        async def ask() -> None:
            async with agreement.llm or nullcontext():
                at_once = 1 if is_human else max_concurrent
                await agreement.ask(decisions, at_once, lambda: progress.advance(bar))

        stop = run_until_stopped(ask())  # Ctrl-C, a spent budget, a provider that is down.
        exact = progress.add_task("exact knowledge", total=len(agreement.answers))
        comparisons = []
        for comparison in agreement.comparisons():
            comparisons.append(comparison)
            progress.advance(exact)
    failures = [each for each in comparisons if each.proposed.failure]
    if failures:
        times, first = pluralize(len(failures), "time"), failures[0]
        print(
            f"warning: {redacted(agreement.spec)} gave no legal reply {times}; "
            f"the first time, for ply {first.ply + 1}: {first.proposed.failure}",
            file=sys.stderr,
        )
    result = AgreementReport(agreement, comparisons, len(decisions))
    if as_json:
        print(json.dumps(result.to_json()))
    else:
        result.print()
    if isinstance(stop, Exception):
        raise stop
    return 130 if stop else 0


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


class AgreementReport:
    """The answers of a policy, as JSON, or as tables and sentences for the terminal."""

    def __init__(
        self, agreement: PolicyAgreement, comparisons: Sequence[Comparison], questions: int
    ) -> None:
        """`questions` is the number of decisions of the replay."""
        from arena.evaluation.records import Interval
        from arena.evaluation.statistics import rate

        self._agreement = agreement
        self._comparisons = comparisons
        self._questions = questions
        self._same = sum(each.is_same for each in comparisons)
        self._share = Interval.of(rate(self._same, len(comparisons)))
        self._facts = agreement.replay.make_game().analysis.facts
        self._context = {name for name, fact in self._facts.items() if fact.of_position}
        """The facts that describe the position, whatever is played in it."""
        self._means = mean_facts(comparisons, self._context)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the result for `--json`."""
        agreement, comparisons = self._agreement, self._comparisons
        means: dict[str, JsonValue] = {
            name: {"played": mean.played, "said": mean.proposed, "n": mean.n}
            for name, mean in self._means.items()
        }
        return {
            "replay": str(agreement.replay.path),
            "asked": redacted(agreement.spec),
            "seed": agreement.seed,
            "seats": list(agreement.seats),
            "questions": self._questions,
            "forced": agreement.forced_moves,
            "answers": len(comparisons),
            "failures": sum(each.proposed.failure is not None for each in comparisons),
            "same": self._same,
            "agreement": self._share.model_dump(),
            "means": means,
            "decisions": [_decision_json(each) for each in comparisons],
            **({"ledger": agreement.llm.ledger.to_json()} if agreement.llm else {}),
        }

    def print(self) -> None:
        """Print the table, the share of equal moves, the mean facts and the legend."""
        from rich.console import Console
        from rich.text import Text

        from arena.evaluation.formatting import percent

        console, comparisons, agreement = Console(), self._comparisons, self._agreement
        questions = self._questions
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
            total = pluralize(len(comparisons), "decision")
            same = f"would have played the same at {self._same} of {total}: {percent(self._share)}"
            console.print(Text(f"{redacted(agreement.spec)} {same}{left_out}."))
        if self._means:
            console.print(self._table_of_means().rich(console.width))
        for line in self._legend():
            console.print(Text(line, style="dim"))
        if agreement.llm is not None:
            Console(stderr=True).print(agreement.llm.ledger.table())

    def _table_of_means(self) -> Grid:
        from arena.evaluation.formatting import Grid

        headings = ["mean, where both moves have it", "played", "proposed", "decisions"]
        rows = []
        for name, mean in self._means.items():
            played, proposed = self._value(name, mean.played), self._value(name, mean.proposed)
            rows.append([_words(name), played, proposed, str(mean.n)])
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
            played, proposed = self._facts_to_show(each)
            move = self._move(each.proposed, proposed)
            if each.is_same or each.proposed.failure:
                move = "the same" if each.is_same else "no legal reply"
            cells = (self._move(each.played, played, "fallback"), move)
            # Plies are counted from 1 for people.
            numbers = (str(each.ply + 1), str(each.player))
            table.add_row(*numbers, *map(Text, cells), "yes" if each.is_same else "no")
        return table

    def _facts_to_show(self, comparison: Comparison) -> tuple[Facts, Facts]:
        """Return the facts of the played and of the proposed move.

        Facts of the position are shown once, beside the played move. `best` is the best of the
        moves that were compared, and the proposed move is one of them: the larger of its two values
        is shown.
        """
        played, proposed = comparison.facts_of_played, comparison.facts_of_proposed
        best, other = played.get("best"), proposed.get("best")
        shown = self._context & played.keys()
        if is_number(best) and is_number(other):
            played = {**played, "best": max(best, other)}
        return played, {name: value for name, value in proposed.items() if name not in shown}

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
            return percentage(value)
        number = real_minus(str(value)) if isinstance(value, int) else decimal(value)
        return f"{number} {unit}".rstrip()

    def _legend(self) -> Iterator[str]:
        """Yield the meaning of each fact that the table shows."""
        facts = ((*each.facts_of_played, *each.facts_of_proposed) for each in self._comparisons)
        for name in dict.fromkeys(chain.from_iterable(facts)):
            if name in self._facts:
                yield f"{_words(name)}: {self._facts[name].about}"


def _words(name: str) -> str:
    return name.replace("_", " ")
