"""`arena train --dry-run`: what would be done, with which settings, and where each is from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from arena.evaluation.output.tables import Grid
from arena.plugins.loader import catalog, make_game
from trainers.checks import check
from trainers.hosts.host import HostRequest
from trainers.rewards import Rewards, TermLine
from trainers.runs.run_files import put_aside

if TYPE_CHECKING:
    from arena.core.game import State
    from arena.core.json import Json
    from arena.core.outcome import Outcome
    from arena.core.ply import Ply
    from arena.episodes.record import Header
    from arena.llm.settings import Settings
    from trainers.config.config import TrainConfig
    from trainers.config.presets import Resolved
    from trainers.hosts.choosing import HostChoice
    from trainers.runs.run_files import Plan

CHARACTERS_PER_TOKEN = 4
"""Of English in the tokenizers of large models; roughly right for the small ones too."""


def tell_plan(
    resolved: Resolved, plan: Plan, host: HostChoice, settings: Settings, as_json: bool
) -> None:
    """Print what the command would do. Raises UsageError for what it could not do."""
    config = resolved.config
    terms, work = reward_terms(config), estimate(config)
    if as_json:
        print(json.dumps(_as_json(resolved, plan, host, terms, work)))
    else:
        console = Console()
        for grid in (_settings(resolved), _rewards(terms)):
            console.print(grid.title, style="bold", markup=False, highlight=False)
            console.print(grid.rich(console.width))
        print(f"Experiment: {plan}")
        print(f"Host: {host.name}. {host.why}")
        print(f"Work: {work}")
    check(config, settings, plan.done)
    # What is there already says nothing of a run that begins anew.
    fresh = plan.start == "fresh"
    folder = put_aside(plan.files.folder) if fresh else plan.files.folder
    made = catalog().load("host", config.host)(HostRequest(config, folder, settings))
    made.preflight()
    if config.host != "embedded":  # Which can do all that a config may say.
        made.arguments()


def _as_json(
    resolved: Resolved,
    plan: Plan,
    host: HostChoice,
    terms: Sequence[TermLine],
    work: Work,
) -> dict[str, Json]:
    values = json.loads(resolved.config.model_dump_json())
    return {
        "experiment": resolved.config.experiment,
        "folder": str(plan.files.folder),
        "start": plan.start,
        "step": plan.done,
        "config_hash": resolved.config.config_hash,
        "config": values,
        "origins": dict(resolved.origins),
        "host": {"name": host.name, "why": host.why},
        "reward": {
            term.name: {"weight": term.weight, "computed": term.computed, "about": term.about}
            for term in terms
        },
        "work": asdict(work),
    }


def _settings(resolved: Resolved) -> Grid:
    rows = []
    for name, value in resolved.config.model_dump().items():
        if name != "options":
            rows.append((name, _shown(value), resolved.origins[name]))
            continue
        for option, own in value.items():
            origin = resolved.origins[f"options.{option}"]
            rows.append((f"options.{option}", _shown(own), origin))
    return Grid(f"Settings ({resolved.config.config_hash})", ("setting", "value", "from"), rows)


def _shown(value: Json) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "–" if value in {None, ""} else str(value)


def reward_terms(config: TrainConfig) -> list[TermLine]:
    """Those that are asked for, then the others that the game has. Raises UsageError."""
    game = make_game(config.game, **config.options)
    return Rewards.parse(config.reward, game, config.reward_fn).describe()


def _rewards(terms: Sequence[TermLine]) -> Grid:
    rows = [(term.name, _weight(term), term.about) for term in terms]
    return Grid("Reward", ("term", "weight", "what it is"), rows)


def _weight(term: TermLine) -> str:
    if term.weight:
        return f"{term.weight:g}"
    return "logged" if term.computed else "–"


@dataclass(frozen=True, slots=True)
class Work:
    """How much there is to do. Tokens are guessed from two games of the game's bots."""

    steps: int
    games: int
    evaluation_games: int
    decisions: int
    """Of the learner, in training."""
    read_tokens: int
    """In training: each text once, as a chat that grows by what is new reads it."""
    sampled_tokens: int

    def __str__(self) -> str:
        return (
            f"{self.steps} steps, {self.games:,} games to learn from and at most "
            f"{self.evaluation_games:,} to measure; if games go on as between bots, about "
            f"{_about(self.decisions)} decisions, {_about(self.read_tokens)} tokens read and "
            f"{_about(self.sampled_tokens)} written in training"
        )


def _about(count: int) -> str:
    """Two digits of it; more would be a promise."""
    return f"{round(count, 2 - len(str(count))):,}"


def estimate(config: TrainConfig) -> Work:
    """What the whole run takes, with the steps that are finished."""
    steps = config.total_steps
    games = steps * config.groups_per_step * config.rollouts_per_group
    times = 1 + steps // config.eval_every if config.eval_every else 0
    measured = times * config.eval_games + 3 * config.final_eval_games
    samples = [asyncio.run(_sample(config, seed)) for seed in range(2)]
    learners = make_game(config.game, **config.options).num_players if config.seats == "all" else 1
    seats = games * learners

    def per_seat(values: Iterator[int]) -> int:
        return round(seats * sum(values) / len(samples))

    return Work(
        steps,
        games,
        measured,
        per_seat(sample.decisions for sample in samples),
        per_seat(_tokens(sample.text) for sample in samples),
        per_seat(sample.written for sample in samples),
    )


def _tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)


async def _sample(config: TrainConfig, seed: int) -> _Sample:
    """One game of the usual opponents, as seat 0 would read it."""
    from arena.agents.seating import default_opponent, seat_agents
    from arena.episodes.runner import play

    game = make_game(config.game, **config.options)
    specs = [default_opponent(game.name)] * game.num_players
    sample = _Sample(config)
    limit = config.max_turns or None
    await play(game, seat_agents(game, specs, seed), seed, max_turns=limit, watchers=[sample])
    return sample


class _Sample:
    """What seat 0 of a game reads and writes; a `Watcher`."""

    def __init__(self, config: TrainConfig) -> None:
        self._level = config.text_level
        self._state: State | None = None
        self.decisions = 0
        self.written = 0
        self.text = ""

    def begin(self, header: Header, state: State) -> None:
        self._state = state

    def ply(self, ply: Ply, state: State) -> None:
        if ply.player == 0:
            self.decisions += 1
            self.written += _tokens(str(ply.decision.action))

    def end(self, outcome: Outcome) -> None:
        assert self._state is not None, "a game begins before it ends"
        self.text = self._state.observe(0).text(self._level)

    def close(self) -> None: ...
