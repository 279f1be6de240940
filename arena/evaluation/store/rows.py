"""Conversion between the records of evaluation and the rows of a results file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import cast, get_args

from pydantic import JsonValue

from arena.core.assessment import WeightedSum
from arena.core.errors import ArenaError
from arena.core.spec import redacted
from arena.core.version import __version__
from arena.evaluation.records import GameResult, SeatResult, Slot
from arena.evaluation.schedule import DealRule
from arena.evaluation.store.schema import SCHEDULE, BadRow, ExperimentRow, GameRow, Kind, SeatRow


@dataclass(frozen=True, slots=True)
class Experiment:
    """Subject of a results file."""

    kind: Kind
    game: str
    options: Mapping[str, JsonValue]
    settings: Mapping[str, JsonValue]
    """Settings that must be equal for a run to be resumed. They contain no secrets."""
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    arena: str = __version__
    """Version of arena that created the file."""


def experiment_row(experiment: Experiment) -> tuple[object, ...]:
    options = _json_text("options", experiment.options)
    settings = _json_text("settings", experiment.settings)
    created = experiment.created.isoformat()
    return (experiment.kind, experiment.game, options, settings, created, experiment.arena)


def _json_text(column: str, value: Mapping[str, JsonValue]) -> str:
    try:
        return json.dumps(dict(value), allow_nan=False)
    except ValueError as error:
        raise BadRow(f"experiment.{column}: {error}") from None


def experiment_of(row: ExperimentRow) -> Experiment:
    options, settings = json.loads(row.options), json.loads(row.settings)
    created = datetime.fromisoformat(row.created)
    return Experiment(row.kind, row.game, options, settings, created, row.arena)


def deal_rule(experiment: Experiment) -> DealRule:
    """Return the rule of the experiment's deals. Files of earlier versions store none."""
    rule = experiment.settings.get("deals", "consecutive")
    for known in get_args(DealRule):
        if rule == known:
            return cast(DealRule, known)
    raise ArenaError(
        f"deals = {rule!r} in the settings of a run by arena {experiment.arena}: this arena "
        f"({__version__}) does not know the rule; resume with that version"
    )


def without_secrets(slot: Slot) -> Slot:
    return replace(slot, specs=tuple(map(redacted, slot.specs)))


def check_slot(slot: Slot) -> None:
    """Raise BadRow for a slot that no schedule may contain."""
    SCHEDULE.check([(slot.number, slot.seed, slot.role, slot.seat)])
    if not slot.specs:
        raise BadRow(f"schedule: game {slot.number} has no players")
    if slot.seat is not None and not 0 <= slot.seat < len(slot.specs):
        raise BadRow(f"schedule: game {slot.number} has no seat {slot.seat}")


def game_result(
    game: GameRow,
    slot: Slot | None,
    seats: Sequence[SeatRow],
    measurements: Mapping[tuple[int, int], Mapping[str, WeightedSum]],
) -> GameResult:
    """Assemble a result; `measurements` are by game and seat. Raises BadRow if rows are missing."""
    if slot is None or [row.seat for row in seats] != list(range(len(slot.specs))):
        raise BadRow(f"games: rows of game {game.number} are missing")
    results = tuple(
        SeatResult(
            spec, row.returns, row.won, row.fallbacks, measurements.get((row.number, row.seat), {})
        )
        for spec, row in zip(slot.specs, seats, strict=True)
    )
    fields = game._asdict()
    # The number is in the slot; all other columns are fields of the result.
    del fields["number"]
    return GameResult(slot=slot, seats=results, **fields)
