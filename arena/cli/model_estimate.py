"""Dry run of `arena play`, `eval` and `tournament`: what the run would ask of its models.

Bots play some games in the seats of the models, and a recorder keeps the requests that a model
would have got.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import floor, log10
from typing import TYPE_CHECKING

from arena.agents.action_tools import action_tools
from arena.agents.agent import Agent
from arena.agents.chat import Chat, ChatOptions, opening
from arena.agents.chat_recorder import ChatRecorder
from arena.agents.scaffold import text_level_of
from arena.agents.seating import default_bot
from arena.cli.options import ModelOptions, has_models
from arena.cli.terminal import echo, print_grids
from arena.core.action import Action
from arena.core.observation import Observation
from arena.core.spec import Spec, redacted
from arena.episodes.match import Match, play
from arena.evaluation.document import Grid
from arena.llm.backend import Request
from arena.llm.tokens import CHARACTERS_PER_TOKEN, count_prompts, tokens_of

if TYPE_CHECKING:
    from arena.llm.service import LLMService

SAMPLE_GAMES = 8
"""Games of bots for each model."""
REASONS = 100
"""Tokens that a model is assumed to write before its action."""
THINKING = {"none": 0, "minimal": 250, "low": 500, "medium": 1500, "high": 4000}
"""Tokens that a model is assumed to think for a decision, by effort; "medium" is the default."""


@dataclass(frozen=True, slots=True)
class ModelEstimate:
    """Demands of a run on one model: means of its games, and the cost of all."""

    spec: str
    games: int
    calls: float
    prompt_tokens: float
    cached_tokens: float
    """Part of the prompts that the provider is expected to find in its cache."""
    reply_tokens: float
    """Tokens of replies, with those of the thinking."""
    cost: float | None
    """US dollars of all games; None if the price is unknown."""


class PromptRecorder(ChatRecorder):
    """Recorder of the requests that a model would have got, and of the length of its replies."""

    def __init__(self, bot: Agent, spec: str, match: Match) -> None:
        self.options = options = match.chat or ChatOptions()
        level = text_level_of(spec, match.text_level)
        first = opening(match.game, options, match.turn_limit)
        super().__init__(bot, Chat(first, options.chat, level))
        self.requests: list[Request] = []
        self.reply_tokens = 0
        is_bare = options.guided or options.answers == "tools"
        self._written = 0 if is_bare else min(REASONS, options.sampling.max_tokens)

    def on_request(self, observation: Observation) -> None:
        options, game = self.options, observation.game
        tools = action_tools(game) if options.answers == "tools" and not options.guided else ()
        request = Request(tuple(self.chat.messages), tools=tools, repeated=self.chat.repeated)
        asks = options.beliefs and game.text.belief_question(observation) is not None
        self.requests += [request] * (1 + asks)
        self.reply_tokens += REASONS * asks

    def reply(self, action: Action) -> str:
        text = f"{'x' * CHARACTERS_PER_TOKEN * self._written}\nAction: {action}"
        self.reply_tokens += tokens_of(len(text))
        return text


def print_estimate(
    line_ups: Mapping[tuple[str, ...], int],
    matches: Iterable[Match],
    llm: LLMService | None,
    options: ModelOptions,
    as_json: bool,
    most: str = "",
) -> None:
    """Print the calls, tokens and cost of a run, and the settings with their origins.

    `line_ups` are the numbers of games by the SPECs of their seats. The first of the matches are
    played by bots. The service has no keys; None if no model plays. `most` precedes the number of
    games if it is a maximum.
    """
    specs = list(dict.fromkeys(s for specs in line_ups for s in specs if has_models([s])))
    models = asyncio.run(_estimates(line_ups, matches, llm, specs)) if llm and specs else []
    games, costs, given = sum(line_ups.values()), [m.cost for m in models], options.given()
    cost = None if None in costs else sum(filter(None, costs))
    if as_json:
        listed = [asdict(model) for model in models]
        found = {"games": games, "cost": cost, "models": listed, "settings": given}
        print(json.dumps(found, allow_nan=False))
        return
    if given:
        stated = (f"{name} = {value} ({origin})" for name, (value, origin) in given.items())
        echo(redacted(f"Settings: {', '.join(stated)}"))
    if not models:
        echo("No model would be asked: the run costs nothing.")
        return
    headings = ("a game of", "calls", "tokens in", "cached", "tokens out", "cost of all games")
    rows = [
        (m.spec, f"{m.calls:,.1f}", f"{m.prompt_tokens:,.0f}", f"{m.cached_tokens:,.0f}",
         f"{m.reply_tokens:,.0f}", dollars(m.cost))
        for m in models
    ]  # fmt: skip
    print_grids([Grid("Estimate", headings, rows)])
    echo(f"Total: {most}{games:,} games; cost: {dollars(cost)}.")
    if cost is None:
        echo("--set price_in=… --set price_out=… (USD per million tokens) state an unknown price.")
    elif options.max_cost is not None:
        verdict = "is exceeded" if cost > options.max_cost else "covers the estimate"
        echo(f"--max-cost {options.max_cost:g} {verdict}.")
    echo(
        f"Bots play {SAMPLE_GAMES} games in place of the models; a model that plays worse has "
        f"longer ones. Assumed: one call for each decision, {REASONS} tokens before the action, "
        f"one token for {CHARACTERS_PER_TOKEN} characters."
    )


async def _estimates(
    line_ups: Mapping[tuple[str, ...], int],
    matches: Iterable[Match],
    llm: LLMService,
    specs: Sequence[str],
) -> list[ModelEstimate]:
    """Return the estimate of each model, from games until each has sat in enough of them."""
    seats: dict[str, list[PromptRecorder]] = {spec: [] for spec in specs}
    sampled = Counter[str]()
    for match in matches:
        stand_in = default_bot(match.game)
        bots = [spec if Spec.parse(spec).prefix == "bot" else stand_in for spec in match.specs]
        agents = replace(match, specs=bots).seat()
        for seat, spec in enumerate(match.specs):
            if spec in seats:
                agents[seat] = recorder = PromptRecorder(agents[seat], spec, match)
                seats[spec].append(recorder)
        await play(replace(match, specs=bots), agents)
        sampled.update({*match.specs})
        if all(sampled[spec] >= SAMPLE_GAMES for spec in specs):
            break
    async with llm:
        return [_estimate(line_ups, llm, spec, samples) for spec, samples in seats.items()]


def _estimate(
    line_ups: Mapping[tuple[str, ...], int],
    llm: LLMService,
    spec: str,
    samples: Sequence[PromptRecorder],
) -> ModelEstimate:
    traits, options = llm.traits(spec), samples[0].options
    games = sum(number for specs, number in line_ups.items() if spec in specs)
    # A model may have several seats in a game; a mean of a game is one of a seat times these.
    seats = sum(number * specs.count(spec) for specs, number in line_ups.items()) / games
    thinking = 0
    if traits.always_thinks or (options.sampling.asks_to_think and traits.takes_thinking):
        by_effort = THINKING.get(options.sampling.reasoning_effort, THINKING["medium"])
        thinking = min(by_effort, options.sampling.max_tokens + options.thinking_room)
    share = seats / len(samples)
    calls = share * sum(len(sample.requests) for sample in samples)
    replies = share * sum(sample.reply_tokens for sample in samples) + calls * thinking
    counted = [count_prompts(sample.requests, traits.cached_prefix) for sample in samples]
    prompts = share * sum(usage.prompt_tokens for usage in counted)
    cached = share * sum(usage.cached_tokens for usage in counted)
    cost = 0.0 if not traits.is_remote and traits.has_known_price else None
    if traits.price is not None:
        cost = games * traits.price.cost(prompts, replies, cached)
    return ModelEstimate(redacted(spec), games, calls, prompts, cached, replies, cost)


def dollars(cost: float | None) -> str:
    """Return a sum with three digits, and with cents at least; the estimate is not better."""
    if cost is None:
        return "unknown"
    digits = 2 if cost <= 0 else max(2, 2 - floor(log10(cost)))
    return f"${cost:,.{min(digits, 6)}f}"
