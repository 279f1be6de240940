"""How well a checkpoint plays on deals that were never trained on, beside the starting policy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arena.agents.seating import seat_agents
from arena.core.errors import ArenaError
from arena.core.spec import shown
from arena.episodes.files import write_whole
from arena.episodes.record import Episode, ReplayWriter
from arena.episodes.runner import play
from arena.evaluation.evaluator import in_order
from arena.evaluation.records import Estimate, Slot
from arena.evaluation.schedule import evaluation_schedule
from arena.evaluation.statistics.intervals import clustered_mean, rate
from arena.llm.service import LLMService
from trainers.opponents import policy_spec
from trainers.rollouts import Table
from trainers.runs.records import Evaluated, Interval
from trainers.trajectories import demand_room, endings_of

PERIODIC, FINAL = 500_000_000, 600_000_000
"""First seeds of the deals of evaluations; training deals have smaller ones. The last evaluation
has deals of its own, so that choosing the best checkpoint does not flatter it."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A set of deals, and where the starting policy's results are kept."""

    table: Table
    against: Sequence[str]
    games: int
    first_seed: int
    folder: Path

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
                self.table.game.num_players,
                policy_spec(step),
                self.against,
                None,
                self.games,
                self.first_seed,
            )
        )
        games: list[HeldOutGame] = []
        free = asyncio.Semaphore(self.table.concurrency)

        async def one(slot: Slot) -> HeldOutGame:
            folder = self.folder / "replays" / replays
            async with free:
                return await self._game(slot, llm, replays and slot.number < KEPT, folder)

        async with aclosing(in_order(slots, one, 4 * self.table.concurrency)) as playing:
            async for game in playing:
                games.append(game)
                tell(len(games), len(slots))
        _demand_whole(games)
        return [game.won for game in games]

    async def _game(self, slot: Slot, llm: LLMService, kept: object, folder: Path) -> HeldOutGame:
        """One game; what is kept takes the place of what a killed run has left there."""
        table, watchers = self.table, list[ReplayWriter]()
        if kept:
            name = f"game{slot.number:06}"
            for stale in (folder / f"{name}.jsonl", folder / f"{name}.jsonl.part"):
                stale.unlink(missing_ok=True)
            watchers.append(ReplayWriter(folder, name))
        episode = await play(
            table.game,
            seat_agents(table.game, slot.specs, slot.seed, table.text_level, llm, table.chat),
            slot.seed,
            players=[shown(spec) for spec in slot.specs],
            max_turns=table.max_turns,
            watchers=watchers,
            text_level=table.text_level,
            models=table.chat,
        )
        assert slot.seat is not None
        return HeldOutGame.of(episode, slot.seat)


KEPT = 5
"""Games of the last evaluation that are kept as replays, before and after."""


@dataclass(frozen=True, slots=True)
class HeldOutGame:
    """What an evaluation needs to know of one of its games."""

    won: bool
    unanswered: bool
    """Whether some seat had to move without its provider's answer."""
    replies: int
    """Decisions of the seat under test for which a model was asked."""
    overflowed: int
    """Of these, those whose chat was too long for the model."""

    @classmethod
    def of(cls, episode: Episode, seat: int) -> HeldOutGame:
        seats = range(len(episode.header.players))
        own = list(endings_of(episode, seat))
        return cls(
            episode.outcome.winner == seat,
            any(ending.unanswered for each in seats for ending in endings_of(episode, each)),
            len(own),
            sum(ending.overflowed for ending in own),
        )


def _demand_whole(games: Sequence[HeldOutGame]) -> None:
    """Raises ArenaError where the model was not answered too often for the numbers to be of use.

    A chat that had to be shortened was answered in the end, and one that is too long is the
    model's own fault: that counts as bad play.
    """
    demand_room(sum(game.replies for game in games), sum(game.overflowed for game in games))
    failed = sum(game.unanswered for game in games)
    if failed * 20 > len(games):
        raise ArenaError(
            f"in {failed} of {len(games)} held-out games a player had to move without its "
            "provider's answer: is the server still there?"
        )


def as_interval(estimate: Estimate) -> Interval:
    return Interval.model_validate(estimate.to_json())
