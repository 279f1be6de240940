"""The report of a training run: complete, harmless whatever its files say, always the same."""

from __future__ import annotations

import asyncio
import math
import re
from pathlib import Path

from test_html_report import Page, assert_harmless
from training_rows import CONFIG, evaluated, rows

from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, play
from arena.episodes.replay import read_replay
from arena.evaluation.records import Interval
from arena.plugins.catalog import make_game
from replays.html_report import write_html
from replays.html_report.page import render
from trainers.config.config import TrainConfig
from trainers.loop.grpo import ReportWriter
from trainers.runs.document import document, partings
from trainers.runs.records import HeldOutResult, RunFiles, RunState, StepRecord, TermMean
from trainers.runs.training_run import TrainingRun

FINISHED = RunState(
    step=60,
    best_step=50,
    status="finished",
    final={"newest": evaluated(60, 0.73, 0.04, 400), "best": evaluated(50, 0.745, 0.04, 400)},
)
POISON = "</svg><script>alert(1)</script>\" onload='x' {{ 7 * 7 }} $\\frac \x00\x1b\u202e\ud800"


def run_of(
    records: list[StepRecord], state: RunState, folder: Path, config: TrainConfig = CONFIG
) -> TrainingRun:
    return TrainingRun(RunFiles(folder), config, state, records)


def page_of(
    records: list[StepRecord], state: RunState, folder: Path, config: TrainConfig = CONFIG
) -> Page:
    return Page(render(document(run_of(records, state, folder, config))))


def test_tables_have_par_and_call_periodic_evaluations_exploratory(tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"options": {"players": 4}})
    shown = document(run_of(rows(60), FINISHED, tmp_path, config))
    (evaluations,) = (grid for grid in shown.grids() if grid.title.startswith("Held-out deals"))
    assert "exploratory, not adjusted" in evaluations.title
    assert evaluations.headings.count("won (par 25 %)") == 1
    unknown = config.model_copy(update={"game": "not-installed"})
    assert "par" not in page_of(rows(3), FINISHED, tmp_path, unknown).text.split()


def test_a_finished_run(tmp_path: Path) -> None:
    write: ReportWriter = write_html
    records = rows(60)
    records[9] = records[9].model_copy(update={"failed": 3})
    path = tmp_path / "report.html"
    write(document(run_of(records, FINISHED, tmp_path)), path)
    first = path.read_bytes()
    write(document(run_of(records[::-1], FINISHED, tmp_path)), path)
    assert path.read_bytes() == first, "the same run makes the same bytes"
    page = Page(first.decode())
    assert_harmless(page)
    for said in [
        f"Training · Cluedo · {tmp_path.name}",
        "4 players · cards · no board · deductions in the prompt · step 60 of 60",
        "on held-out deals rose from 41 % to 74 % (best checkpoint, step 50): "
        "+34 points [+30, +38].",
        "rose from 41 % to 73 % (newest checkpoint, step 60)",
        "the same 400 deals in the same seats. These deals were not used in training.",
        "clue-tiny was trained by GRPO with 16 deals × 8 games per step, against "
        "bot:novice=3,past=1",
        "3 games failed.",
        "Win rate in training",
        "weight 0.5",
        "Legal replies",
        "learning_rateLearning rate of Adam.0.0010.0003",
    ]:
        assert said in page.text, said
    assert page.count("svg") == 6 + 3
    assert page.source.partition("<details")[0].count("<svg") == 6, "six, then the fold"


def test_a_reward_for_wins_alone_is_not_drawn_beside_the_win_rate(tmp_path: Path) -> None:
    records = [
        record.model_copy(
            update={
                "reward": record.win_rate,
                "terms": {"win": TermMean(mean=record.win_rate.value or 0.0, weight=1)},
            }
        )
        for record in rows(20)
    ]
    titles = [
        chart.title
        for section in document(run_of(records, FINISHED, tmp_path)).sections
        for chart in section.charts
    ]
    assert "Win rate in training" in titles and not {"Reward", "win"} & {*titles}


