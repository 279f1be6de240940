"""A training run in words. Every view prints these sentences, so each is worded once."""

from __future__ import annotations

from arena.agents.seating import default_opponent
from arena.core.event import WIN_RATE, ReturnScale
from arena.core.text import decimal, duration_in_words, percentage, pluralize, printable
from arena.evaluation.document import amount, number, percent
from arena.evaluation.records import Interval
from trainers.config.config import BUNDLED, TrainConfig
from trainers.credit import Credit
from trainers.rewards import default_reward
from trainers.runs.records import HeldOutResult, StepRecord
from trainers.runs.training_run import CheckpointEvaluation, TrainingRun, finite

LINE_METRICS = ("loss", "entropy", "kl")
"""Update metrics in the line of a step. The others are in metrics.jsonl."""
FEW_LEGAL = 0.95
"""Share of legal replies below which the exploitability, which leaves the others out, says so."""


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
    line = (
        f"Exploitability, exactly: {found['mixture']} a game as the mixture of the kept "
        f"checkpoints, {found['newest']} with the newest weights alone, {found['start']} at the "
        "start."
    )
    share = run.records[-1].legal_rate if run.records else None
    if share is None or share >= FEW_LEGAL:
        return line
    return f"{line} Illegal replies are left out: {percentage(1 - share)} in the last step."


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


def _base_model(config: TrainConfig) -> str:
    """Return the base model of a run, also if the settings leave it to the host."""
    if config.base_model:
        return config.base_model
    if config.trainer_host != "embedded":
        return f"the default model of the host {config.trainer_host}"
    return BUNDLED.get(config.game, "a new small model")
