"""The checkpoints that ship with arena: small, playing by the rules, and repeatable."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from command_line import ONE_WORKER
from preloaded import arena_command

from arena.core.observation import TextLevel
from arena.episodes.job import make_executor
from arena.episodes.match import Match
from arena.evaluation.aggregation import EvaluationAggregator
from arena.evaluation.report import ReplyCounts
from arena.evaluation.schedule import ExperimentSetup, evaluation_schedule, play_slot, run_schedule
from arena.llm.service import LLMService
from arena.plugins.catalog import make_game
from backends.embedded import CHECKPOINTS
from trainers.pretrain.recipe import make_recipe

FOLDER = CHECKPOINTS / "clue-tiny"


def test_it_is_small_and_of_the_recipe_before_this_one() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 8_000_000
    figures = json.loads((FOLDER / "pretraining.json").read_text(encoding="utf-8"))
    used, now = figures["recipe"], json.loads(json.dumps(asdict(make_recipe("cluedo"))))
    (used_stage,), (stage,) = used.pop("stages"), now.pop("stages")
    # Since then its chats are shortened as in play, instead of rebuilt at a random decision.
    assert used.keys() - now.keys() == {"rebuilt", "muon_rate"}
    assert (used_stage.pop("longest_chat"), stage.pop("longest_chat")) == (0, 34_500)
    assert used.items() <= {**now, "rebuilt": 0.25, "muon_rate": 0.003}.items()
    assert used_stage.items() <= stage.items()


def test_it_plays_by_the_rules_without_a_grammar() -> None:
    tables: list[tuple[TextLevel, int]] = [
        ("deductions", 3), ("notes", 4), ("events", 6), ("deductions", 5)
    ]  # fmt: skip
    found = [asyncio.run(replies_of(level, players, 3)) for level, players in tables]
    attempts = sum(replies.attempts for replies in found)
    legal = sum(replies.legal for replies in found)
    assert attempts > 180
    assert legal / attempts >= 0.98, "on 400 games 99.6 % of the replies were legal"


async def replies_of(level: TextLevel, players: int, games: int) -> ReplyCounts:
    """Count its replies on held-out deals against novices."""
    game, spec = make_game("cluedo", players=players), "embedded:clue-tiny"
    slots = evaluation_schedule(
        players, spec, ["bot:novice"], None, games, 500_000_000, "consecutive"
    )
    setting = ExperimentSetup(Match(game, text_level=level), scored=frozenset())
    evaluation = EvaluationAggregator(game, [spec])
    async with LLMService() as llm, make_executor("local", llm=llm) as executor:
        playing = run_schedule(
            list(slots), lambda slot: play_slot(setting, slot, executor), lambda _: None, games
        )
        async for result in playing:
            evaluation.add(result)
    return evaluation.report().players[0].replies


def arena(arguments: str, folder: Path) -> Any:
    """Run the command line in `folder` without a key, a home or a network beyond loopback."""
    done = subprocess.run(
        [*arena_command(), *arguments.split()],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "HF_HUB_OFFLINE": "1", **ONE_WORKER},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def moves_of(path: Path) -> list[str]:
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [line["action"] for line in lines if line["type"] in ("decision", "chance")]


def test_the_same_seed_gives_the_same_game_whatever_else_is_played(tmp_path: Path) -> None:
    command = "play cluedo --seat 0=embedded:clue-tiny --no-watch --json --seed"
    alone = arena(f"{command} 5 --out alone", tmp_path)
    many = arena(f"{command} 4 --games 3 --out many", tmp_path)
    among = next(game for game in many["games"] if game["seed"] == 5)
    assert moves_of(tmp_path / alone["replay"]) == moves_of(tmp_path / among["replay"])
    total = many["ledger"]["total"]
    assert total["calls"] == total["answered"] > 20 and total["cost"] == 0
    assert total["cached_tokens"] > total["prompt_tokens"] / 2, "a chat's beginning is kept"


def test_the_notebook_model_deduces_from_raw_events(tmp_path: Path) -> None:
    result = arena(
        "eval cluedo --players 4 --player embedded:clue-notebook --text-level events --games 2 "
        "--seed 500000000 --max-tokens 400 --temperature 0 --set beliefs=true --json",
        tmp_path,
    )
    measures = result["players"][0]["measures"]
    shown, known, precision = (
        measures[name]["value"]
        for name in ("recall_one_of_three", "recall_shown", "deduced_precision")
    )
    # Of 200 games: 0.61, 0.97 and 0.86. Who never deduces has 0, 1 and 1.
    assert shown > 0.4 and known > 0.9 and precision > 0.7
