"""The report of a training run: complete, harmless whatever its files say, always the same."""

from __future__ import annotations

import math
import re
from pathlib import Path

from test_html_report import Page
from training_rows import CONFIG, evaluated, rows

from arena.evaluation.records import Interval
from replays.html_report.training_report import render, write_training_report
from trainers.config.config import TrainConfig
from trainers.loop.training import ReportWriter
from trainers.runs import tables
from trainers.runs.records import HeldOutResult, RunFiles, RunState, StepRecord, TermMean
from trainers.runs.training_run import TrainingRun

FINISHED = RunState(
    step=60,
    best_step=50,
    status="finished",
    final={"newest": evaluated(60, 0.73, 0.04, 400), "best": evaluated(50, 0.745, 0.04, 400)},
)
POISON = "</svg><script>alert(1)</script>\" onload='x' {{ 7 * 7 }} $\\frac \x00\x1b\u202e\ud800"
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "h1", "h2"),
    *("h3", "h4", "p", "span", "bdi", "ul", "ol", "li", "div", "table", "thead", "tbody", "tr"),
    *("th", "td", "figure", "figcaption", "details", "summary", "svg", "g", "defs", "path", "use"),
    *("text", "clippath", "rect", "code", "a"),
}


def assert_harmless(page: Page) -> None:
    assert set(page.tags) <= ALLOWED
    for key, value in page.attributes:
        assert not key.startswith("on"), key
        assert key not in {"src", "srcset", "action", "formaction", "background", "xmlns"}
        if key in {"href", "xlink:href"}:
            assert value.startswith("#"), value
        if "url(" in value:
            assert re.fullmatch(r"url\(#[\w-]+\)", value), value
    assert "\u202e" not in page.source and "\x1b" not in page.source
    assert "default-src 'none'" in page.source


def run_of(
    records: list[StepRecord], state: RunState, folder: Path, config: TrainConfig = CONFIG
) -> TrainingRun:
    return TrainingRun(RunFiles(folder), config, state, records)


def page_of(
    records: list[StepRecord], state: RunState, folder: Path, config: TrainConfig = CONFIG
) -> Page:
    return Page(render(run_of(records, state, folder, config)))


def test_tables_have_par_and_call_periodic_evaluations_exploratory(tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"options": {"players": 4}})
    run = run_of(rows(60), FINISHED, tmp_path, config)
    page = Page(render(run)).text
    assert "Win rate (par 25 %) at the start" in page and "StepWin rate (par 25 %)" in page
    assert "All but those on the final deals are exploratory" in page
    results = [*run.learning_curve(), *run.final_evaluations()]
    assert "exploratory, not adjusted" in tables.evaluations(results, run.par).title
    for grid in (tables.evaluations(results, run.par), tables.steps(run.records, run.par)):
        assert grid.headings.count("won (par 25 %)") == 1
    unknown = config.model_copy(update={"game": "not-installed"})
    assert "par" not in Page(render(run_of(rows(3), FINISHED, tmp_path, unknown))).text.split()


def test_a_finished_run(tmp_path: Path) -> None:
    write: ReportWriter = write_training_report
    records = rows(60)
    records[9] = records[9].model_copy(update={"warnings": ("the disk fills up",), "failed": 3})
    path = tmp_path / "report.html"
    write(run_of(records, FINISHED, tmp_path), path)
    first = path.read_bytes()
    write(run_of(records[::-1], FINISHED, tmp_path), path)
    assert path.read_bytes() == first, "the same run makes the same bytes"
    page = Page(first.decode())
    assert_harmless(page)
    for said in [
        "Training · cluedo · cluedo-default",
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
        "Gradient norm",
        "Legal replies",
        "dropped: no variance",
        "learning-rate0.0010.0003Learning rate of Adam.",
        "the disk fills up9",
    ]:
        assert said in page.text, said
    assert page.count("svg") == 6 + 12
    verdict, _, rest = page.source.partition("<svg")
    assert "rose from 41" in verdict
    assert rest.partition('<details class="more">')[0].count("<svg") == 6 - 1, "six, then the fold"
    identifiers = [value for key, value in page.attributes if key == "id"]
    assert len(identifiers) == len(set(identifiers))


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
    stopped = RunState(step=1, status="stopped", reason="the entropy fell below 0.1")
    page = page_of([broken], stopped, tmp_path)
    assert_harmless(page)
    assert not re.search(r"\b(nan|inf|None)\b", page.text)
    for said in ["could not be measured", "stopped early: the entropy fell", "1 step trained on"]:
        assert said in page.text, said


def test_a_long_run_is_thinned_out(tmp_path: Path) -> None:
    record = rows(1)[1]
    many = [record.model_copy(update={"step": step}) for step in range(1, 501)]
    page = page_of(many, RunState(step=500), tmp_path)
    assert len(page.source) < 800_000
    assert "One step in 2" in page.text


def test_the_report_of_a_stored_run() -> None:
    folder = Path(__file__).parents[1] / "trainers" / "data" / "stored_run"
    page = Page(render(TrainingRun.read(folder)))
    assert_harmless(page)
    assert "from 40 % to 40 % (newest checkpoint, step 2): 0 points [−26, +26]" in page.text
    assert "max-tokens8" in page.text and "stop-legal-rate0.1" in page.text
