"""The live view of a training run: what it shows, in terminals of every size."""

from __future__ import annotations

import io
import math
import re

import pytest
from rich.console import Console
from training_rows import CONFIG, rows

from arena.core.text import clock, short_count
from arena.evaluation.records import Interval
from replays.tui.training import TrainingLive, sparkline
from trainers.config.config import TrainConfig
from trainers.runs.figures import sampling_rate, time_split
from trainers.runs.records import GroupCounts, StepRecord, TermMean

SIZES = [(80, 24), (120, 40), (200, 60), (60, 20), (40, 8), (10, 3)]
NAN = math.nan


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def piped() -> Console:
    return Console(file=io.StringIO(), width=80)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def drawn(view: TrainingLive, width: int = 80, height: int = 24) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(view.picture(width, height - 1))
    return written(console).splitlines()


def told(done: int, clock: Clock | None = None) -> TrainingLive:
    """A view that has been told of so many steps and is in the middle of the next."""
    view = TrainingLive(piped(), clock or Clock())
    view.start(CONFIG, 0, "embedded host: there is no GPU here")
    for record in rows(done):
        view.step(record)
    view.phase("rollouts", 44, 128)
    return view


def broken(record: StepRecord) -> StepRecord:
    """What a run that has gone wrong writes."""
    nothing = Interval(value=NAN, low=-math.inf, high=NAN)
    return record.model_copy(
        update={
            "seconds": NAN,
            "time": {"rollouts": NAN, "update": 0.0, "\x1b[2J": 3.0},
            "win_rate": nothing,
            "reward": Interval(value=1e300, low=-1e300, high=math.inf),
            "terms": {f"term {n} of a long name": TermMean(mean=NAN) for n in range(30)},
            "groups": GroupCounts(),
            "legal_rate": None,
            "reply_tokens": NAN,
            "update": {"loss": NAN, "kl": math.inf, "a\x1b[31mb" * 9: -1e-300},
            "evaluation": record.evaluation
            and record.evaluation.model_copy(update={"win_rate_delta": nothing, "start": nothing}),
            "warnings": ("\x1b]0;title\x07 \u202e warned" * 30,),
        }
    )


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("done", [None, 0, 1, 37, 60])
def test_the_picture_fits(width: int, height: int, done: int | None) -> None:
    view = TrainingLive(piped()) if done is None else told(done)
    for line in "first", "second":
        view.notify(line)
    lines = drawn(view, width, height)
    assert len(lines) <= height - 1 or width < 40
    assert max(map(len, lines)) <= max(width, 40)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_figures_that_are_none_or_not_finite(width: int, height: int) -> None:
    view = TrainingLive(piped())
    view.start(CONFIG, 0, "here")
    for record in rows(12):
        view.step(broken(record) if record.step % 3 else record)
        lines = drawn(view, width, height)
        assert len(lines) <= height - 1 or width < 40
        shown = "".join(lines)
        assert not re.search("\\b(nan|inf|None)\\b|[\x1b\u202e]", shown)


def test_all_that_matters_is_shown_in_80_by_24() -> None:
    view = told(37)
    view.notify("the disk fills up")
    shown = "\n".join(drawn(view))
    last = rows(37)[-1]
    assert last.win_rate.value is not None
    for said in [
        "cluedo-default · cluedo · cards · 4 players",
        "step 37/60",
        "embedded host: there is no GPU here",
        "rollouts 44/128 0:00",
        f"{100 * last.win_rate.value:.0f} %",
        "entropy_removed",
        "weight 0.5",
        "+26.4 +18.4 to +34.4",
        "41 % → 67 % · step 30 · best: step 30",
        f"{last.groups.trained} trained · {last.groups.no_variance} no variance",
        "2.73k in sampling · 33.8k in training",
        "7.4 s · rollouts 55 % · update 35 %",
        "legal replies",
        "! the disk fills up",
    ]:
        assert said in shown, said


def test_a_large_terminal_has_curves_of_the_updates() -> None:
    shown = "\n".join(drawn(told(37), 120, 40))
    assert "grad_norm" in shown and "tokens/reply" in shown
    assert re.search(r"entropy +0\.479 +[▁▂▃▄▅▆▇█]{37}", shown)


def test_the_time_that_is_left_is_that_of_the_mean_step() -> None:
    clock = Clock()
    config = TrainConfig(steps=10)
    view = TrainingLive(piped(), clock)
    view.start(config, 2, "here")
    for step in (1, 2):  # Of an earlier session.
        view.step(StepRecord(step=step, config_hash="", seconds=30, games=1))
    assert "0:00 passed · 4:00 left" in drawn(view)[1]
    clock.now += 12
    assert "0:12 passed · 3:48 left" in drawn(view)[1]
    clock.now += 1000
    assert "16:52 passed · 3:30 left" in drawn(view)[1], "a slow step does not eat up the others"
    for step in range(3, 11):
        view.step(StepRecord(step=step, config_hash="", seconds=30, games=1))
    assert drawn(view)[1].endswith("16:52 passed")


def test_on_a_terminal_it_is_drawn_in_place_and_stays_when_it_is_closed() -> None:
    screen = io.StringIO()
    view: TrainingLive = TrainingLive(
        Console(file=screen, force_terminal=True, width=80, height=24)
    )
    view.start(CONFIG, 0, "here")
    for record in rows(3):
        view.phase("rollouts", 3, 8)
        view.step(record)
    view.close()
    view.close()
    assert "step 3/60" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[?25h"), "the cursor is shown again"


def test_a_new_size_clears_the_screen_once() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, height=24)
    view = TrainingLive(console)
    view.start(CONFIG, 0, "here")
    view.step(rows(1)[1])
    assert "\x1b[2J" not in screen.getvalue()
    console.size = type(console.size)(100, 30)
    view.step(rows(2)[2])
    view.close()
    assert screen.getvalue().count("\x1b[2J") == 1


def test_sparklines() -> None:
    assert sparkline([], 9) == sparkline([None], 9) == sparkline([1.0], 0) == ""
    assert sparkline([5.0], 9) == "▄"
    assert sparkline([0, None, 7], 9) == "▁ █"
    assert sparkline(range(8), 8) == "▁▂▃▄▅▆▇█"
    assert sparkline(range(1000), 8) == "▁▂▃▄▅▆▇█"


def test_numbers() -> None:
    assert [clock(s) for s in (-1, 7, 760, 11100)] == ["0:00", "0:07", "12:40", "3:05:00"]
    assert [short_count(n) for n in (None, 812, 999.6, 4120, 1.2e6)] == ["–", "812", "1k", "4.12k",
                                                                      "1.2M"]  # fmt: skip


def test_the_time_split_adds_up_and_keeps_the_phases() -> None:
    record = StepRecord(
        step=1,
        config_hash="",
        seconds=10,
        time={"rollouts": 5, "rewards": 1, "update": 3, "packing": 0.5, "saving": NAN},
    )
    split = time_split(record)
    assert split["rollouts"] == 5 and split["rewards"] == 1 and split["other"] == 1
    assert sum(split.values()) == 10
    assert sampling_rate(record) is None, "nothing was sampled"
