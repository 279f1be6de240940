"""The result of a training run in words, and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from pydantic.fields import FieldInfo

from arena.core.json import Json
from replays.html_report import formatting as wording
from replays.html_report.report import Estimate
from replays.html_report.training.figures import estimate
from trainers.config.config import TrainConfig
from trainers.runs.durations import in_words
from trainers.runs.figures import clean, finite, rates
from trainers.runs.records import Evaluated, RunState, StepRecord

Rows = Sequence[StepRecord]
MOST_ROWS = 400
"""Lines of the table of steps; of a longer run it has every so-manieth step."""
FINAL = {"newest": "the last checkpoint", "best": "the best checkpoint"}


@dataclass(frozen=True, slots=True)
class Tested:
    """A line of the table of evaluations."""

    what: str
    games: int
    start: Estimate
    win_rate: Estimate
    gain: Estimate
    best: bool = False
    final: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    value: Json
    default: Json
    about: str
    panel: str


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning, and the steps in which it came."""

    text: str
    steps: Sequence[int]


@dataclass(frozen=True, slots=True)
class Numbers:
    """The table of steps."""

    rows: Sequence[Row]
    every: int
    """1, unless the run is so long that not every step is listed."""


@dataclass(frozen=True, slots=True)
class Row:
    step: int
    win_rate: Estimate
    reward: Estimate
    trained: int
    dropped: int
    sampling: float | None
    training: float | None
    legality: float | None
    reply: float | None
    seconds: float | None


def title(config: TrainConfig) -> str:
    return f"Training · {config.game} · {config.experiment}"


def facts(config: TrainConfig, rows: Rows, state: RunState) -> list[str]:
    """The game, how far the run has come, and how long it took."""
    told = wording.options_in_words(config.options)
    told.append(f"{config.text_level} in the prompt")
    told.append(f"step {state.step} of {config.total_steps}")
    seconds = sum(finite(row.seconds) or 0.0 for row in rows)
    if seconds:
        told.append(in_words(seconds))
    games = sum(row.games for row in rows)
    if games:
        told.append(f"{wording.number(games, 0)} games")
    return [*told, state.status]


def headline(config: TrainConfig, rows: Rows, state: RunState) -> list[Markup]:
    """What came of it, then what was trained; the first sentence is the one to remember."""
    return [*_result(rows, state), _what(config)]


def _result(rows: Rows, state: RunState) -> list[Markup]:
    """By the final deals if they were played: the best checkpoint was not chosen by them."""
    if state.final:
        order = sorted(state.final, key=lambda name: (name != "best", name))
        sentences = [_verdict(state.final[name], _final_name(name, state)) for name in order]
        # Each name once: where the newest is the best, both say the same.
        same = len({one.model_dump_json() for one in state.final.values()}) == 1
        return [*sentences[: 1 if same else 2], _honesty(state.final[order[0]])]
    evaluated = [row for row in rows if row.evaluation and row.step]
    if not evaluated:
        return [Markup("Nothing has been evaluated yet, so nothing is known about a gain.")]
    last = evaluated[-1]
    assert last.evaluation
    return [_verdict(last.evaluation, f"step {last.step}"), _honesty(last.evaluation)]


def _final_name(name: str, state: RunState) -> str:
    step = state.best_step if name == "best" else state.step
    return FINAL.get(name, clean(name)) + (f" (step\u00a0{step})" if step is not None else "")


def _verdict(found: Evaluated, which: str) -> Markup:
    start, now, gain = (estimate(each) for each in (found.start, found.win_rate, found.gain))
    if gain.value is None:
        return Markup("With <bdi>{}</bdi> no gain could be measured.").format(which)
    rates = f"from {wording.value_of(start, 'share')} to {wording.value_of(now, 'share')}"
    between = wording.interval_of(gain, "share")
    size = f"{wording.points(gain)} percentage points"
    size += f" (95 % interval {between})" if between else ""
    if gain.low is None or gain.high is None:
        said = "The win rate went {} with <bdi>{}</bdi>: {}; how sure that is, is not known."
    elif gain.low > 0:
        said = "The win rate on held-out deals rose {} with <bdi>{}</bdi>: {}."
    elif gain.high < 0:
        said = "The win rate on held-out deals fell {} with <bdi>{}</bdi>: {}."
    else:
        said = "The win rate went {} with <bdi>{}</bdi>, which decides nothing: {} includes 0."
    return Markup(said).format(rates, which, size)


