"""A report in sentences: what it says, how sure that is, and what to be careful about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from arena.core.json import Json
from arena.core.text import counted
from arena.evaluation.output.tables import percent

Report = Mapping[str, Json]


def sentences(report: Report) -> Iterator[str]:
    """Most important first."""
    if report.get("comparison"):
        yield _compared(report["comparison"], report.get("sequential"))
    if report.get("sequential"):
        yield _sequential(report["sequential"])
    yield from report["notes"]
    if report.get("controlled"):
        yield _controlled(report["controlled"])
    if report.get("design"):
        yield f"Design: {report['design']}"


def definitions(report: Report) -> Iterator[str]:
    """What each measure of the report means."""
    for measure in report["measures"]:
        yield f"{measure['title']} ({measure['unit']}): {measure['about']}"


def _compared(found: Report, sequential: Report | None) -> str:
    """Where the games decided when to stop, only the sequence's interval can tell."""
    difference, needed = found["difference"], found["games_needed"]
    if sequential:
        difference = sequential["estimate"]
    low, high = difference["low"], difference["high"]
    unclear = low is None or high is None or low <= 0 <= high
    better = difference["value"] is not None and difference["value"] > 0
    verdict = (
        "cannot be told apart from" if unclear else f"is {'better' if better else 'worse'} than"
    )
    text = (
        f"{found['player']} {verdict} {found['baseline']}: "
        f"{percent(difference, signed=True)} in {counted(found['deals'], 'deal')}, played by both."
    )
    if needed is None:
        return text
    return f"{text} If it is truly this large, about {needed} pairs show it (80 % power)."


def _sequential(found: Report) -> str:
    state = "reached" if found["reached"] else "not reached"
    estimate = percent(found["estimate"], signed=found["of"] == "difference")
    return (
        f"Interval of the {found['of']} that holds at whatever game one stops (target "
        f"± {found['target']:g}, {state}): {estimate} after "
        f"{counted(found['estimate']['n'], 'deal')}."
    )


def _controlled(found: Report) -> str:
    estimate = percent(found["estimate"])
    if not found["valid"]:
        return (
            "Luck is not taken out of the win rate: its mean is not 0 here. How these players ask "
            "or refute tells more than the exact posterior assumes."
        )
    return (
        f"Win rate with the luck of the answers taken out: {estimate}, from "
        f"{counted(found['estimate']['n'], 'scored game')}; worth {found['gain']:.2f} times the "
        "games, if such luck has mean 0; what these games say of that leaves "
        f"± {100 * found['possible_bias']:.0f} points."
    )
