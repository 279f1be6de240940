"""Results put together: what `--json` prints, tables show and sheets draw.

A report is JSON. An estimate in it is `{"value", "low", "high", "n"}`: a 95 % interval, and the
number of independent deals that it rests on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.core.assessment import Measure
from arena.core.game import Game
from arena.core.json import Json
from arena.evaluation.records import Estimate
from arena.evaluation.scoring import measures_of
from arena.evaluation.statistics.intervals import (
    UNBOUNDED,
    clustered_mean,
    rate,
    ratio_of_sums,
)
from arena.evaluation.statistics.samples import Sample

CALIBRATION_BINS = 10


def head_of(game: Game, games: int, scored: int, samples: Sequence[Sample]) -> dict[str, Json]:
    """What all kinds of reports begin with."""
    names = {name for sample in samples for name in sample.names}
    return {
        "game": game.name,
        "options": game.options.model_dump(mode="json"),
        "games": games,
        "scored": scored,
        "measures": [_measure_json(measure) for measure in measures_of(game, names)],
        "notes": [note for sample in samples for note in _notes(sample)],
    }


def _measure_json(measure: Measure) -> dict[str, Json]:
    return {name: getattr(measure, name) for name in measure.__slots__}


def _notes(sample: Sample) -> Iterable[str]:
    unclean = len(sample) - sum(sample.clean)
    if unclean:
        yield (
            f"{sample.player}: {unclean} of {len(sample)} seats were in games with a fallback "
            f"move ({sample.fallbacks} its own); 'clean' leaves these games out."
        )


def player_report(sample: Sample, game: Game) -> dict[str, Json]:
    """Everything that is told of one player."""
    clean = np.array(sample.clean, bool)
    names = table_names(sample)
    estimates = _ratios(sample, names, bounds_of(game, names))
    calibration = calibration_of(sample)
    return {
        "player": sample.player,
        "games": sample.games,
        "seats": len(sample),
        "wins": sum(sample.won),
        "win_rate": _win_rate(sample, np.ones(len(sample), bool)),
        "mean_return": clustered_mean(np.array(sample.returns), sample.deals).to_json(),
        "clean": {"seats": int(clean.sum()), "win_rate": _win_rate(sample, clean)},
        "measures": {name: e.to_json() for name, e in zip(names, estimates, strict=True)},
        "series": {"entropy": _series(sample, "entropy"), "calibration": calibration},
        "calibration_error": calibration_error(calibration),
        "replies": _replies(sample),
        "usage": _usage(sample),
    }


def _win_rate(sample: Sample, chosen: NDArray[np.bool_]) -> dict[str, Json]:
    """The share of the chosen seats that won; seats of one deal are not independent."""
    won, deals = np.array(sample.won)[chosen], np.array(sample.deals)[chosen]
    if len(won) == len(np.unique(deals)):
        return rate(int(won.sum()), len(won)).to_json()
    return clustered_mean(won, deals, bounds=(0.0, 1.0)).to_json()


def table_names(sample: Sample) -> list[str]:
    """The measures that are no points of a series and no counts of failures."""
    return [name for name in sample.names if "/" not in name and ":" not in name]


def _ratios(sample: Sample, names: Sequence[str], bounds: ArrayLike = UNBOUNDED) -> list[Estimate]:
    return ratio_of_sums(sample.sums(names), bounds=bounds)


def bounds_of(game: Game, names: Sequence[str]) -> NDArray[np.float64]:
    """What each measure can be at all; shape (measures, 2)."""
    units = {measure.name: measure.unit for measure in measures_of(game, names)}

    def bounds(unit: str) -> tuple[float, float]:
        if unit in ("share", "probability"):
            return (0.0, 1.0)
        # An answer may leave more to be found out than there seemed to be; nothing else is below 0.
        return UNBOUNDED if unit.startswith("bits") else (0.0, math.inf)

    return np.array([bounds(units.get(name, "bits")) for name in names]).reshape(-1, 2)


def _series(sample: Sample, prefix: str) -> dict[str, Json]:
    """A measure's points by their number."""
    points = sorted(
        (int(name.partition("/")[2]), name)
        for name in sample.names
        if re.fullmatch(rf"{prefix}/\d{{1,4}}", name)
    )
    # A series is of an entropy, which is never negative.
    estimates = _ratios(sample, [name for _, name in points], (0.0, math.inf))
    return {
        str(number): estimate.to_json()
        for (number, _), estimate in zip(points, estimates, strict=True)
    }


def calibration_of(sample: Sample) -> list[dict[str, Json]]:
    """Per bin of stated probabilities: their mean, and the mean of the exact ones."""
    found = []
    for number in range(CALIBRATION_BINS):
        count = sample.weight(f"stated/{number}")
        if count:
            stated, exact = sample.total(f"stated/{number}"), sample.total(f"calibration/{number}")
            found.append(
                {"stated": stated / count, "posterior": exact / count, "count": round(count)}
            )
    return found


def calibration_error(bins: Sequence[Mapping[str, Json]]) -> float | None:
    """The mean distance of stated from exact probability, over bins weighted by their counts.

    The expected calibration error (Naeini, Cooper & Hauskrecht 2015) with the exact posterior in
    place of observed frequencies, which it is the expectation of.
    """
    count = sum(each["count"] for each in bins)
    if not count:
        return None
    error = sum(abs(b["stated"] - b["posterior"]) * b["count"] for b in bins)
    return float(error / count)


def _replies(sample: Sample) -> dict[str, Json]:
    failures = {
        name.partition(":")[2]: round(sample.total(name))
        for name in sample.names
        if name.startswith("failure:")
    }
    return {
        "attempts": round(sample.weight("legal")),
        "legal": round(sample.total("legal")),
        "failures": failures,
        "fallbacks": sample.fallbacks,
    }


def _usage(sample: Sample) -> dict[str, Json]:
    games = max(1, len(sample))
    return {
        "prompt_tokens": sample.total("prompt_tokens") / games,
        "completion_tokens": sample.total("completion_tokens") / games,
        "cost": sample.total("cost") / games if "cost" in sample.names else None,
        "seconds_per_reply": sample.total("latency") / max(1.0, sample.weight("latency")),
    }
