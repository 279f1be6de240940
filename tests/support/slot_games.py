"""Games of a schedule, played one by one in this process."""

from __future__ import annotations

import asyncio

from arena.episodes.job import play_job
from arena.evaluation.records import GameResult, Slot
from arena.evaluation.schedule import ExperimentSetup, result_of


def play_by_bots(setup: ExperimentSetup, slot: Slot) -> GameResult:
    """Play and measure one game without models."""
    return result_of(asyncio.run(play_job(setup.job(slot), None)))
