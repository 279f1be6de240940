"""Held-out results: wins, and the returns of games that pay something else than wins."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from arena.agents.chat import ChatOptions
from arena.episodes.match import Match
from arena.llm.service import LLMService
from arena.plugins.catalog import make_game
from backends.scripted import ScriptedBackend
from trainers.loop.checkpoints import SEAT_ENDS, HeldOutEvaluation
from trainers.rollouts.rollouts import PERIODIC, RolloutSetting, policy_spec
from trainers.runs.records import HeldOutResult
from trainers.runs.sentences import delta_line, verdict
from trainers.runs.training_run import CheckpointEvaluation

KUHN = make_game("kuhn_poker")
DEALS = 40


def evaluated(folder: Path) -> HeldOutResult:
    """Step 0 always passes, step 1 always bets."""

    async def play() -> HeldOutResult:
        async with LLMService() as llm:
            llm.add(policy_spec(0), ScriptedBackend(lambda _: "pass"))
            llm.add(policy_spec(1), ScriptedBackend(lambda _: "bet"))
            setting = RolloutSetting(Match(KUHN, chat=ChatOptions()))
            deals = HeldOutEvaluation(setting, ["bot:random"], DEALS, PERIODIC, folder)
            return await deals.evaluate(1, llm)

    return asyncio.run(play())


def test_the_delta_of_kuhn_poker_is_in_chips(tmp_path: Path) -> None:
    result = evaluated(tmp_path)
    stored = (tmp_path / f"start-{PERIODIC}-{DEALS}.json").read_bytes()
    start = SEAT_ENDS.validate_json(stored)
    assert result.scale == KUHN.return_scale
    mean = np.mean([end.returns for end in start])
    assert result.start_result.value == pytest.approx(mean, abs=1e-6)
    assert result.start.value == np.mean([end.won for end in start])
    assert result.delta == result.return_delta != result.win_rate_delta
    assert result.delta.value is not None and result.delta.low is not None
    assert result.mean_return.value is not None and result.start_return.value is not None
    difference = result.mean_return.value - result.start_return.value
    assert result.delta.value == pytest.approx(difference, abs=1e-5)
    assert f" chips [{result.delta.low:+.2f}".replace("-", "−") in delta_line(result)
    told = verdict(CheckpointEvaluation(**dict(result), step=1, checkpoint="step 1"))
    assert told.startswith("The mean return on held-out deals ") and " chips (step 1)" in told
    again = HeldOutResult.model_validate_json(result.model_dump_json())
    assert again == result, "it is read as it was written"


def test_the_results_of_the_start_are_stored_once(tmp_path: Path) -> None:
    first = evaluated(tmp_path)
    path = tmp_path / f"start-{PERIODIC}-{DEALS}.json"
    changed = [[False, -2.0]] * DEALS
    path.write_text(json.dumps(changed))
    assert evaluated(tmp_path).start_return.value == -2.0
    # What is not a result for each deal is not used: the start is played again.
    for useless in ([True] * DEALS, changed[1:], [[False, None]] * DEALS, 5):
        path.write_text(json.dumps(useless))
        assert evaluated(tmp_path) == first
