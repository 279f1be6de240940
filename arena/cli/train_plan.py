"""`arena train --dry-run`: the settings with their origins, and the reward."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from arena.cli.terminal import echo, print_grids
from arena.evaluation.document import Grid
from arena.plugins.catalog import catalog, make_game
from trainers.hosts.host import HostRequest
from trainers.loop.setup import check_config, credited_rewards
from trainers.runs.document import flat_settings
from trainers.runs.records import as_json
from trainers.runs.training_run import Plan

if TYPE_CHECKING:
    from arena.llm.settings import Settings
    from trainers.config.config import TrainConfig


def print_plan(config: TrainConfig, plan: Plan, settings: Settings, json_wanted: bool) -> None:
    """Print what the command would do. Raises UsageError if a run is not possible."""
    game = make_game(config.game, **config.options)
    credit, rewards = credited_rewards(config, game)
    terms = [*rewards.describe(), *credit.describe(game)]
    games = config.steps * config.groups_per_step * config.rollouts_per_group
    if json_wanted:
        print(json.dumps({
            "experiment": config.experiment, "folder": str(plan.files.folder),
            "step": plan.done, "config_hash": config.config_hash, "config": as_json(config),
            "origins": config.origins, "host": config.trainer_host,
            "reward": {term.name: asdict(term) for term in terms},
            "work": {"steps": config.steps, "games": games},
        }))  # fmt: skip
    else:
        values = [
            (name, "–" if value in (None, "") else str(value), config.origins[name])
            for name, value in flat_settings(config).items()
        ]
        weights = [
            (t.name, f"{t.weight:g}" if t.weight else "logged" if t.computed else "–", t.about)
            for t in terms
        ]
        print_grids([Grid("Settings", ("setting", "value", "from"), values)])
        print_grids([Grid("Reward", ("term", "weight", "description"), weights)])
        echo(f"Experiment: {plan}")
        echo(f"Host: {config.trainer_host}")
        echo(f"Work: {config.steps} steps, {games:,} training games")
    check_config(config, settings)
    # Last: the settings are shown even where the host's packages are not installed.
    request = HostRequest(config, plan.files.folder, settings)
    catalog().load("host", config.trainer_host)(request).preflight()
