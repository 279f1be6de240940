"""What `arena replay --ask` prints: what was said at each decision, and how often they agree."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from arena.core.errors import ArenaError
from arena.core.spec import shown
from arena.core.text import counted
from arena.episodes.policy_agreement import FACTS, Opinion, SecondOpinion, compare, is_number

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from arena.core.json import Json
    from arena.core.ply import Decision
    from arena.episodes.policy_agreement import Compared, Facts, Question
    from arena.evaluation.output.tables import Grid


def report(asked: SecondOpinion, at_once: int, as_json: bool) -> int:
    """Ask, and print the answers; the exit code. Raises what ended the asking early."""
    import asyncio

    questions, interrupted, stopped = asked.questions(), False, None
    with _progress(asked) as progress:
        try:
            asyncio.run(_ask(asked, questions, at_once, progress))
        except KeyboardInterrupt:
            interrupted = True
        except ArenaError as error:  # A spent budget, a dead provider: what is answered is told.
            stopped = error
        bar = progress.add_task("what exact knowledge says", total=len(asked.answers))
        found = []
        for opinion in asked.opinions():
            found.append(opinion)
            progress.advance(bar)
    _warn(asked, found)
    if as_json:
        print(json.dumps(to_json(asked, found, len(questions))))
    else:
        _print(asked, found, len(questions))
    if stopped is not None:
        raise stopped
    return 130 if interrupted else 0


def _progress(asked: SecondOpinion) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    person = asked.spec.partition(":")[0] == "human"
    return Progress(
        console=Console(stderr=True), disable=person or not sys.stderr.isatty(), transient=True
    )


async def _ask(
    asked: SecondOpinion, questions: list[Question], at_once: int, progress: Progress
) -> None:
    person = asked.spec.partition(":")[0] == "human"
    bar = progress.add_task(shown(asked.spec), total=len(questions))
    async with asked.llm or nullcontext():
        await asked.ask(questions, 1 if person else at_once, lambda: progress.advance(bar))


def _warn(asked: SecondOpinion, opinions: list[Opinion]) -> None:
    failures = [opinion for opinion in opinions if opinion.said.failure]
    if failures:
        print(
            f"warning: {shown(asked.spec)} gave no legal reply {counted(len(failures), 'time')}; "
            f"the first time, for ply {failures[0].ply + 1}: {failures[0].said.failure}",
            file=sys.stderr,
        )


def to_json(asked: SecondOpinion, opinions: list[Opinion], questions: int) -> dict[str, Json]:
    """Everything that is known; `questions` is how many were to be asked."""
    from arena.evaluation.statistics.intervals import rate

    same = sum(opinion.same for opinion in opinions)
    means = {
        name: {"played": each.played, "said": each.said, "n": each.n}
        for name, each in compare(opinions).items()
    }
    return {
        "replay": str(asked.replay.path),
        "asked": shown(asked.spec),
        "seed": asked.seed,
        "seats": list(asked.seats),
        "questions": questions,
        "forced": asked.forced,
        "answers": len(opinions),
        "failures": sum(opinion.said.failure is not None for opinion in opinions),
        "same": same,
        "agreement": rate(same, len(opinions)).to_json(),
        "means": means,
        "decisions": [_decision_json(opinion) for opinion in opinions],
        **({"ledger": asked.llm.ledger.to_json()} if asked.llm else {}),
    }


def _decision_json(opinion: Opinion) -> dict[str, Json]:
    failure = opinion.said.failure
    return {
        "ply": opinion.ply,
        "player": opinion.player,
        "played": str(opinion.played.action),
        "fallback": opinion.played.failure is not None,
        "said": None if failure else str(opinion.said.action),
        "failure": failure,
        "same": opinion.same,
        "of_played": dict(opinion.of_played),
        "of_said": dict(opinion.of_said),
        "details": dict(opinion.said.details),
    }


def _print(asked: SecondOpinion, opinions: list[Opinion], questions: int) -> None:
    from rich.console import Console
    from rich.text import Text

    from arena.evaluation.statistics.intervals import rate

    console, spec = Console(), shown(asked.spec)
    if opinions:
        console.print(_table(spec, opinions))
    if len(opinions) < questions:
        of = counted(questions, "decision")
        print(f"Asked about: {len(opinions)} of {of}", file=sys.stderr)
    same = sum(opinion.same for opinion in opinions)
    agreement = rate(same, len(opinions))
    forced = f" ({counted(asked.forced, 'forced move')} left out)" if asked.forced else ""
    if not questions:
        console.print(Text(f"No decisions to ask about{forced}."))
    if opinions:
        line = (
            f"{spec} would have played the same at {same} of {counted(len(opinions), 'decision')}: "
            f"{agreement.value:.0%} ({agreement.low:.0%} to {agreement.high:.0%}){forced}."
        )
        console.print(Text(line))
    means = compare(opinions)
    if means:
        console.print(_means(means).rich(console.width))
    for line in _legend(opinions):
        console.print(Text(line, style="dim"))
    if asked.llm is not None:
        Console(stderr=True).print(asked.llm.ledger.table())


def _means(means: Mapping[str, Compared]) -> Grid:
    from arena.evaluation.output.tables import Grid

    title, headings = "means", ["mean, where both moves have it", "played", "said", "decisions"]
    rows = [
        [_words(name), _value(name, each.played), _value(name, each.said), str(each.n)]
        for name, each in means.items()
    ]
    return Grid(title, headings, rows)


def _table(spec: str, opinions: list[Opinion]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("ply", justify="right")
    table.add_column("seat", justify="right")
    table.add_column("played", overflow="fold")
    table.add_column(Text(f"{spec} says"), overflow="fold")
    table.add_column("same")
    for each in opinions:
        said = "the same" if each.same else _cell(each.said, each.shown_of_said)
        cells = (_cell(each.played, each.shown_of_played, "fallback"), said)
        if each.said.failure:
            cells = (cells[0], "no legal reply")
        numbers = (str(each.ply + 1), str(each.player))  # Counted from 1, as everywhere.
        table.add_row(*numbers, *map(Text, cells), "yes" if each.same else "no")
    return table


def _cell(decision: Decision, facts: Facts, failed: str = "") -> str:
    """The move, and below it what exact knowledge says."""
    move = f"{decision.action}{f' ({failed})' if failed and decision.failure else ''}"
    known = {name: value for name, value in facts.items() if is_number(value)}
    numbers = ", ".join(f"{_words(name)} {_value(name, value)}" for name, value in known.items())
    # Numbers in a row that have one unit say it once.
    numbers = re.sub(r" bits(?=, \D+ [-\d.]+ bits)", "", numbers)
    return f"{move}\n{numbers}" if numbers else move


def _value(name: str, value: float) -> str:
    """In its unit, where that is known."""
    unit = FACTS[name].unit if name in FACTS else ""
    if unit == "%":
        return f"{value:.0%}".replace("%", " %")
    number = str(value) if isinstance(value, int) else f"{value:.2f}"
    return f"{number} {unit}".rstrip()


def _legend(opinions: list[Opinion]) -> Iterator[str]:
    """What the words in the table mean."""
    told = {name: None for each in opinions for name in {**each.of_played, **each.of_said}}
    for name in told:
        if name in FACTS:
            yield f"{_words(name)}: {FACTS[name].about}"


def _words(name: str) -> str:
    return name.replace("_", " ")
