"""Estimate of what a run asks of its models, from games in which bots play in their seats.

The bots play the same match, and a recorder keeps the requests that a model would have got: in
both forms of the chat, since the form decides how long prompts are and how much of them a provider
finds in its cache.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from statistics import fmean
from typing import get_args

from arena.agents.action_tools import action_tools
from arena.agents.agent import Agent
from arena.agents.chat import Chat, ChatMode, ChatOptions, opening
from arena.agents.chat_agent import ChatRecorder
from arena.agents.scaffold import text_level_of
from arena.agents.seating import default_bot
from arena.core.action import Action
from arena.core.observation import Observation
from arena.core.spec import Spec, redacted
from arena.episodes.match import Match, play
from arena.llm.backend import BackendTraits, Message, Price, Request, Tool
from arena.llm.tokens import CHARACTERS_PER_TOKEN, PromptTokens, count_prompts, tokens_of

SAMPLE_GAMES = 8
"""Games of bots for each model."""
REASONS = 100
"""Tokens that a model is assumed to write before the line with its action."""
THINKING: Mapping[str, int] = {
    "none": 0,
    "minimal": 250,
    "low": 500,
    "medium": 1500,
    "high": 4000,
}
"""Tokens that a model is assumed to think for a decision, by effort; "medium" is the default."""


class PromptRecorder(ChatRecorder):
    """Recorder of the requests that a model would have got, and of the length of its replies."""

    def __init__(self, bot: Agent, match: Match, mode: ChatMode) -> None:
        self._options = options = match.chat or ChatOptions()
        level = match.text_level
        first = opening(match.game, options, level, match.turn_limit)
        super().__init__(bot, Chat(first, mode, level))
        self.requests: list[Request] = []
        self.reply_tokens = 0
        self._reasons = "x" * (reasons(options) * CHARACTERS_PER_TOKEN)

    def on_request(self, observation: Observation) -> None:
        options, game = self._options, observation.game
        question = game.text.belief_question(observation) if options.beliefs else None
        if question is not None:
            self._record((Message("user", question),))
            self.reply_tokens += REASONS
        tools = action_tools(game) if options.answers == "tools" and not options.guided else ()
        self._record((), tools)

    def _record(self, more: tuple[Message, ...], tools: tuple[Tool, ...] = ()) -> None:
        messages = (*self.chat.messages, *more)
        self.requests.append(Request(messages, tools=tools, repeated=self.chat.repeated))

    def reply(self, action: Action) -> str:
        text = f"{self._reasons}\nAction: {action}"
        self.reply_tokens += tokens_of(len(text))
        return text


def reasons(options: ChatOptions) -> int:
    """Return the tokens that a reply is assumed to hold beside the action."""
    if options.guided or options.answers == "tools":
        return 0
    return min(REASONS, options.sampling.max_tokens)


def thinking_tokens(traits: BackendTraits, options: ChatOptions) -> int:
    """Return the tokens that a model is assumed to think for a decision."""
    sampling = options.sampling
    if not (traits.always_thinks or (sampling.asks_to_think and traits.takes_thinking)):
        return 0
    by_effort = THINKING.get(sampling.reasoning_effort, THINKING["medium"])
    return min(sampling.thinking_tokens or by_effort, sampling.max_tokens + options.thinking_room)


@dataclass(frozen=True, slots=True)
class ModelTerms:
    """Properties of a model that its cost depends on."""

    traits: BackendTraits
    price: Price | None
    """Of its provider, or of the user; None if unknown."""

    @property
    def is_free(self) -> bool:
        """True if the model runs on this machine."""
        return self.price is None and not self.traits.is_remote and self.traits.has_known_price


@dataclass(frozen=True, slots=True)
class ChatEstimate:
    """Prompts of a model in one form of the chat: means of its games, and the cost of all."""

    prompt_tokens: float
    cached_tokens: float
    """Of the prompts' tokens, those that the provider is expected to find in its cache."""
    cost: float | None
    """US dollars of all games, replies included; None if the price is unknown."""


@dataclass(frozen=True, slots=True)
class ModelEstimate:
    """What a run asks of one model."""

    spec: str
    """Without secrets."""
    games: int
    calls: float
    """In the mean of its games, in all of its seats, like the tokens."""
    reply_tokens: float
    """Thinking included."""
    thinking_per_call: int
    """Assumed."""
    chats: Mapping[ChatMode, ChatEstimate]


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """What a run asks of all of its models."""

    games: int
    sampled_games: int
    stand_in: str
    """SPEC of the bot that has played in the seats of the models."""
    calls_range: tuple[int, int]
    """Fewest and most calls of a seat in a sampled game."""
    chat: ChatMode
    """Form of the chat that the run would use."""
    reasons_per_call: int
    """Tokens that a reply is assumed to hold beside the action and the thinking."""
    models: tuple[ModelEstimate, ...]

    def cost(self, chat: ChatMode) -> float | None:
        """Return the US dollars of the run in a form of the chat; None if a price is unknown."""
        costs = [model.chats[chat].cost for model in self.models]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    @property
    def calls(self) -> float:
        """Calls of the run."""
        return sum(model.games * model.calls for model in self.models)

    @property
    def tokens(self) -> float:
        """Tokens of the run, prompts and replies, in its form of the chat."""
        return sum(
            model.games * (model.chats[self.chat].prompt_tokens + model.reply_tokens)
            for model in self.models
        )


