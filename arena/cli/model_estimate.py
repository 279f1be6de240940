"""Dry run of `arena play`, `eval` and `tournament`: what the run would ask of its models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import floor, log10
from typing import TYPE_CHECKING, get_args

from pydantic import JsonValue

from arena.agents.chat import ChatMode
from arena.cli.play_flags import ModelFlags, default_chat, has_models
from arena.cli.terminal import print_grids, progress_bar
from arena.core.errors import UsageError
from arena.core.spec import Spec, without_scaffold
from arena.core.text import pluralize
from arena.episodes.run_estimate import (
    SAMPLE_GAMES,
    ModelTerms,
    RunEstimate,
    SeatSample,
    choose_samples,
    estimate_run,
    play_sample,
)
from arena.evaluation.formatting import Grid
from arena.llm.settings import Settings
from arena.llm.tokens import CHARACTERS_PER_TOKEN
from arena.plugins.loader import catalog

if TYPE_CHECKING:
    from arena.cli.game_run import GameRun
    from arena.episodes.match import Match
    from arena.llm.service import LLMService


def print_game_estimate(run: GameRun, flags: ModelFlags, as_json: bool) -> None:
    """Print the estimate for the games of `arena play` that are not finished."""
    missing = len(run.seeds) - len(run.results)
    # Of a single game, too, several deals are sampled: one says little about its length.
    seeds = range(run.seeds.start, run.seeds.start + SAMPLE_GAMES)
    matches = (run.match.with_seed(seed) for seed in seeds)
    line_ups = {tuple(run.match.specs): missing} if missing else {}
    print_estimate(run.match, line_ups, matches, run.llm, flags, as_json)


def print_estimate(
    match: Match,
    line_ups: Mapping[tuple[str, ...], int],
    matches: Iterable[Match],
    llm: LLMService | None,
    flags: ModelFlags,
    as_json: bool,
    until_ci: float | None = None,
) -> None:
    """Print the calls, tokens and cost of a run.

    `line_ups` are the numbers of games by the SPECs of their seats. The first of the matches are
    played by bots. The service has no keys and names the traits of the models; None if no model
    plays. With `until_ci` the estimate is a maximum.
    """
    specs = dict.fromkeys(spec for specs in line_ups for spec in specs if has_models([spec]))
    estimate, lacking, reason = asyncio.run(_estimate(match, line_ups, matches, llm, list(specs)))
    if as_json:
        print(json.dumps(_as_json(estimate, flags, lacking), allow_nan=False))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    if estimate.models:
        print_grids([_grid(estimate)], console)
    reason = f"--chat {estimate.chat} is the default here: {reason}." if reason else ""
    chosen = [reason] if reason and flags.chat is None else []
    for line in [*_sentences(estimate, flags, until_ci), *chosen, *lacking]:
        console.print(Text(line))


async def _estimate(
    match: Match,
    line_ups: Mapping[tuple[str, ...], int],
    matches: Iterable[Match],
    llm: LLMService | None,
    specs: list[str],
) -> tuple[RunEstimate, list[str], str]:
    """Return the estimate, what is missing for a real run, and the reason of the default chat."""
    if llm is None or not specs:
        return estimate_run(match, line_ups, [], {}), [], ""
    samples: list[list[SeatSample]] = []
    async with llm:
        models = {spec: ModelTerms(llm.traits(spec), llm.price(spec)) for spec in specs}
        remote = [spec for spec, terms in models.items() if terms.traits.is_remote]
        lacking = [line async for line in _missing_keys(map(without_scaffold, remote))]
        reason = default_chat(specs, llm)[1]
    if any(terms.traits.by_batch for terms in models.values()):
        lacking.append(
            "Prices are those of batches, half of the usual ones. A game takes as many batches as "
            "it has decisions, and each takes minutes to hours."
        )
    with progress_bar(transient=True) as progress:
        for sample in progress.track(choose_samples(matches, specs), description="bots"):
            samples.append(await play_sample(sample, specs))
    return estimate_run(match, line_ups, samples, models), lacking, reason


async def _missing_keys(specs: Iterable[str]) -> AsyncIterator[str]:
    """Yield what a run with these models would refuse before its first game."""
    for spec in dict.fromkeys(specs):
        parsed = Spec.parse(spec)
        try:
            backend = catalog().load("backend", parsed.prefix)(parsed.rest, Settings.load())
        except UsageError as error:
            yield f"For the run itself, {error}."
        else:
            await backend.close()


def _grid(estimate: RunEstimate) -> Grid:
    other = _other(estimate.chat)
    counts = ("model", "games", "calls", "tokens in", "cached", "tokens out")
    rows: list[tuple[str, ...]] = []
    for model in estimate.models:
        chat = model.chats[estimate.chat]
        rows.append(
            (
                model.spec,
                f"{model.games:,}",
                f"{model.calls:,.1f}",
                f"{chat.prompt_tokens:,.0f}",
                f"{chat.cached_tokens:,.0f}",
                f"{model.reply_tokens:,.0f}",
                dollars(chat.cost),
                dollars(model.chats[other].cost),
            )
        )
    if len(rows) > 1:
        total = [dollars(estimate.cost(mode)) for mode in (estimate.chat, other)]
        rows.append(("total", f"{estimate.games:,}", "", "", "", "", *total))
    title = "Calls and tokens of one game, and the cost of all games by --chat"
    return Grid(title, (*counts, f"cost {estimate.chat}", f"cost {other}"), rows)


def dollars(cost: float | None) -> str:
    """Return a sum with three digits, and with cents at least; the estimate is not better."""
    if cost is None:
        return "unknown"
    digits = 2 if cost <= 0 else max(2, 2 - floor(log10(cost)))
    return f"${cost:,.{min(digits, 6)}f}"


def _sentences(estimate: RunEstimate, flags: ModelFlags, until_ci: float | None) -> Iterator[str]:
    """Yield the total, the cheaper form of the chat, the budget and the assumptions."""
    if not estimate.models:
        yield "No model would be asked: the run costs nothing."
        return
    most = "at most " if until_ci else ""
    games = f"{estimate.games:,} {'game' if estimate.games == 1 else 'games'}"
    yield (
        f"Total: {most}{games}, {_rounded(estimate.calls)} calls, "
        f"{_rounded(estimate.tokens)} tokens; cost: {dollars(estimate.cost(estimate.chat))} with "
        f"--chat {estimate.chat}."
    )
    yield from _cheaper(estimate)
    for budget in budgets(estimate, flags):
        yield budget.sentence
    yield from _assumptions(estimate)


def _cheaper(estimate: RunEstimate) -> Iterator[str]:
    """Compare the forms of the chat, where their costs are known."""
    chosen, other = estimate.cost(estimate.chat), estimate.cost(_other(estimate.chat))
    unknown = [m.spec for m in estimate.models if m.chats[estimate.chat].cost is None]
    if unknown:
        yield (
            f"The price of {', '.join(unknown)} is unknown: --set price_in=… --set price_out=… "
            '(USD per million tokens) states it, or price_in and price_out below [models."SPEC"] '
            "in arena.toml."
        )
    # Also without a word if the difference is not visible.
    if chosen is None or other is None or dollars(chosen) == dollars(other):
        return
    if chosen < other:
        yield f"--chat {estimate.chat} is cheaper than {_other(estimate.chat)} here."
    else:
        yield f"--chat {_other(estimate.chat)} would be cheaper: {dollars(other)}."


def _assumptions(estimate: RunEstimate) -> Iterator[str]:
    games = pluralize(estimate.sampled_games, "game")
    fewest, most = estimate.calls_range
    calls = f"{fewest} to {most}" if fewest < most else f"{most}"
    yield (
        f"{games} of {estimate.stand_in} ({calls} calls) stand in for those of the "
        "models; a model that plays worse has longer games."
    )
    words = f"{estimate.reasons_per_call} tokens and " if estimate.reasons_per_call else ""
    thinking = [
        f"{model.thinking_per_call:,} tokens of thinking by {model.spec}"
        for model in estimate.models
        if model.thinking_per_call
    ]
    yield (
        f"Assumed: one call for each decision; replies of {words}the action"
        f"{''.join(f'; {each}' for each in thinking)}; one token for {CHARACTERS_PER_TOKEN} "
        "characters."
    )


@dataclass(frozen=True, slots=True)
class BudgetCheck:
    """A limit of the flags beside the estimate."""

    flag: str
    limit: float
    estimate: float | None
    exceeded: bool | None
    """None if the price is unknown."""

    @property
    def sentence(self) -> str:
        limit = f"{self.flag} {self.limit:,}".removesuffix(".0")
        if self.exceeded is None:
            return f"{limit} cannot be compared: a price is unknown."
        return f"{limit} is exceeded." if self.exceeded else f"{limit} covers the estimate."


def budgets(estimate: RunEstimate, flags: ModelFlags) -> list[BudgetCheck]:
    """Compare the estimate with the budget of the flags."""
    needs = (
        ("--max-cost", flags.max_cost, estimate.cost(estimate.chat)),
        ("token_limit", flags.token_limit, estimate.tokens),
    )
    return [
        BudgetCheck(flag, limit, need, None if need is None else need > limit)
        for flag, limit, need in needs
        if limit is not None
    ]


def _as_json(estimate: RunEstimate, flags: ModelFlags, lacking: list[str]) -> dict[str, JsonValue]:
    """Return the estimate with its sums; figures of a model are means of its games."""
    return {
        **asdict(estimate),
        "calls": estimate.calls,
        "tokens": estimate.tokens,
        "cost": {mode: estimate.cost(mode) for mode in get_args(ChatMode)},
        "budgets": [asdict(budget) for budget in budgets(estimate, flags)],
        "lacking": [*lacking],
    }


def _other(chat: ChatMode) -> ChatMode:
    return "append" if chat == "fresh" else "fresh"


def _rounded(count: float) -> str:
    """Return three significant digits; the estimate is not better."""
    return f"{round(count, 3 - len(str(round(count)))):,.0f}"
