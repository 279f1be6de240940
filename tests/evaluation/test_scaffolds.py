"""`arena eval --scaffolds`: one model with several scaffolds, on the same deals."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from arena.agents.chat import ChatOptions
from arena.cli import run
from arena.core.errors import UsageError
from arena.episodes.executors import make_executor
from arena.episodes.match import Match
from arena.evaluation.aggregation import stored_report
from arena.evaluation.records import RESULTS, GameResult, SeatResult, Slot
from arena.evaluation.report import Report
from arena.evaluation.scaffolds import ScaffoldAggregator, scaffolded
from arena.evaluation.schedule import ExperimentSetup, evaluation_schedule, play_slot
from arena.evaluation.store import Results
from arena.evaluation.verdict import grids, sentences
from arena.llm.backend import Request
from arena.llm.service import LLMService
from arena.plugins.loader import make_game
from backends.scripted import ScriptedBackend
from replays.html_report.page import render

GAME = make_game("cluedo", players=3)
PLAYERS = ["m+none", "m+notes", "m+tools"]


# A reader in the loop: it deduces nothing and remembers nothing, and reads only its last messages.


def reader(request: Request) -> str:
    """Play by what the prompt states: accuse what is certain, ask for what is listed as best."""
    asked = [message.content for message in request.messages[1:] if message.role == "user"]
    lines = "\n".join(asked).splitlines()
    place = next(
        n
        for n, line in reversed([*enumerate(lines)])
        if "Your action:" in line or "Show one" in line
    )
    question, answers = lines[place], "\n".join(lines[place + 1 :])
    if "Show one of your cards: " in question:
        return f"Action: {question.rpartition(': ')[2].split(' | ')[0].rstrip('.')}"
    has_tools = "Call: posterior" in request.messages[0].content
    certain = re.findall(r"- (.+): Envelope 100 %", answers)
    if len(certain) == 3:
        return f"Action: accuse {', '.join(certain)}"
    if has_tools and "What you cannot know yet" not in answers:
        return "Call: posterior"
    if "suggest SUSPECT" not in question:
        return "Action: end turn"
    if has_tools and "expected" not in answers:
        return "Call: consequences"
    best = re.search(r"- (suggest .+): .+ expected", answers)
    return f"Action: {best[1] if best else 'suggest Mrs White, Rope, Hall'}"


def report_of(scaffolds: str, deals: int) -> Report:
    """Play the scripted model with these scaffolds against bots that draw."""
    players = scaffolded("scripted", scaffolds)
    setup = ExperimentSetup(Match(GAME, chat=ChatOptions(), max_turns=30))
    seats = GAME.num_players
    slots = evaluation_schedule(seats, players[0], ["bot:random"], players[1:], deals, 5)

    async def play_all() -> list[GameResult]:
        async with LLMService(notify=lambda line: None) as llm:
            llm.add("scripted", ScriptedBackend(reader))
            async with make_executor("local", llm=llm) as executor:
                return [await play_slot(setup, slot, executor) for slot in slots]

    aggregator = ScaffoldAggregator(GAME, players, ["bot:random"])
    for result in asyncio.run(play_all()):
        aggregator.add(result)
    return aggregator.report()


def test_the_comparison_shows_what_a_model_lacks_that_deduces_nothing() -> None:
    report = report_of("none,notes,tools", 8)
    none, notes, tools = report.players
    assert none.wins == notes.wins == 0 and tools.wins and tools.wins >= 6
    assert tools.measures["tool_calls"].value and "tool_calls" not in none.measures
    assert tools.measures["legal_rate"].value == 1.0
    assert report.comparison and report.comparison.scaffolds == ("tools", "none")
    assert report.difference.excludes_zero
    memory, deduction = (note for note in report.notes if " − " in note)
    assert memory.startswith("Memory: notes − none is 0 points") and "do not show" in memory
    assert deduction.startswith("Deduction: tools − notes is +")
    assert deduction.endswith("the model does not deduce by itself all that follows from what it "
                              "has seen.")  # fmt: skip
    table = next(grid for grid in grids(report) if grid.title.startswith("Differences between"))
    assert table.headings == ["measure", "notes − none", "tools − notes", "tools − none"]
    assert table.rows[1][3] == "primary" and float(table.rows[1][2]) < 0.05
    assert "Primary result" in next(iter(sentences(report)))
    assert "Deduction: tools − notes" in render(report)
    assert Report.model_validate(report.to_json()) == report


def result_of(number: int, deal: int, spec: str, won: bool) -> GameResult:
    slot = Slot(number, deal, (spec, "b", "c"), "player" if not number % 3 else "baseline", 0)
    seats = [SeatResult(each, float(won and not n), won and not n)
             for n, each in enumerate(slot.specs)]  # fmt: skip
    return GameResult(slot, "terminated", "over", 9, 20, 0.1, tuple(seats))


def test_only_deals_that_were_played_with_each_scaffold_count() -> None:
    aggregator = ScaffoldAggregator(GAME, PLAYERS)
    for number in range(8):
        aggregator.add(result_of(number, number // 3, PLAYERS[number % 3], number % 3 == 2))
    assert aggregator.games == 6
    report = aggregator.report()
    assert [player.games for player in report.players] == [2, 2, 2]
    assert [pair.scaffolds for pair in report.comparisons] == [
        ("notes", "none"), ("tools", "notes"), ("tools", "none")
    ]  # fmt: skip
    assert aggregator.status() == "won with none 0 %, notes 0 %, tools 100 %"


def test_a_help_that_makes_play_worse_is_called_so() -> None:
    aggregator = ScaffoldAggregator(GAME, PLAYERS)
    for number in range(90):
        aggregator.add(result_of(number, number // 3, PLAYERS[number % 3], number % 3 < 2))
    notes = aggregator.report().notes
    assert any(n.startswith("Deduction") and n.endswith("makes its play worse.") for n in notes)


def test_the_games_of_a_deal_differ_in_the_scaffold_only() -> None:
    slots = list(evaluation_schedule(3, "a", ["x", "y", "z"], ["b", "c", "d"], 20, 1))
    assert [slot.number for slot in slots] == list(range(80))
    for deal in range(20):
        games = slots[4 * deal : 4 * deal + 4]
        assert Counter(slot.role for slot in games) == {"player": 1, "baseline": 3}
        assert len({(slot.seed, slot.seat) for slot in games}) == 1
        others = {tuple(s for n, s in enumerate(slot.specs) if n != slot.seat) for slot in games}
        assert len(others) == 1
    pairs = list(evaluation_schedule(3, "a", ["x", "y", "z"], "b", 20, 1))
    assert [slot.specs for slot in pairs[::2]] == [slot.specs for slot in slots[::4]]


def run_cli(*words: str) -> int:
    return run(["eval", "cluedo", "--players", "3", "--max-turns", "6", *words])


def test_the_command_compares_verifies_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(json.dumps("Action: end turn") for _ in range(400)))
    out = tmp_path / "run"
    words = ["--player", f"scripted:{script}", "--scaffolds", "none, tools", "--seed", "1",
             "--out", str(out), "--json"]  # fmt: skip
    assert run_cli(*words, "--games", "2") == 0
    report = Report.model_validate_json(capsys.readouterr().out)
    assert [player.player for player in report.players] == [
        f"scripted:{script}+none",
        f"scripted:{script}+tools",
    ]
    assert report.settings["scaffolds"] == [player.player for player in report.players]
    assert run(["replay", str(out / "replays" / "game000001.jsonl"), "--verify"]) == 0
    capsys.readouterr()
    assert run_cli(*words, "--games", "3", "--resume") == 0
    report = Report.model_validate_json(capsys.readouterr().out)
    assert [player.games for player in report.players] == [3, 3]
    with Results.read(out / RESULTS) as results:
        stored = stored_report(results)
    assert stored.comparisons == report.comparisons and stored.players == report.players


def test_a_dry_run_names_the_calls_that_it_does_not_count(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--player", "openai:gpt-4o-mini", "--scaffolds", "none,tools", "--dry-run"]
    assert run_cli(*words, "--games", "1") == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "up to 3 calls of tools before each decision of openai:gpt-4o-mini+tools" in output
    assert output.count("openai needs a key") <= 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--scaffolds", "none,toools"], "'toools' is no scaffold; choose from: none, notes"),
        (["--scaffolds", "none"], "name two or more different ones"),
        (["--scaffolds", "none,none"], "name two or more different ones"),
        (["--scaffolds", ""], "'' is no scaffold"),
        (["--scaffolds", "none,notes", "--baseline", "bot:novice"], "leave out --baseline"),
        (["--scaffolds", "none,notes", "--until-ci", "0.1"], "leave out --until-ci"),
    ],
)
def test_bad_input_is_one_line(
    words: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli("--player", "embedded:clue-tiny", *words) != 0
    output = capsys.readouterr()
    assert message in output.err and output.err.count("\n") == 1 and not output.out


def test_bots_and_models_with_a_scaffold_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli("--player", "bot:oracle", "--scaffolds", "none,notes") != 0
    assert "bot:oracle is no model" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"leave out \+tools"):
        scaffolded("m+tools", "none,notes")
