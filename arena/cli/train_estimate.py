"""`arena train --dry-run`: the settings with their origins, the reward and the workload."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from arena.agents.seating import default_opponent
from arena.cli.terminal import echo, print_grids
from arena.core.text import size_text
from arena.episodes.match import Match, play
from arena.evaluation.formatting import Grid
from arena.llm.tokens import tokens_of
from arena.plugins.loader import catalog, make_game
from trainers.config.config import NOTEBOOK, TrainConfig
from trainers.hosts.embedded import EmbeddedHost
from trainers.hosts.footprint import Footprint
from trainers.hosts.host import HostRequest
from trainers.loop.setup import check_config, credited_rewards
from trainers.pretrain.recipe import make_recipe
from trainers.rewards import TermSummary
from trainers.runs.records import as_json
from trainers.runs.run_files import Plan, free_name
from trainers.runs.tables import flat_settings

if TYPE_CHECKING:
    from pydantic import JsonValue

    from arena.llm.settings import Settings
    from trainers.config.presets import ResolvedConfig
    from trainers.hosts.selection import HostChoice

SAMPLE_GAMES = 2
"""Games of bots that are played for the estimate."""


def print_plan(
    resolved: ResolvedConfig, plan: Plan, host: HostChoice, settings: Settings, json_wanted: bool
) -> None:
    """Print what the command would do.

    Raises UsageError if a run with this config is not possible.
    """
    config = resolved.config
    game = make_game(config.game, **config.options)
    terms: list[TermSummary] = []
    if not config.exact:
        credit, rewards = credited_rewards(config, game)
        terms = [*rewards.describe(), *credit.describe(game)]
    workload = estimate(config)
    # A fresh run gets an empty folder, so the files of the old run do not matter.
    fresh = plan.start == "fresh"
    folder = free_name(plan.files.folder) if fresh else plan.files.folder
    trainer = catalog().load("host", config.trainer_host)(HostRequest(config, folder, settings))
    needed = trainer.footprint() if isinstance(trainer, EmbeddedHost) else None
    if json_wanted:
        needs = {"footprint": None if needed is None else asdict(needed)}
        print(json.dumps(_as_json(resolved, plan, host, terms, workload) | needs))
    else:
        grids = [_settings(resolved)]
        grids += [_rewards(terms)] if terms else []
        print_grids(grids + ([_needs(needed)] if needed else []))
        echo(f"Experiment: {plan}")
        echo(f"Host: {host.name}. {host.reason}")
        echo(f"Work: {workload}")
    check_config(config, settings, plan.done)
    trainer.preflight()


def _as_json(
    resolved: ResolvedConfig,
    plan: Plan,
    host: HostChoice,
    terms: Sequence[TermSummary],
    workload: Workload,
) -> dict[str, JsonValue]:
    return {
        "experiment": resolved.config.experiment,
        "folder": str(plan.files.folder),
        "start": plan.start,
        "step": plan.done,
        "config_hash": resolved.config.config_hash,
        "config": as_json(resolved.config),
        "origins": dict(resolved.origins),
        "host": {"name": host.name, "why": host.reason},
        "reward": {
            term.name: {"weight": term.weight, "computed": term.computed, "about": term.about}
            for term in terms
        },
        "work": asdict(workload),
    }


def _settings(resolved: ResolvedConfig) -> Grid:
    rows = [
        (name, _text(value), resolved.origins[name])
        for name, value in flat_settings(resolved.config).items()
    ]
    return Grid(f"Settings ({resolved.config.config_hash})", ("setting", "value", "from"), rows)


def _text(value: JsonValue) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "–" if value is None or value == "" else str(value)


def _needs(needed: Footprint) -> Grid:
    parts = [
        ("memory", needed.memory, needed.memory_bytes),
        ("disk", needed.disk, needed.disk_bytes),
    ]
    rows = [
        (place, name, size_text(size))
        for place, sizes, total in parts
        for name, size in [*sizes.items(), ("together", total)]
    ]
    rows.append(("disk", "each further checkpoint", size_text(needed.step)))
    return Grid("Memory and disk, at most", ("place", "what for", "size"), rows)


def _rewards(terms: Sequence[TermSummary]) -> Grid:
    rows = []
    for term in terms:
        unweighted = "logged" if term.computed else "–"
        rows.append((term.name, f"{term.weight:g}" if term.weight else unweighted, term.about))
    return Grid("Reward", ("term", "weight", "description"), rows)


@dataclass(frozen=True, slots=True)
class Workload:
    """Size of a run. Decisions and tokens are estimated from a few games of the default bots."""

    steps: int
    games: int
    evaluation_games: int
    decisions: int
    """Decisions of the learner in training."""
    read_tokens: int
    """In training. Each text counts once, since a growing chat is read incrementally."""
    sampled_tokens: int
    imitated_games: int = 0
    """Games of bots that a new model with a notebook learns from first."""

    def __str__(self) -> str:
        first = ""
        if self.imitated_games:
            first = f"a new model learns from {self.imitated_games:,} games of bots; then "
        if not self.games and not self.evaluation_games:
            return f"{first}{self.steps} steps, without games"
        return (
            f"{first}{self.steps} steps, {self.games:,} training games and at most "
            f"{self.evaluation_games:,} evaluation games; if games are as long as those of bots, "
            f"about {_rounded(self.decisions)} decisions, {_rounded(self.read_tokens)} tokens read "
            f"and {_rounded(self.sampled_tokens)} sampled in training"
        )


def _rounded(count: int) -> str:
    """Return two significant digits; the estimate is not better."""
    return f"{round(count, 2 - len(str(count))):,}"


def estimate(config: TrainConfig) -> Workload:
    """Estimate the work of the whole run, finished steps included."""
    steps = config.total_steps
    imitated = 0
    if config.base_model == NOTEBOOK:
        recipe = make_recipe(config.game, options=config.options, notebook=True)
        imitated = sum(part.games for part in recipe.parts)
    if config.exact:
        return Workload(steps, 0, 0, 0, 0, 0, imitated)
    games = steps * config.groups_per_step * config.rollouts_per_group
    evaluations = sum(config.is_evaluated(step) for step in range(steps + 1))
    # The final deals are played by the starting policy, the newest and the best checkpoint, and by
    # the averaged weights.
    players = 3 + config.averages_weights
    evaluation_games = evaluations * config.eval_games + players * config.final_eval_games
    samples = [asyncio.run(_play_sample(config, seed)) for seed in range(SAMPLE_GAMES)]
    learners = make_game(config.game, **config.options).num_players if config.self_play else 1
    # All games of all learners, each as long as the mean of the samples.
    decisions, read, sampled = (
        round(games * learners * sum(figures) / len(samples))
        for figures in zip(*samples, strict=True)
    )
    return Workload(steps, games, evaluation_games, decisions, read, sampled, imitated)


async def _play_sample(config: TrainConfig, seed: int) -> tuple[int, int, int]:
    """Play one game of the default opponents.

    Returns the decisions of seat 0, the tokens of its text at the end, and those of its actions.
    """
    game = make_game(config.game, **config.options)
    specs = [default_opponent(game)] * game.num_players
    episode = await play(Match(game, specs, seed, max_turns=config.max_turns or None))
    state = game.initial_state()
    for ply in episode.plies:
        state.apply(ply.player, ply.decision.action)
    actions = [str(ply.decision.action) for ply in episode.plies if ply.player == 0]
    text = state.observe(0).text(config.text_level)
    return len(actions), tokens_of(len(text)), sum(tokens_of(len(each)) for each in actions)