def _honesty(found: Evaluated) -> Markup:
    said = (
        "Both policies played the same {} deals, none of which was trained on, in the same seats."
    )
    return Markup(said).format(wording.number(found.games, 0))


def _what(config: TrainConfig) -> Markup:
    said = (
        "<bdi>{}</bdi> was trained by GRPO, {} deals × {} games a step, against <bdi>{}</bdi>, "
        "for the reward <bdi>{}</bdi>."
    )
    return Markup(said).format(
        clean(config.base_model) or "The host’s own model",
        config.groups_per_step,
        config.rollouts_per_group,
        clean(config.opponents) or "the game’s second bot",
        clean(config.reward) or "the game’s own",
    )


def notes(rows: Rows, state: RunState) -> list[str]:
    """What a reader must know before believing the rest."""
    told = []
    if state.reason:
        told.append(f"Stopped: {state.reason}")
    elif state.status in ("interrupted", "running"):
        told.append(f"The run is {state.status}: this is how it stands after step {state.step}.")
    failed = sum(row.failed for row in rows)
    if failed:
        told.append(f"{wording.number(failed, 0)} games could not be played to their end.")
    flat = [row.step for row in rows if row.games and not row.groups.trained]
    if flat:
        steps = "1 step" if len(flat) == 1 else f"{len(flat)} steps"
        told.append(f"{steps} trained on nothing: all groups were dropped.")
    return told


def warnings_of(rows: Rows) -> list[Warned]:
    steps: dict[str, list[int]] = {}
    for row in rows:
        for text in row.warnings:
            steps.setdefault(text, []).append(row.step)
    return [Warned(text, found) for text, found in steps.items()]


def evaluations(rows: Rows, state: RunState) -> list[Tested]:
    """Step by step, then the final ones."""
    tested = [
        _tested(f"step {row.step}", row.evaluation, best=row.step == state.best_step)
        for row in rows
        if row.evaluation and row.step  # Before the first step there is nothing to compare.
    ]
    for name in sorted(state.final):
        what = _final_name(name, state)
        tested.append(_tested(what, state.final[name], final=True))
    return tested


def _tested(what: str, found: Evaluated, best: bool = False, final: bool = False) -> Tested:
    start, now, gain = (estimate(each) for each in (found.start, found.win_rate, found.gain))
    return Tested(what, found.games, start, now, gain, best, final)


def settings(config: TrainConfig) -> list[Setting]:
    usual = TrainConfig()
    return [
        Setting(
            name,
            _json(getattr(config, name)),
            _json(getattr(usual, name)),
            field.description or "",
            _panel(field),
        )
        for name, field in TrainConfig.model_fields.items()
    ]


def _panel(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    panel = extra.get("panel") if isinstance(extra, dict) else None
    return str(panel or "Game")


def _json(value: Json) -> Json:
    """None is a value here, and stands on the page as a word."""
    return "none" if value is None else value


def differences(config: TrainConfig) -> list[Setting]:
    """What was chosen for this run."""
    return [each for each in settings(config) if each.value != each.default]


def config_panels(config: TrainConfig) -> Mapping[str, list[Setting]]:
    """All settings, in the groups of `arena train --help`."""
    panels: dict[str, list[Setting]] = {}
    for setting in settings(config):
        panels.setdefault(setting.panel, []).append(setting)
    return panels


def numbers(rows: Rows) -> Numbers:
    played = [row for row in rows if row.games]
    every = -(-len(played) // MOST_ROWS) or 1
    return Numbers([_row(row) for row in played[::every]], every)


def _row(row: StepRecord) -> Row:
    speed, groups = rates(row), row.groups
    return Row(
        row.step,
        estimate(row.win_rate),
        estimate(row.reward),
        groups.trained,
        groups.no_variance + groups.incomplete,
        speed.sampling,
        speed.training,
        finite(row.legality),
        finite(row.reply_tokens),
        finite(row.seconds),
    )
