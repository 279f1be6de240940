"""A training run in words: its result in sentences, its tables, and all of it as a document.

Every view prints these sentences, so each is worded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from arena.agents.seating import default_opponent
from arena.core.errors import ArenaError
from arena.core.outcome import WIN_RATE, ReturnScale
from arena.core.text import (
    decimal,
    duration_in_words,
    percentage,
    pluralize,
    printable,
    shorten,
)
from arena.evaluation.document import (
    Document,
    Grid,
    Section,
    Sentence,
    amount,
    json_text,
    number,
    options_in_words,
    par_text,
    percent,
)
from arena.evaluation.records import Interval
from arena.plugins.catalog import make_game
from trainers.config.config import BUNDLED, TrainConfig
from trainers.credit import Credit
from trainers.rewards import default_reward
from trainers.runs import charts
from trainers.runs.partings import partings
from trainers.runs.records import HeldOutResult, StepRecord
from trainers.runs.training_run import CheckpointEvaluation, TrainingRun, finite

MAX_ROWS = 400
"""Rows of the table of steps. A longer run shows every n-th step."""
MAX_WARNINGS = 100
MAX_FACTS = 3
"""Options of the game below the title; all are among the settings."""
LINE_METRICS = ("loss", "entropy", "kl")
"""Update metrics in the line of a step. The others are in metrics.jsonl."""


def document(run: TrainingRun) -> Document:
    """Return what every writer shows of a run. Of a repeated step the later record counts."""
    records = sorted({row.step: row for row in run.records}.values(), key=lambda row: row.step)
    run = replace(run, records=records)
    config, sections = run.config or TrainConfig(), [*charts.sections(run)]
    return Document(
        # The folder may have been renamed or moved since the run was started.
        title=f"Training · {config.game} · {run.name}",
        facts=[*options_in_words(config.options)[:MAX_FACTS], *facts(run)],
        headline=[Sentence.plain(text) for text in headline(run)],
        notes=notes(run),
        sections=[
            *sections[:1],
            *_differences(run),
            *sections[1:],
            *_warnings(run),
            *_evaluations(run),
            *_settings(config),
            *_steps(run),
        ],
        remarks=[f"Hash of all settings that decide what is learned: {config.config_hash}"],
    )


def _differences(run: TrainingRun) -> list[Section]:
    grids = list(partings(run.files))
    about = "The first games of the last evaluation that part: one deal, played before and after."
    return [Section("What it does differently", grids, about=about)] if grids else []


def _evaluations(run: TrainingRun) -> list[Section]:
    results = [*(one for one in run.learning_curve() if one.step), *run.final_evaluations()]
    grids = [evaluations(results, run.par)]
    return [Section("Evaluations", grids, is_folded=True)] if results else []


def _settings(config: TrainConfig) -> list[Section]:
    values = flat_settings(config)
    # A default is that of TrainConfig and of the game, not that of a preset.
    defaults = flat_settings(TrainConfig(game=config.game, options=_default_options(config.game)))
    rows = [
        (name, _text(value), "" if value == defaults.get(name) else _text(defaults.get(name)))
        for name, value in values.items()
    ]
    rows.sort(key=lambda row: not row[2])  # Those that are not the default come first.
    fields = TrainConfig.model_fields
    abouts = {name: (fields[name].description or "") for name in values.keys() & fields.keys()}
    grid = Grid("Settings", ("setting", "value", "default"), rows, abouts)
    return [Section("Settings", [grid], is_folded=True)]


def _warnings(run: TrainingRun) -> list[Section]:
    rows = []
    for text, numbers in [*warnings(run).items()][:MAX_WARNINGS]:
        steps = ", ".join(map(str, numbers[:8]))
        more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
        rows.append((shorten(text, 400), steps + more))
    return [Section("Warnings", [Grid("Warnings", ("warning", "steps"), rows)])] if rows else []


def _steps(run: TrainingRun) -> list[Section]:
    rows = charts.played(run.records)
    every = -(-len(rows) // MAX_ROWS) or 1  # ceil(rows / MAX_ROWS).
    title = "Steps" if every == 1 else f"Steps: one in {every}; metrics.jsonl has all"
    grid = replace(steps(rows[::every], run.par), title=title)
    return [Section("Steps", [grid], is_folded=True)] if rows else []


def steps(records: Sequence[StepRecord], par: float | None) -> Grid:
    """Return the main figures of each step."""
    headings = (
        *("step", "reward", f"won{par_text(par)}", "groups", "dropped", "legal", "tokens/reply"),
        *("entropy", "kl", "sampling, tokens/s", "training, tokens/s", "s"),
    )
    cells = [
        (
            str(row.step),
            decimal(row.reward.value, 2, signed=True),
            percent(row.win_rate),
            str(row.groups.trained),
            str(row.groups.dropped),
            percentage(finite(row.legal_rate)),
            decimal(finite(row.reply_tokens), 1),
            _metric(row.update, "entropy"),
            _metric(row.update, "kl"),
            decimal(charts.sampling_rate(row), 0),
            decimal(charts.training_rate(row), 0),
            decimal(finite(row.seconds), 1),
        )
        for row in records
    ]
    return Grid("Steps", headings, cells)


def _metric(update: Mapping[str, float], name: str) -> str:
    return f"{update[name]:.2g}" if name in update else "–"


def evaluations(results: Sequence[CheckpointEvaluation], par: float | None) -> Grid:
    """Return the results on held-out deals."""
    scale = results[-1].scale if results else WIN_RATE
    measured = f"won{par_text(par)}" if scale.is_win_rate else mean_name(scale)
    headings = ("checkpoint", "deals", measured, "start", "delta")
    cells = [
        (
            checkpoint_name(one),
            str(one.games),
            amount(one.result, one.scale),
            amount(one.start_result, one.scale),
            amount(one.delta, one.scale, signed=True),
        )
        for one in results
    ]
    title = "Held-out deals, paired with the starting policy"
    # Each checkpoint is one more comparison; the final deals were kept for one of them.
    if sum(not one.final for one in results) > 1:
        title += "; all but the final ones are exploratory, not adjusted"
    return Grid(title, headings, cells)


def _text(value: JsonValue) -> str:
    return "–" if value is None or value == "" else json_text(value)


def flat_settings(config: TrainConfig) -> dict[str, JsonValue]:
    """Return the settings by name, with the game's options as `options.NAME`."""
    values = config.model_dump(mode="json")
    options = {f"options.{name}": value for name, value in values["options"].items()}
    return {"game": config.game, **options, **{n: values[n] for n in TrainConfig.settings()}}


