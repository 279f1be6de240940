"""Requests and replies of the models in a replay, with the reward of their seats."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pydantic import JsonValue

from arena.agents.chat import Attempt, parse_attempts, requests_of
from arena.agents.chat_agent import NO_ANSWER
from arena.core.errors import ReplayError
from arena.core.event import Ply
from arena.core.game import Game
from arena.core.text import encodable, neutralise, shorten
from arena.episodes.branch import MAX_ATTEMPTS
from arena.episodes.replay import Replay, verify
from arena.evaluation.analysis import episode_of
from arena.llm.backend import Message
from arena.plugins.catalog import catalog
from trainers.credit import JUDGED_WEIGHTS, Credit
from trainers.rewards import RewardBreakdown, Rewards, SeatEpisode, default_reward
from trainers.trajectory import Judgements, reply_judgements

Row = dict[str, JsonValue]
TOKEN_ID_LIMIT = 2**31
"""Larger than any vocabulary; ids are int32 in Parquet."""
COUNT_LIMIT = 2**53
"""Larger than any token count; integers below it are exact in JSON and in every table."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One request to a model, and its reply."""

    ply: Ply
    """The decision that the model was asked for."""
    number: int
    """Number of the request at this decision, from 1."""
    last: bool
    """The last request at this decision: then its action was played, or a fallback."""
    request: tuple[Message, ...]
    """All messages of the request."""
    attempt: Attempt

    @property
    def answered(self) -> bool:
        """Return whether there is a reply, legal or not."""
        return self.attempt.failure != "provider_error"

    @property
    def text(self) -> str:
        """Return the reply as it appears in the chat."""
        return self.attempt.reply or self.attempt.refusal or NO_ANSWER


@dataclass(frozen=True, slots=True)
class SeatReplies:
    """All replies of a model in one seat of one game."""

    replay: Replay
    seat_episode: SeatEpisode
    breakdown: RewardBreakdown
    credit: Credit
    replies: tuple[ModelReply, ...]
    """Replies in the order of the game; at least one was answered."""

    @property
    def seat(self) -> int:
        return self.seat_episode.seat

    def judgements(self, reply: ModelReply) -> Judgements:
        """Return the values of a reply that `--credit judged` reads; not centred, not weighted."""
        if not reply.answered:
            return ()
        is_legal = reply.attempt.failure is None
        return reply_judgements(self.breakdown.judgements, reply.ply.number, is_legal)

    def turn_reward(self, reply: ModelReply) -> float:
        """Return the judged reward of a reply; 0 if nothing in it is valued."""
        return self.credit.turn_reward(self.judgements(reply))

    @property
    def facts(self) -> dict[str, JsonValue]:
        """Return the columns that are equal in all rows of the seat."""
        header, outcome = self.replay.header, self.seat_episode.episode.outcome
        return {
            # A file name need not be valid text, but a column must be.
            "replay": encodable(str(self.replay.path)),
            "game": header.game,
            "options": json.dumps(header.options, sort_keys=True),
            "seed": header.seed,
            "first_ply": header.first_own_ply,
            "text_level": header.text_level,
            "players": list(header.players),
            "seat": self.seat,
            "spec": header.players[self.seat],
            "won": outcome.is_winner(self.seat),
            "return": float(outcome.returns[self.seat]),
            "reward": self.breakdown.reward,
            "terms": {name: self.breakdown.terms.get(name) for name in reward_terms()},
        }


def reward_terms() -> list[str]:
    """Return the names of all reward terms; those that a reward lacks are null in a row."""
    return catalog().names("reward")


