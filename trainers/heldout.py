"""How well a checkpoint plays on deals that were never trained on, beside the starting policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from arena.errors import ArenaError
from arena.evaluation.design import evaluation_schedule
from arena.evaluation.intervals import clustered_mean, rate
from arena.evaluation.records import Estimate, GameResult, Slot
from arena.evaluation.running import Setting, Workers, play_slot, run_schedule
from arena.files import write_whole
from arena.service import LLMService
from arena.training.records import Evaluated, Interval
from trainers.opponents import policy_spec

PERIODIC, FINAL = 500_000_000, 600_000_000
"""First seeds of the deals of evaluations; training deals have smaller ones. The last evaluation
has deals of its own, so that choosing the best checkpoint does not flatter it."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A set of deals, and where the starting policy's results are kept."""

    setting: Setting
    against: Sequence[str]
    games: int
    first_seed: int
    folder: Path
    concurrency: int

    async def evaluate(
        self,
        step: int,
        llm: LLMService,
        tell: Callable[[int, int], None] = lambda done, total: None,
        replays: str = "",
    ) -> Evaluated:
        """Play the deals with the checkpoint of this step; the interval of the gain is paired.

        The starting policy plays them once and is remembered. With `replays`, some games are kept
        in that folder of the run.
        """
        start = await self._starting(llm, tell)
        won = start if step == 0 else await self._play(step, llm, tell, replays)
        deals = np.arange(self.games)
        gain = clustered_mean(
            np.array(won, float) - np.array(start, float), deals, bounds=(-1.0, 1.0)
        )
        return Evaluated(
            games=self.games,
            win_rate=as_interval(rate(sum(won), self.games)),
            start=as_interval(rate(sum(start), self.games)),
            gain=as_interval(gain),
        )

    async def _starting(self, llm: LLMService, tell: Callable[[int, int], None]) -> list[bool]:
        """What the starting policy won, from the file if it has played before."""
        path = self.folder / f"start-{self.first_seed}-{self.games}.json"
        try:
            kept = json.loads(path.read_text("utf-8"))
            if isinstance(kept, list) and len(kept) == self.games:
                return [bool(won) for won in kept]
        except (FileNotFoundError, ValueError):
            pass
        won = await self._play(0, llm, tell, "before" if self.first_seed == FINAL else "")
        write_whole(path, json.dumps(won) + "\n")
        return won

    async def _play(
        self, step: int, llm: LLMService, tell: Callable[[int, int], None], replays: str
    ) -> list[bool]:
        slots = list(
            evaluation_schedule(
                self.setting.game.num_players,
                policy_spec(step),
                self.against,
                None,
                self.games,
                self.first_seed,
            )
        )
        results: list[GameResult] = []
        plain = replace(self.setting, replays=None)
        kept = replace(self.setting, replays=self.folder / "replays" / replays)

        async def one(slot: Slot) -> GameResult:
            wanted = replays and slot.number < KEPT
            return await play_slot(kept if wanted else plain, slot, workers, llm)

        with Workers(1) as workers:
            playing = run_schedule(slots, one, lambda result: None, self.concurrency)
            async with aclosing(playing):
                async for result in playing:
                    results.append(result)
                    tell(len(results), len(slots))
        _demand_whole(results)
        return [_won(result) for result in results]


KEPT = 5
"""Games of the last evaluation that are kept as replays, before and after."""


def _won(result: GameResult) -> bool:
    assert result.slot.seat is not None
    return result.seats[result.slot.seat].won


def _demand_whole(results: Sequence[GameResult]) -> None:
    """Raises ArenaError where the model was not answered too often for the numbers to be of use."""
    failed = sum("failure:provider_error" in seat.shares for r in results for seat in r.seats)
    if failed * 20 > len(results):
        raise ArenaError(
            f"{failed} of {len(results)} held-out games had calls without an answer: is the "
            "server still there?"
        )


def as_interval(estimate: Estimate) -> Interval:
    return Interval.model_validate(estimate.to_json())