def _default_options(game: str) -> dict[str, JsonValue]:
    """Return the default options; none for a game whose plugin is not installed."""
    try:
        return make_game(game).options.model_dump(mode="json")
    except ArenaError:
        return {}


# Sentences


def step_line(record: StepRecord, total_steps: int) -> str:
    """Return a step in one line. Step 0 has no training games."""
    facts = ["the starting policy"] if record.step == 0 else []
    if record.reward.value is not None:
        facts.append(f"reward {number(record.reward, 2, signed=True)}")
    if record.win_rate.value is not None:
        facts.append(f"won {percent(record.win_rate)} of {pluralize(record.games, 'game')}")
    groups = record.groups
    if groups.trained or groups.dropped:
        dropped = f" ({groups.dropped} dropped)" if groups.dropped else ""
        facts.append(pluralize(groups.trained, "group") + dropped)
    if record.legal_rate is not None:
        facts.append(f"{percentage(record.legal_rate)} legal")
    facts += [f"{name} {record.update[name]:.3g}" for name in LINE_METRICS if name in record.update]
    if record.evaluation:
        scale = record.evaluation.scale
        name = "win-rate delta" if scale.is_win_rate else f"{scale.name} delta"
        delta = amount(record.evaluation.delta, scale, signed=True)
        best = ", the best so far" if record.best else ""
        deals = pluralize(record.evaluation.games, "held-out deal")
        facts.append(f"{name} {delta} on {deals}{best}")
    if record.cost:
        facts.append(f"${record.cost:.4f}")
    facts.append(f"{finite(record.seconds) or 0.0:.1f} s")
    return f"step {record.step}/{total_steps}: {', '.join(facts)}"


def facts(run: TrainingRun) -> list[str]:
    """Return the progress, the duration and the number of games."""
    words = [f"{run.config.text_level} in the prompt"] if run.config else []
    of = f" of {run.total_steps}" if run.total_steps else ""
    words.append(f"step {run.state.step}{of}")
    if run.seconds:
        words.append(duration_in_words(run.seconds))
    if run.games:
        words.append(pluralize(run.games, "game"))
    return [*words, *([run.state.phase] if run.state.phase else []), run.state.status]


def headline(run: TrainingRun) -> list[str]:
    """Return the result, how it was measured and what was trained; the main sentence first.

    The final deals take precedence: they did not select the best checkpoint.
    """
    results = run.final_evaluations()
    # If the newest checkpoint is the best one, both results are equal: name it once.
    if len({one.model_dump_json(exclude={"checkpoint", "step"}) for one in results}) == 1:
        results = results[:1]
    if not results:
        results = [one for one in run.learning_curve() if one.step][-1:]
    if run.state.exploitability and not results:
        return [exploitability_line(run), setup(run)]
    if not results and run.state.phase:
        return [f"Now {printable(run.state.phase)}; the first step follows.", setup(run)]
    if not results:
        return ["No checkpoint has been evaluated yet, so no gain is known.", setup(run)]
    deals = pluralize(results[0].games, "deal")
    return [
        *([exploitability_line(run)] if run.state.exploitability else []),
        *(verdict(one) for one in results[:2]),
        f"Both policies played the same {deals} in the same seats. These deals were not used in "
        "training.",
        setup(run),
    ]