class ReplyReader:
    """Reads the models' replies from replays, and computes rewards."""

    def __init__(self, reward: str) -> None:
        """`reward` is --reward; an empty one is each game's own."""
        self._reward = reward
        self._by_setup: dict[tuple[str, str], Rewards] = {}

    def seats(self, replay: Replay) -> list[SeatReplies]:
        """Return the seats in which a model has answered; this plays the game again.

        Raises:
            ReplayError: the game is not legal by the rules, or no model has answered in it.
            UsageError: the game does not have the reward.
        """
        replay.make_game()  # First, so that an unknown game is reported as such.
        if not any("attempts" in getattr(move, "details", ()) for move in replay.moves):
            raise ReplayError(f"{replay.path}: no model was asked in this game")
        rewards = self._rewards_of(replay)
        difference = verify(replay)
        if difference:
            raise ReplayError(f"{replay.path}: not by the rules, at {difference}")
        episode = episode_of(replay)
        # A branch's earlier plies are in the replay of its parent.
        own = episode.plies[episode.header.first_own_ply :]
        seats = []
        for seat in range(rewards.game.num_players):
            replies = tuple(_replies(own, seat))
            if any(reply.answered for reply in replies):
                seat_episode = SeatEpisode(rewards.game, episode, seat)
                breakdown = rewards.score(seat_episode)
                credit = _judged_credit(rewards.game)
                seats.append(SeatReplies(replay, seat_episode, breakdown, credit, replies))
        if not seats:
            raise ReplayError(f"{replay.path}: no model has answered in this game")
        return seats

    def _rewards_of(self, replay: Replay) -> Rewards:
        """Return the reward, with judgements if the game values decisions. Raises UsageError."""
        setup = replay.header.game, json.dumps(replay.header.options, sort_keys=True)
        if setup not in self._by_setup:
            game = replay.make_game()
            reward = self._reward or default_reward(game, "game")
            self._by_setup[setup] = Rewards.parse(reward, game, credit="judged")
        return self._by_setup[setup]


def _judged_credit(game: Game) -> Credit:
    """Return the credit by exact knowledge; in games without it only illegal replies count."""
    if game.analysis.decision_kinds:
        return Credit.judged(game)
    return Credit("judged", JUDGED_WEIGHTS)


def _replies(plies: Sequence[Ply], seat: int) -> list[ModelReply]:
    decisions = [(ply, _attempts(ply)) for ply in plies if ply.player == seat]
    # A request stores only what it adds to the one before, so all are rebuilt in order.
    requests = iter(requests_of(attempt for _, attempts in decisions for attempt in attempts))
    return [
        ModelReply(ply, number, number == len(attempts), next(requests), attempt)
        for ply, attempts in decisions
        for number, attempt in enumerate(attempts, start=1)
    ]


def _attempts(ply: Ply) -> list[Attempt]:
    """Return the requests at this decision. Raises ReplayError for impossible values."""
    where = f"ply {ply.number + 1}: attempts"
    attempts, invalid = parse_attempts(ply.decision.details)
    if invalid:
        raise ReplayError(f"{where}: {shorten(invalid[0][1])}")
    # A request that was too long for the model does not count as an attempt.
    counted = sum(attempt.cause != "context_length" for attempt in attempts)
    if counted > MAX_ATTEMPTS:
        raise ReplayError(f"{where}: {counted} at one decision, where {MAX_ATTEMPTS} is the most")
    for attempt in attempts:
        _check_numbers(attempt, where)
    return [_without_control_tokens(attempt) for attempt in attempts]


def _without_control_tokens(attempt: Attempt) -> Attempt:
    """Return an attempt whose texts a chat template can render: they forge no turn."""
    plain = partial(neutralise, is_answer=True)
    messages = tuple(replace(each, content=plain(each.content)) for each in attempt.messages)
    names = ("reply", "reasoning", "refusal", "excerpt")
    texts = {name: plain(getattr(attempt, name)) for name in names}
    return attempt.model_copy(update={"messages": messages, **texts})


def _check_numbers(attempt: Attempt, where: str) -> None:
    """Raise ReplayError for numbers that no model gives: training on them would do harm."""
    ids = [*attempt.prompt_token_ids, *(token[0] for token in attempt.tokens)]
    if not all(number is None or 0 <= number < TOKEN_ID_LIMIT for number in ids):
        raise ReplayError(f"{where}: a token id that no vocabulary has")
    if not all(math.isfinite(value) for _, *both in attempt.tokens for value in both if value):
        raise ReplayError(f"{where}: a log-probability that is not a finite number")
    counts = (attempt.policy_version or 0, attempt.prompt_tokens, attempt.completion_tokens)
    if not all(0 <= count < COUNT_LIMIT for count in counts):
        raise ReplayError(f"{where}: a count that is out of range")
