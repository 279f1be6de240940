"""From a replay to what each model in it was sent, what it said, and what that was worth."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from pydantic import ValidationError

from arena.agents.chat_agent import NO_ANSWER
from arena.agents.model_call import Attempt, requests_of
from arena.core.action import CHANCE
from arena.core.errors import ReplayError, UsageError
from arena.core.game import Game
from arena.core.json import Json
from arena.core.outcome import Outcome
from arena.core.ply import Ply
from arena.core.text import shortened
from arena.episodes.branch import MOST_ATTEMPTS
from arena.episodes.record import Episode, Header
from arena.episodes.replay import Replay, verify
from arena.llm.backend import Message
from trainers.rewards import Rewards, Rollout, Scored

LARGEST_ID = 2**31
"""Beyond every vocabulary."""
LARGEST_COUNT = 2**53
"""Beyond every count that a provider may give; exact in JSON and in every table."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One request to a model and what came of it."""

    ply: Ply
    """The decision that it was asked for."""
    number: int
    """Of the request at this decision, from 1."""
    last: bool
    """Whether it was the last one at this decision: it was played, or a fallback was."""
    request: tuple[Message, ...]
    """In full."""
    attempt: Attempt

    @property
    def answered(self) -> bool:
        """Whether there is a reply at all, be it no legal one."""
        return self.attempt.failure != "provider_error"

    @property
    def said(self) -> str:
        """The reply as it stands in the chat."""
        return self.attempt.reply or self.attempt.refusal or NO_ANSWER

    @property
    def size(self) -> int:
        """Roughly its bytes, the request's included."""
        letters = sum(len(message.content) for message in self.request)
        tokens = len(self.attempt.prompt_token_ids) + 3 * len(self.attempt.tokens)
        return letters + len(self.attempt.reply) + len(self.attempt.reasoning) + 8 * tokens


@dataclass(frozen=True, slots=True)
class SeatPlayed:
    """What a model did in one seat of one game."""

    replay: Replay
    rollout: Rollout
    scored: Scored
    replies: tuple[Reply, ...]
    """In order; at least one was answered."""

    @property
    def seat(self) -> int:
        return self.rollout.seat

    @property
    def own(self) -> Episode:
        """The game since it left another one: what was played before is in that one's replay."""
        return _own(self.rollout.episode)

    def facts(self, terms: Sequence[str]) -> dict[str, Json]:
        """What is the same for the whole game, beside the messages; all of `terms` are named."""
        header, outcome = self.replay.header, self.rollout.episode.outcome
        return {
            # A name need not be text, and must be here.
            "replay": str(self.replay.path).encode("utf-8", "replace").decode(),
            "game": header.game,
            "options": setup_of(header).options,
            "seed": header.seed,
            "first_ply": header.first_own_ply,
            "text_level": header.text_level,
            "players": list(header.players),
            "seat": self.seat,
            "spec": header.players[self.seat],
            "won": outcome.winner == self.seat,
            "return": float(outcome.returns[self.seat]),
            "reward": self.scored.reward,
            "terms": {name: self.scored.terms.get(name) for name in terms},
        }


@dataclass(frozen=True, slots=True)
class Setup:
    """The game and its options, as JSON: what has one reward."""

    game: str
    options: str


def setup_of(header: Header) -> Setup:
    return Setup(header.game, json.dumps(header.options, sort_keys=True))


