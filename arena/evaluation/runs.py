"""The results of a run in a notebook: its games as columns, and its report."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.evaluation.aggregation import stored_report
from arena.evaluation.report import Report
from arena.evaluation.store import Results


def load_run(folder: Path | str) -> dict[str, NDArray[Any]]:
    """Return the finished games of a run as columns of equal length, with a row for each seat.

    Columns are `game` (number in the schedule), `seed`, `seat`, `player`, `role` (`tested` or
    `opponent`), `returns`, `won`, `truncated`, `turns` and `fallbacks`, and one for each measure
    with its value in that game; NaN where the game has none. Raises ArenaError for a folder that
    cannot be read.

        >>> games = load_run("runs/eval/cluedo-cards-4p-seed1-detective")
        >>> games["returns"][games["role"] == "tested"].mean()
    """
    columns, measures = (
        defaultdict[str, list[object]](list),
        defaultdict[str, dict[int, float]](dict),
    )
    rows = 0
    with Results.read(folder) as results:
        for game in results.games():
            for number, seat in enumerate(game.seats):
                row = {
                    "game": game.slot.number,
                    "seed": game.slot.seed,
                    "seat": number,
                    "player": seat.player,
                    "role": game.slot.seat_role(number),
                    "returns": seat.returns,
                    "won": seat.won,
                    "truncated": game.status == "truncated",
                    "turns": game.turns,
                    "fallbacks": seat.fallbacks,
                }
                for name, value in row.items():
                    columns[name].append(value)
                for name, share in seat.measurements.items():
                    if share.weight:
                        measures[name][rows] = share.total / share.weight
                rows += 1
    table = {name: np.array(values) for name, values in columns.items()}
    for name, values in measures.items():
        table[name] = np.full(rows, np.nan)
        table[name][list(values)] = list(values.values())
    return table


def report_run(folder: Path | str) -> Report:
    """Return the report of a run: results of players with intervals, differences, notes.

    `arena.evaluation.document.tables.document` makes its sentences and tables. Raises ArenaError
    for a folder that cannot be read, or without a finished game.

        >>> report = report_run("runs/eval/cluedo-cards-4p-seed1-detective")
        >>> report.players[0].win_rate.value
    """
    with Results.read(folder) as results:
        return stored_report(results)