def exploitability_line(run: TrainingRun) -> str:
    """Return the exact exploitability of the mixture, the newest weights and the start."""
    game = run.make_game()
    unit = f" {game.return_scale.unit}" if game else ""
    found = {n: f"{decimal(v, 3)}{unit}" for n, v in run.state.exploitability.items()}
    return (
        f"Exploitability, exactly: {found['mixture']} a game as the mixture of the kept "
        f"checkpoints, {found['newest']} with the newest weights alone, {found['start']} at the "
        "start."
    )


def verdict(evaluation: CheckpointEvaluation) -> str:
    """Return whether the mean return changed, by the interval of the paired difference.

    In a game of wins it is the win rate.
    """
    delta, scale = evaluation.delta, evaluation.scale
    name, measure = checkpoint_name(evaluation), mean_name(scale)
    if delta.value is None:
        return f"The {measure} of the {name} could not be measured."
    rates, size = _from_to(evaluation), amount(delta, scale, signed=True)
    if delta.low is None or delta.high is None:
        return f"The {measure} on held-out deals went {rates} ({name}): {size}, interval unknown."
    # The verdict depends on the interval only, never on the size of the value.
    if delta.low <= 0 <= delta.high:
        return (
            f"The {measure} on held-out deals went {rates} ({name}): {size}. The 95 % interval "
            "includes 0, so this is not evidence of a change."
        )
    direction = "rose" if delta.low > 0 else "fell"
    return f"The {measure} on held-out deals {direction} {rates} ({name}): {size}."


def delta_line(result: HeldOutResult) -> str:
    """Return `+21 points [+15, +27] on 400 deals, from 41 % to 62 %`."""
    delta = amount(result.delta, result.scale, signed=True)
    return f"{delta} on {pluralize(result.games, 'deal')}, {_from_to(result)}"


def _from_to(result: HeldOutResult) -> str:
    """Return `from 41 % to 62 %`."""
    ends = (result.start_result, result.result)
    start, end = (value_only(each, result.scale) for each in ends)
    return f"from {start} to {end}"


def mean_name(scale: ReturnScale) -> str:
    """Return `win rate`, or `mean return` and the like."""
    return scale.name if scale.is_win_rate else f"mean {scale.name}"


def checkpoint_name(evaluation: CheckpointEvaluation) -> str:
    """Return `step 50`, or `best checkpoint, step 50` for a final evaluation."""
    if evaluation.final and evaluation.step is not None:
        return f"{printable(evaluation.checkpoint)}, step {evaluation.step}"
    return printable(evaluation.checkpoint)


def value_only(interval: Interval, scale: ReturnScale = WIN_RATE) -> str:
    """Return a result without its interval: `41 %`, `−0.17 chips`."""
    return amount(Interval(value=interval.value, n=interval.n), scale)


def setup(run: TrainingRun) -> str:
    """Return what was trained, against whom and for which reward; defaults by their names."""
    config, game = run.config or TrainConfig(), run.make_game()
    model = printable(_base_model(config))
    subject = f"{model[:1].upper() + model[1:] if ' ' in model else model} was trained"
    # A game whose plugin is not installed does not tell its defaults.
    opponents = config.opponents or (default_opponent(game) if game else "its default opponent")
    others = "in every seat" if config.self_play else f"against {printable(opponents)}"
    name = Credit.parse(config, game).name if game else "game"
    reward = config.reward or (default_reward(game, name) if game else "of the game")
    credit = " and judged decisions" if name == "judged" else ""
    return (
        f"{subject} by GRPO with {config.groups_per_step} deals × {config.rollouts_per_group} "
        f"games per step, {others}, with the reward {printable(reward)}{credit}."
    )


def notes(run: TrainingRun) -> list[str]:
    """Return limitations that a reader must know before the results."""
    state, sentences = run.state, []
    if state.reason:
        sentences.append(f"The run was stopped early: {state.reason}.")
    elif state.status in ("interrupted", "running"):
        sentences.append(f"The run is {state.status}. This report covers {state.step} steps.")
    failed = sum(record.failed for record in run.records)
    if failed:
        sentences.append(f"{pluralize(failed, 'game')} failed.")
    # Step 0 plays no training games and does not count.
    idle = sum(record.games > 0 and not record.groups.trained for record in run.records)
    if idle:
        sentences.append(f"{pluralize(idle, 'step')} trained on nothing: all groups were dropped.")
    return sentences


def warnings(run: TrainingRun) -> dict[str, list[int]]:
    """Return the warnings of all steps, each once, with the steps in which it was given."""
    steps: dict[str, list[int]] = {}
    for record in run.records:
        for text in record.warnings:
            steps.setdefault(text, []).append(record.step)
    return steps


def _base_model(config: TrainConfig) -> str:
    """Return the base model of a run, also if the settings leave it to the host."""
    if config.base_model:
        return config.base_model
    if config.trainer_host not in ("auto", "embedded"):
        return f"the default model of the host {config.trainer_host}"
    return BUNDLED.get(config.game, "a new small model")
