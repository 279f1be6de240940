"""Workflow for AReaL: one game for each call, with a reward for each response of the model.

AReaL takes any object with this method; nothing of it is imported here:

    async def run(data, base_url, api_key, http_client) -> {response id: reward}

AReaL's proxy at `base_url` answers in OpenAI's format and keeps the tokens. It adds the rewards of
later responses to earlier ones (`turn_discount`), so a response gets here only what it has earned
itself; see `decision_rewards`.

    workflow = GameWorkflow("cluedo", options={"players": 3}, opponents=["bot:novice"])
    await workflow.run({"seed": 7}, base_url=..., api_key=..., http_client=...)
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

import httpx
from pydantic import JsonValue, SecretStr

from arena.agents.chat import ChatOptions
from arena.agents.chat_agent import ChatAgent
from arena.agents.seating import default_opponent
from arena.core.errors import ArenaError, UsageError
from arena.core.observation import TextLevel
from arena.core.seeds import check_seed
from arena.episodes.match import Match, play
from arena.episodes.record import Episode
from arena.llm.backend import Completion, Request, Sampling
from arena.llm.service import LLMService
from arena.llm.settings import Limits, RunLimits, Settings
from arena.plugins.loader import make_game
from backends.openai_http import HTTPBackend, check_url
from trainers.rewards import Rewards, SeatEpisode
from trainers.rewards.scoring import decision_rewards
from trainers.rollouts.trajectories import attempts_of, decision_statuses

LEARNER = "areal"
"""SPEC of the model that AReaL trains."""


class ProxyBackend(HTTPBackend):
    """AReaL's proxy, which knows the responses of a rollout by their ids."""

    def __init__(
        self, url: str, model: str, limits: Limits, key: str, client: httpx.AsyncClient | None
    ) -> None:
        super().__init__(url, model, limits, SecretStr(key), client=client)
        self.responses: list[str] = []
        """Ids of the responses, in order."""

    async def complete(self, request: Request) -> Completion:
        """Answer without a seed: the sampling is the trainer's."""
        unseeded = replace(request, sampling=replace(request.sampling, seed=None))
        completion = await super().complete(unseeded)
        if not completion.id:
            raise ArenaError(f"{self.url}: a response without an id cannot be given a reward")
        self.responses.append(completion.id)
        return completion


class GameWorkflow:
    """Plays games with the model at one seat.

    All arguments are plain values, so a configuration file can hold them.

    Args:
        game: Name of the game.
        options: Options of the game.
        model: Name of the model; AReaL's proxy takes any.
        seat: The seat of the model, unless `data` names another.
        opponents: SPECs of the other seats in order, the last one repeated. Default: the bot that
            others are measured against.
        reward: NAME=WEIGHT,…; empty for the default of the game.
        text_level: Help in the texts.
        max_turns: Turns after which a game is cut off; None for the game's own limit.
        max_attempts: Replies for one decision, with corrections.
        temperature: Of the sampling.
        top_p: Of the sampling.
        max_tokens: Longest reply.

    Raises:
        UsageError: The game does not have these options, this reward or this seat.
    """

    def __init__(
        self,
        game: str = "cluedo",
        *,
        options: Mapping[str, JsonValue] | None = None,
        model: str = "default",
        seat: int = 0,
        opponents: Sequence[str] = (),
        reward: str = "",
        text_level: TextLevel = "notes",
        max_turns: int | None = None,
        max_attempts: int = 3,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 512,
    ) -> None:
        self._game = make_game(game, **(options or {}))
        self._model = model
        self._seat = self._checked_seat(seat)
        self._opponents = [*opponents] or [default_opponent(self._game)]
        self._rewards = Rewards.parse(reward, self._game)
        sampling = Sampling(temperature=temperature, top_p=top_p, max_tokens=max_tokens)
        chat = ChatOptions(max_attempts=max_attempts, sampling=sampling)
        self._match = Match(self._game, text_level=text_level, chat=chat, max_turns=max_turns)
        self._settings = Settings.load()

    async def run(
        self,
        data: Mapping[str, JsonValue],
        base_url: str | None = None,
        api_key: str | None = None,
        http_client: httpx.AsyncClient | None = None,
        **others: object,
    ) -> dict[str, float]:
        """Play the game of `data["seed"]`, at the seat `data["seat"]` if it is given.

        Args:
            data: A row of the training data.
            base_url: The proxy; default: OPENAI_BASE_URL.
            api_key: Its key; default: OPENAI_API_KEY.
            http_client: Client for the calls; default: one for this game.
            others: Further arguments of AReaL, not used.

        Returns:
            The reward of each response, by its id. Empty if the seat never had to decide.

        Raises:
            UsageError: `data` has no seed or an impossible seat, or there is no proxy.
            ArenaError: The model gave no answer, so the game says nothing about it.
        """
        url = base_url or os.environ.get("OPENAI_BASE_URL")
        key = api_key or os.environ.get("OPENAI_API_KEY", "")
        if not url:
            raise UsageError("AReaL's workflow: no base_url, and OPENAI_BASE_URL is not set")
        seat, match = self._checked_seat(data.get("seat", self._seat)), self._deal(data)
        async with LLMService.limited(RunLimits(), self._settings) as llm:
            limits = self._settings.service.limits(LEARNER).model_copy(update={"concurrency": 1})
            proxy = ProxyBackend(check_url(url), self._model, limits, key, http_client)
            llm.add(LEARNER, proxy, is_trained=True)
            match = replace(match, specs=self._specs(seat))
            learner = ChatAgent(LEARNER, match.seat_of(seat, llm))
            episode = await play(match, match.seat(llm, {seat: learner}))
        return self._response_rewards(episode, seat, proxy.responses)

    def _deal(self, data: Mapping[str, JsonValue]) -> Match:
        seed = data.get("seed")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise UsageError(f"AReaL's workflow: data has no integer 'seed', but {seed!r}")
        check_seed(seed)
        # Games of one deal form a group, which must differ in play: the bots draw anew.
        return replace(self._match, seed=seed, agents_seed=uuid4().int % 2**62)

    def _checked_seat(self, seat: JsonValue) -> int:
        """Return the seat. Raises UsageError if the game has none of this number."""
        seats = self._game.num_players
        if isinstance(seat, bool) or not isinstance(seat, int) or not 0 <= seat < seats:
            raise UsageError(f"AReaL's workflow: seat {seat!r}: the seats are 0 to {seats - 1}")
        return seat

    def _specs(self, seat: int) -> list[str]:
        given = iter(self._opponents)
        last = self._opponents[-1]
        return [
            LEARNER if player == seat else next(given, last)
            for player in range(self._game.num_players)
        ]

    def _response_rewards(
        self, episode: Episode, seat: int, responses: Sequence[str]
    ) -> dict[str, float]:
        """Return the rewards by response. Raises ArenaError if the model gave no answer."""
        if any(status.unanswered for status in decision_statuses(episode, seat)):
            fault = next(each.text for each in episode.failures if each.player == seat)
            raise ArenaError(f"AReaL's workflow: the model gave no answer: {fault}")
        # The last answered reply of a decision has led to its move; the others were corrected.
        asked = [
            ply.number
            for ply in episode.plies
            for attempt in attempts_of(replace(episode, plies=(ply,)), seat)
            if attempt.failure != "provider_error"
        ]
        of_ply = dict(zip(asked, responses, strict=True))
        earned = decision_rewards(self._rewards, SeatEpisode(self._game, episode, seat), [*of_ply])
        corrected = dict.fromkeys(responses, 0.0)
        return corrected | {of_ply[ply]: reward for ply, reward in earned.items()}
