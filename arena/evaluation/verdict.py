"""A report in sentences: what it says, how sure that is, and what to be careful about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from arena.evaluation.tables import percent
from arena.observation import Json

Report = Mapping[str, Json]


def sentences(report: Report) -> Iterator[str]:
    """Most important first."""
    if report.get("comparison"):
        yield _compared(report["comparison"])
    if report.get("sequential"):
        yield _sequential(report["sequential"])
    if report.get("controlled"):
        yield _controlled(report["controlled"])
    yield from report["notes"]
    if report.get("design"):
        yield f"Design: {report['design']}"


def _compared(found: Report) -> str:
    difference, needed = found["difference"], found["games_needed"]
    low, high = difference["low"], difference["high"]
    unclear = low is None or high is None or low <= 0 <= high
    better = difference["value"] is not None and difference["value"] > 0
    verdict = (
        "cannot be told apart from" if unclear else f"is {'better' if better else 'worse'} than"
    )
    text = (
        f"{found['player']} {verdict} {found['baseline']}: "
        f"{percent(difference, signed=True)} in {found['deals']} pairs of games."
    )
    if needed is None:
        return text
    return f"{text} To tell this difference from 0 (80 % power) takes about {needed} pairs."


def _sequential(found: Report) -> str:
    state = "reached" if found["reached"] else "not reached"
    estimate = percent(found["estimate"], signed=found["of"] == "difference")
    return (
        f"Interval of the {found['of']} that holds at whatever game one stops (target "
        f"± {found['target']:g}, {state}): {estimate} after {found['estimate']['n']} deals."
    )


def _controlled(found: Report) -> str:
    estimate = percent(found["estimate"])
    if not found["valid"]:
        return (
            "Luck cannot be taken out of the win rate here: its mean is not 0. How these players "
            "ask or refute tells more than the exact posterior assumes."
        )
    return (
        f"Win rate with the luck of the answers taken out: {estimate}, from "
        f"{found['estimate']['n']} scored games; worth {found['gain']:.2f} times the games."
    )
