"""Dry run of `arena play`, `eval` and `tournament`: what the run would ask of its models.

Bots play some games in the seats of the models, and a recorder keeps the requests that a model
would have got.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from arena.agents.action_tools import action_tools
from arena.agents.agent import Agent
from arena.agents.chat import Chat, ChatOptions, opening, text_level_of
from arena.agents.chat_recorder import ChatRecorder
from arena.agents.seating import default_bot
from arena.cli.options import ModelOptions, has_models
from arena.cli.terminal import echo, ledger_grid, print_grids
from arena.core.action import Action
from arena.core.observation import Observation
from arena.core.spec import Spec, redacted
from arena.episodes.match import Match, play
from arena.evaluation.document import value_in_words
from arena.llm.backend import (
    CHARACTERS_PER_TOKEN,
    Choice,
    Completion,
    Request,
    Usage,
    count_prompts,
    tokens_of,
)
from arena.llm.ledger import Ledger

if TYPE_CHECKING:
    from arena.llm.service import LLMService

SAMPLE_GAMES = 8
"""Games of bots for each model; one in which it has two seats counts twice."""
REASONS = 100
"""Tokens that a model is assumed to write before its action."""
THINKING = {"none": 0, "minimal": 250, "low": 500, "medium": 1500, "high": 4000}
"""Tokens that a model is assumed to think for a decision, by effort; "medium" is the default."""


class PromptRecorder(ChatRecorder):
    """Recorder of the requests that a model would have got, and of the length of its replies."""

    def __init__(self, bot: Agent, spec: str, match: Match) -> None:
        self.options = options = match.chat or ChatOptions()
        first = opening(match.game, options, match.turn_limit)
        super().__init__(bot, Chat(first, options.chat, text_level_of(spec, match.text_level)))
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
) -> Ledger:
    """Print and return the calls, tokens and cost of a run; print the settings with their origins.

    `line_ups` are the numbers of games by the SPECs of their seats. The first of the matches are
    played by bots. The service has no keys; None if no model plays. `most` precedes the number of
    games if it is a maximum.
    """
    specs = dict.fromkeys(s for players in line_ups for s in players if has_models([s]))
    ledger = asyncio.run(_estimate(line_ups, matches, llm, specs)) if llm and specs else Ledger()
    games, total, given = sum(line_ups.values()), ledger.total(), options.given()
    cost = None if total.unknown_cost else total.cost
    if as_json:
        print(json.dumps({"games": games, "cost": cost, **ledger.to_json(), "settings": given}))
        return ledger
    if given:
        stated = (
            f"{name} = {value_in_words(value)} ({origin})"
            for name, (value, origin) in given.items()
            if name != "dry_run"
        )
        echo(redacted(f"Settings: {'; '.join(stated)}"))
    if not specs:
        echo("No model would be asked: the run costs nothing.")
        return ledger
    print_grids([ledger_grid(ledger)])
    amount = "unknown" if cost is None else f"${cost:.4f}"
    noun = "game" if games == 1 else "games"
    echo(f"Total: {most}{games:,} {noun}; cost: {amount}.")
    if cost is None:
        echo("--set price_in=… --set price_out=… (USD per million tokens) state an unknown price.")
    echo("Bots played in place of the models; a model that plays worse has longer games.")
    return ledger


async def _estimate(
    line_ups: Mapping[tuple[str, ...], int],
    matches: Iterable[Match],
    llm: LLMService,
    specs: Iterable[str],
) -> Ledger:
    """Return the estimate of each model, from games until it has sat in enough of them."""
    seats: dict[str, list[PromptRecorder]] = {spec: [] for spec in specs}
    for match in matches:
        stand_in = default_bot(match.game)
        bots = [spec if Spec.parse(spec).prefix == "bot" else stand_in for spec in match.specs]
        agents = replace(match, specs=bots).seat()
        for seat, spec in enumerate(match.specs):
            if spec in seats:
                agents[seat] = recorder = PromptRecorder(agents[seat], spec, match)
                seats[spec].append(recorder)
        await play(replace(match, specs=bots), agents)
        if all(len(samples) >= SAMPLE_GAMES for samples in seats.values()):
            break
    ledger = Ledger()
    async with llm:
        for spec, samples in seats.items():
            number = sum(count * players.count(spec) for players, count in line_ups.items())
            share, options, traits = number / len(samples), samples[0].options, llm.traits(spec)
            thinking = 0
            if traits.thinks(options.sampling):
                by_effort = THINKING.get(options.sampling.reasoning_effort, THINKING["medium"])
                thinking = min(by_effort, options.sampling.max_tokens + options.thinking_room)
            calls = share * sum(len(sample.requests) for sample in samples)
            replies = share * sum(sample.reply_tokens for sample in samples) + calls * thinking
            counted = [count_prompts(sample.requests, traits.cached_prefix) for sample in samples]
            prompts = share * sum(usage.prompt_tokens for usage in counted)
            cached = share * sum(usage.cached_tokens for usage in counted)
            usage = Usage(round(prompts), round(replies), round(cached), round(calls * thinking))
            free = 0.0 if not traits.is_remote and traits.has_known_price else None
            cost = traits.price.cost_of(usage) if traits.price else free
            tally = ledger.tally(redacted(spec))
            tally.calls += round(calls)
            tally.add_usage(Completion(Choice(""), spec, usage, cost))
    return ledger
