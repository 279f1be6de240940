"""What --async-steps brings: steps per minute and the held-out gain, beside the synchronous loop.

    pytest -s tests/benchmarks/bench_async.py

Both runs are the preset `demo` of Cluedo with the same seeds, one after the other in this order:
synchronous, one step ahead, two steps ahead. The gain is that of the newest checkpoint on 400
held-out deals, paired with the starting policy. Time for evaluations is not counted.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from arena.cli.train import resolve_settings
from arena.cli.training_session import TrainingLines
from arena.llm.config import SettingsLayer
from arena.llm.settings import Settings
from trainers.loop.grpo import train
from trainers.runs.records import RunFiles, read_records

HELD_OUT = 400


def test_steps_per_minute(tmp_path: Path) -> None:
    print()
    rates = []
    for ahead in (0, 1, 2):
        folder = tmp_path / f"{ahead}-ahead"
        flags = {"async_steps": ahead, "eval_every": 0, "final_eval_games": HELD_OUT}
        config = resolve_settings("cluedo", "demo", SettingsLayer("benchmark", flags)).config
        # The host is selected as `arena train` does on a machine without a GPU.
        config = config.model_copy(update={"trainer_host": "embedded"})
        state = asyncio.run(
            train(config, folder=folder, view=TrainingLines(), settings=Settings.load())
        )
        assert state.status == "finished"
        rows = read_records(RunFiles(folder).metrics)[1:]
        # The first step waits for its games in any case.
        rates.append(60 * (len(rows) - 1) / sum(row.seconds or 0.0 for row in rows[1:]))
        gain = state.final["newest"].win_rate_delta
        print(
            f"{ahead} steps ahead: {rates[-1]:.2f} steps/minute ({rates[-1] / rates[0]:.2f} times),"
            f" held-out win share {gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}],"
            f" kl {sum(row.update['kl'] for row in rows) / len(rows):.4f}"
        )