class Reader:
    """Reads games, and knows what each is worth."""

    def __init__(self, games: Sequence[Game], reward: str) -> None:
        """Raises UsageError for a reward that none of the games has."""
        self._reward = reward
        self._rewards: dict[Setup, Rewards] = {}
        self._given: list[Rewards] = []
        for game in games:
            # Another game's replays need not have it, as long as no model was in them.
            with suppress(UsageError):
                self._given.append(Rewards.parse(reward, game))
        if games and not self._given:
            Rewards.parse(reward, games[0])

    @property
    def terms(self) -> list[str]:
        """The reward terms of any of the games."""
        return list(dict.fromkeys(term.name for each in self._given for term in each.terms))

    @property
    def rewards(self) -> Mapping[str, str]:
        """The reward of each game, as --reward takes it."""
        return {
            each.game.name: ",".join(f"{name}={weight:g}" for name, weight in each.weights.items())
            for each in self._given
        }

    def seats(self, replay: Replay) -> list[SeatPlayed]:
        """The seats in which a model was asked and answered; the game is played again for it.

        Raises ReplayError for what is no game by the rules, or if there is no such seat, and
        UsageError for a game that does not have the reward.
        """
        replay.make_game()  # What is no game at all is not said to lack a model.
        if not any("attempts" in getattr(move, "details", ()) for move in replay.moves):
            raise ReplayError(f"{replay.path}: no model was asked in this game")
        rewards, episode = self._of(replay), episode_of(replay)
        found = []
        for seat in range(rewards.game.num_players):
            replies = tuple(_replies(_own(episode), seat))
            if any(reply.answered for reply in replies):
                rollout = Rollout(rewards.game, episode, seat)
                found.append(SeatPlayed(replay, rollout, rewards.score(rollout), replies))
        if not found:
            raise ReplayError(f"{replay.path}: no model has answered in this game")
        return found

    def _of(self, replay: Replay) -> Rewards:
        """The reward of this game, which is made once."""
        setup = setup_of(replay.header)
        if setup not in self._rewards:
            game = replay.make_game()
            known = (each for each in self._given if each.game == game)
            self._rewards[setup] = next(known, None) or Rewards.parse(self._reward, game)
        return self._rewards[setup]


def episode_of(replay: Replay) -> Episode:
    """The game that a finished replay records. Raises ReplayError if the rules say otherwise."""
    assert replay.outcome is not None
    difference = verify(replay)
    if difference:
        raise ReplayError(f"{replay.path}: not by the rules, at {difference}")
    line = replay.outcome
    outcome = Outcome(line.status, line.reason, line.returns)
    return Episode(
        replay.header, tuple(walked.ply for walked in replay.walk()), outcome, line.turns
    )


def _own(episode: Episode) -> Episode:
    return replace(episode, plies=episode.plies[episode.header.first_own_ply :])


def _replies(episode: Episode, seat: int) -> list[Reply]:
    decisions = [(ply, _attempts(ply)) for ply in episode.plies if CHANCE != ply.player == seat]
    requests = iter(requests_of(each for _, attempts in decisions for each in attempts))
    return [
        Reply(ply, number, number == len(attempts), next(requests), attempt)
        for ply, attempts in decisions
        for number, attempt in enumerate(attempts, start=1)
    ]


def _attempts(ply: Ply) -> list[Attempt]:
    """Raises ReplayError for what cannot have been recorded."""
    listed = ply.decision.details.get("attempts", [])
    where = f"ply {ply.number + 1}: attempts"
    try:
        attempts = [Attempt.model_validate(raw) for raw in listed]
    except (ValidationError, TypeError) as error:
        fault = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise ReplayError(f"{where}: {shortened(fault)}") from None
    # A request that was too long for the model has cost no attempt.
    counted = sum(attempt.cause != "context_length" for attempt in attempts)
    if counted > MOST_ATTEMPTS:
        raise ReplayError(f"{where}: {counted} at one decision, where {MOST_ATTEMPTS} is the most")
    for attempt in attempts:
        _check_numbers(attempt, where)
    return attempts


def _check_numbers(attempt: Attempt, where: str) -> None:
    """Numbers that no model gives would be an accident wherever they are trained on."""
    ids = [*attempt.prompt_token_ids, *(token[0] for token in attempt.tokens)]
    if not all(number is None or 0 <= number < LARGEST_ID for number in ids):
        raise ReplayError(f"{where}: a token id that no vocabulary has")
    if not all(math.isfinite(value) for _, *both in attempt.tokens for value in both if value):
        raise ReplayError(f"{where}: a log-probability that is no finite number")
    counts = (attempt.policy_version or 0, attempt.prompt_tokens, attempt.completion_tokens)
    if not all(0 <= count < LARGEST_COUNT for count in counts):
        raise ReplayError(f"{where}: a count that is out of range")