def test_hostile_texts_are_text(tmp_path: Path) -> None:
    config = TrainConfig(
        experiment_name=POISON, base_model=POISON, opponents=POISON, options={POISON: [POISON]}
    )
    record = rows(1)[1].model_copy(
        update={
            "terms": {POISON: TermMean(mean=1.0)},
            "update": {POISON: 1.0},
            "time": {POISON: 1.0},
            "warnings": (POISON,),
        }
    )
    final = {POISON: evaluated(1, 0.5)}
    state = RunState(step=1, status=POISON, reason=POISON, final=final)
    page = page_of([record], state, tmp_path, config)
    assert_harmless(page)
    assert page.text.count("<script>alert(1)</script>") > 10


def test_a_run_that_went_wrong(tmp_path: Path) -> None:
    nan = Interval(value=math.nan, low=math.nan, high=math.inf)
    broken = StepRecord(
        step=1,
        config_hash="",
        games=8,
        seconds=math.nan,
        time={"rollouts": math.inf},
        win_rate=nan,
        reward=nan,
        terms={"win": TermMean(mean=math.nan)},
        update={"loss": math.nan},
        evaluation=HeldOutResult(games=8, win_rate=nan, start=nan, win_rate_delta=nan),
    )
    stopped = RunState(step=1, status="interrupted", reason="the budget is spent")
    page = page_of([broken], stopped, tmp_path)
    assert_harmless(page)
    assert not re.search(r"\b(nan|inf|None)\b", page.text)
    for said in [
        "could not be measured",
        "stopped early: the budget is spent",
        "1 step trained on",
    ]:
        assert said in page.text, said


def test_charts_that_show_one_value_are_named_and_not_drawn(tmp_path: Path) -> None:
    records = [
        row.model_copy(update={"update": {"entropy": 0.1 * row.step}, "legal_rate": 1.0})
        for row in rows(5)
    ]
    shown = document(run_of(records, RunState(step=5), tmp_path))
    (learned,) = (each for each in shown.sections if each.title == "How it learned")
    assert "Unchanged in all steps: Legal replies" in learned.about
    titles = [chart.title for chart in learned.charts]
    assert "Entropy" in titles and "Legal replies" not in titles


def test_a_run_shows_where_games_before_and_after_training_part(tmp_path: Path) -> None:
    """Both policies are bots: what is compared are replays, whoever has played."""
    for folder, bot in (("before", "bot:novice"), ("after", "bot:detective")):
        for number in range(3):
            match = Match(make_game("cluedo", players=3), [bot, "bot:novice", "bot:novice"], number)
            writer = ReplayWriter(tmp_path / "replays" / folder, f"game{number:06}")
            asyncio.run(play(match, watchers=[writer]))
    grids = list(partings(RunFiles(tmp_path)))
    assert [grid.title.partition(",")[0] for grid in grids] == ["Deal 0", "Deal 1"]
    for number, grid in enumerate(grids):
        _, before, after = zip(*grid.rows, strict=True)
        assert before[0] != after[0] and "suggest" in before[0]
        moves = [
            [str(move.action) for move in read_replay(path).moves]
            for path in sorted((tmp_path / "replays").glob(f"*/game{number:06}.jsonl"))
        ]
        both = enumerate(zip(*moves, strict=False))
        ply = next(ply for ply, (one, other) in both if one != other)
        assert {before[0], after[0]} == {moves[0][ply], moves[1][ply]}
        assert before[-1] == f"before/game{number:06}.jsonl, position {ply}"
        assert "Expected " in before[1] + after[1] and " bits" in before[1] + after[1]
        assert "made the right accusation" in before[2] + after[2]
        assert "Player 0" not in "".join((grid.title, *before, *after)), "seats count from 1"
    (tmp_path / "replays" / "after" / "game000000.jsonl").write_text("{}")
    assert next(partings(RunFiles(tmp_path))).title.startswith("Deal 1"), "no replay, no table"


def test_the_report_of_a_stored_run() -> None:
    folder = Path(__file__).parents[1] / "trainers" / "data" / "stored_run"
    page = Page(render(document(TrainingRun.read(folder))))
    assert_harmless(page)
    assert "from 40 % to 40 % (newest checkpoint, step 2): 0 points [−26, +26]" in page.text
    # Name, description, value, default.
    assert "that keeps a notebook.80" in page.text and "the best checkpoint.10400" in page.text
