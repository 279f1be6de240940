"""Checkpoints of a run: as players, in held-out evaluations, and which of them are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from arena.llm.service import LLMService
from trainers.checks import evaluation_opponents
from trainers.config.config import TrainConfig
from trainers.heldout_eval import HeldOutEvaluation
from trainers.hosts.host import TrainingHost
from trainers.opponents import policy_spec
from trainers.rollouts.rollouts import RolloutSetting
from trainers.runs.records import HeldOutResult
from trainers.runs.run_log import RunLog, TrainingView, evenly, kept_steps
from trainers.seeds import FINAL, PERIODIC


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of a run after its last finished step."""

    config: TrainConfig
    setting: RolloutSetting
    host: TrainingHost
    llm: LLMService
    log: RunLog
    view: TrainingView
    _served: set[int] = field(default_factory=set)
    """Steps whose checkpoints are registered as backends."""

    def serve(self, step: int) -> None:
        """Register the checkpoint of a step and the starting policy as backends."""
        # Step 0 too: each held-out evaluation compares with it.
        for one in {step, 0} - self._served:
            self.llm.add(policy_spec(one), self.host.policy(one))
            self._served.add(one)

    def pool(self, newest: int) -> list[int]:
        """Return the steps up to `newest` that the opponent `past` is drawn from, 0 among them."""
        return sorted({0, *evenly(range(newest + 1), self.config.keep_pool)})

    def kept(self) -> set[int]:
        """Return the steps whose checkpoints are still needed."""
        # Including step 0, the starting policy.
        steps = range(self.log.state.step + 1)
        # The KL reference of the next update must still exist then.
        reference = self.config.reference_step(self.log.state.step)
        # So must the weights that play until the next transfer to the server, and in steps that
        # are played ahead, with their opponents.
        playing: set[int] = set()
        for step in range(self.log.state.step, self.log.state.step + self.config.async_steps + 1):
            playing |= {self.config.sampling_step(step), *self.pool(self.config.known_step(step))}
        return kept_steps(self.log.state, self.config.keep_pool, steps, reference, *playing)

    def is_best(self, evaluation: HeldOutResult) -> bool:
        """Return whether it is better than the starting policy and all earlier checkpoints."""
        value = evaluation.delta.value
        # The starting policy has the delta 0, which the first checkpoint must exceed. Equal is not
        # better: the earlier checkpoint stays.
        return value is not None and value > (self.log.state.best_value or 0.0)

    async def evaluate(
        self, step: int, about: str = "evaluation", first_seed: int = PERIODIC, replays: str = ""
    ) -> HeldOutResult:
        """Play the held-out deals from `first_seed` (PERIODIC, FINAL) with a step's checkpoint."""
        deals = HeldOutEvaluation(
            self.setting,
            evaluation_opponents(self.config, self.setting.match.game),
            self.config.final_eval_games if first_seed == FINAL else self.config.eval_games,
            first_seed,
            self.log.files.folder,
        )
        self.serve(step)
        return await deals.evaluate(step, self.llm, partial(self.view.phase, about), replays)

    async def evaluate_final(self) -> dict[str, HeldOutResult]:
        """Return the results of the newest and the best checkpoint on the final deals."""
        state, games = self.log.state, self.config.final_eval_games
        # A resumed run keeps results with the same number of games; 0 games keeps all of them.
        final = {name: one for name, one in state.final.items() if games in (0, one.games)}
        # `newest` comes first, so that an equal `best` can take over its result. `best_step` is
        # None if no checkpoint was better than the start.
        for name, step, replays in (
            ("newest", state.step, "after"),
            ("best", state.best_step, "best"),
        ):
            if not games or not step or name in final:
                continue
            if name == "best" and step == state.step and "newest" in final:
                final[name] = final["newest"]
            else:
                final[name] = await self.evaluate(step, "last evaluation", FINAL, replays)
        return final
