"""A folder with a bit of everything that the home page shows, made within milliseconds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue
from training_rows import CONFIG, rows
from web_viewer import record

from arena.evaluation.records import RESULTS, RUN, GameResult, SeatResult, Slot
from arena.evaluation.schedule import evaluation_schedule, tournament_schedule
from arena.evaluation.store import Results
from arena.plugins.catalog import make_game
from trainers.config.config import TrainConfig
from trainers.runs.records import RunFiles, RunState, StepRecord

ATTACK = "<img src=x onerror=top.hacked=1>"
GAME = "kuhn_poker"


def write_run(
    folder: Path, records: Sequence[StepRecord], status: str = "finished", **settings: object
) -> RunFiles:
    files = RunFiles(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = TrainConfig(**CONFIG.model_dump() | settings)
    files.config.write_text(config.model_dump_json())
    write_records(files, records)
    state = RunState(step=len(records) - 1, status=status)
    files.state.write_text(state.model_dump_json())
    return files


def write_records(files: RunFiles, records: Sequence[StepRecord]) -> None:
    files.metrics.write_text("".join(record.model_dump_json() + "\n" for record in records))


def played(slot: Slot, luck: float = 0.0) -> GameResult:
    """A made-up result: the deal decides it, and the player's strength a little."""
    stake = random.Random(slot.seed).choice([-2.0, -1.0, 1.0, 2.0])
    tested = slot.seat or 0
    gain = min(2.0, stake + luck) if slot.role == "player" else stake
    returns = [gain if seat == tested else -gain for seat in range(len(slot.specs))]
    seats = tuple(
        SeatResult(spec, value, value > 0) for spec, value in zip(slot.specs, returns, strict=True)
    )
    return GameResult(slot, "terminated", "made up", 2, 2, 0.01, seats)


def write_evaluation(
    folder: Path,
    player: str,
    deals: int = 30,
    finished: Sequence[int] | None = None,
    luck: float = 0.0,
    baseline: str | None = None,
    against: str = "bot:random",
) -> None:
    game = make_game(GAME)
    settings: dict[str, JsonValue] = {
        "player": player,
        "baseline": baseline,
        "against": [against],
        "seed": 5,
    }
    options = game.options.model_dump(mode="json")
    with Results.create(folder, "eval", GAME, options, settings) as results:
        slots = list(evaluation_schedule(2, player, [against], baseline, deals, 5))
        results.extend(slots)
        chosen = range(len(slots)) if finished is None else finished
        results.add_all([played(slots[number], luck) for number in chosen])


def write_tournament(folder: Path, players: Sequence[str]) -> None:
    with Results.create(folder, "tournament", GAME, {}, {"seed": 5}) as results:
        slots = tournament_schedule(list(players), 2, 8, 5)
        results.extend(slots)
        results.add_all([played(slot) for slot in slots])


def fill_folder(folder: Path) -> None:
    """Write games, evaluations, a tournament and runs, and hostile ones among them."""
    for number in range(3):
        record(folder / "games", f"game{number}", seed=number)
    write_evaluation(folder / "eval" / "strong", "bot:strong", luck=1.0)
    write_evaluation(folder / "eval" / "weak", "bot:weak")
    write_evaluation(folder / "eval" / "part", "bot:part", finished=[0, 1, 2, 4])
    write_tournament(folder / "tournament" / "bots", ["bot:a", "bot:b", "bot:c"])
    write_run(folder / "train" / "first", rows(20))
    write_run(folder / "train" / "second", rows(12, seed=3), "interrupted", learning_rate=2e-3)
    hostile = folder / f"hostile {ATTACK}"
    write_run(hostile / ATTACK, rows(1))
    write_evaluation(hostile / "eval", ATTACK, against=ATTACK)
    (hostile / "nan").mkdir()
    (hostile / "nan" / "config.json").write_text('{"game": NaN}')
    (hostile / "nan" / "metrics.jsonl").write_text('{"step": NaN}\n')
    (hostile / "broken").mkdir()
    (hostile / "broken" / RUN).write_text("{}")
    (hostile / "broken" / RESULTS).write_bytes(b"\xff" * 5000)
    (hostile / "other").mkdir()
    (hostile / "other" / "config.json").write_text('{"model": "of another program"}')