@dataclass(frozen=True, slots=True)
class SeatSample:
    """One seat of a sampled game: the requests that a model would have got in it."""

    spec: str
    requests: Mapping[ChatMode, Sequence[Request]]
    reply_tokens: int


def choose_samples(matches: Iterable[Match], models: Collection[str]) -> list[Match]:
    """Return the first matches, until each model plays in `SAMPLE_GAMES` of them."""
    chosen, games = [], Counter[str]()
    for match in matches:
        players = set(match.specs) & set(models)
        if any(games[spec] < SAMPLE_GAMES for spec in players):
            chosen.append(match)
            games.update(players)
        if all(games[spec] >= SAMPLE_GAMES for spec in models):
            break
    return chosen


async def play_sample(match: Match, models: Collection[str]) -> list[SeatSample]:
    """Play a match with bots instead of models and people; return the seats of the models."""
    stand_in = default_bot(match.game)
    bots = [spec if Spec.parse(spec).prefix == "bot" else stand_in for spec in match.specs]
    seated = replace(match, specs=bots)
    agents = seated.seat()
    recorders: dict[int, dict[ChatMode, PromptRecorder]] = {}
    for seat, spec in enumerate(match.specs):
        if spec in models:
            recorders[seat] = {}
            leveled = replace(match, text_level=text_level_of(spec, match.text_level))
            # Each recorder plays as the one before: one game gives the chats of all forms.
            for mode in get_args(ChatMode):
                agents[seat] = recorder = PromptRecorder(agents[seat], leveled, mode)
                recorders[seat][mode] = recorder
    await play(seated, agents)
    return [
        SeatSample(
            match.specs[seat],
            {mode: recorder.requests for mode, recorder in own.items()},
            next(iter(own.values())).reply_tokens,
        )
        for seat, own in recorders.items()
    ]


def estimate_run(
    match: Match,
    line_ups: Mapping[tuple[str, ...], int],
    samples: Sequence[Sequence[SeatSample]],
    models: Mapping[str, ModelTerms],
) -> RunEstimate:
    """Return the estimate for a run.

    `line_ups` are the numbers of games by the SPECs of their seats; `models` are all that play in
    one of them.
    """
    options = match.chat or ChatOptions()
    seats: dict[str, list[SeatSample]] = defaultdict(list)
    for seat in (seat for game in samples for seat in game):
        seats[seat.spec].append(seat)
    calls = [len(seat.requests[options.chat]) for own in seats.values() for seat in own]
    return RunEstimate(
        sum(line_ups.values()),
        len(samples),
        default_bot(match.game),
        (min(calls, default=0), max(calls, default=0)),
        options.chat,
        reasons(options),
        tuple(
            _estimate_model(spec, terms, line_ups, seats[spec], options)
            for spec, terms in models.items()
            if seats[spec]
        ),
    )


def _estimate_model(
    spec: str,
    terms: ModelTerms,
    line_ups: Mapping[tuple[str, ...], int],
    samples: Sequence[SeatSample],
    options: ChatOptions,
) -> ModelEstimate:
    games = sum(number for specs, number in line_ups.items() if spec in specs)
    # A model may have several seats in a game; a mean of a game is one of a seat times these.
    seats = sum(number * specs.count(spec) for specs, number in line_ups.items()) / games
    calls = seats * fmean(len(sample.requests[options.chat]) for sample in samples)
    thinking = thinking_tokens(terms.traits, options)
    replies = seats * fmean(sample.reply_tokens for sample in samples) + calls * thinking
    chats: dict[ChatMode, ChatEstimate] = {}
    for mode in get_args(ChatMode):
        cache = terms.traits.prompt_cache
        counted = (count_prompts(sample.requests[mode], cache) for sample in samples)
        tokens = reduce(add, counted, PromptTokens())
        share = seats / len(samples)
        cost = 0.0 if terms.is_free else None
        if terms.price is not None:
            prompts = share * tokens.cost(terms.price, cache)
            cost = games * (prompts + terms.price.cost(0, replies))
        chats[mode] = ChatEstimate(share * tokens.total, share * tokens.cached, cost)
    return ModelEstimate(redacted(spec), games, calls, replies, thinking, chats)
