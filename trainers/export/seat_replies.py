"""Requests and replies of the models in a replay, with the reward of their seats, and their groups.

A group is the games of one seat that start at the same position, played by the same weights at the
same table. Their rewards may be compared: the mean reward of a group is GRPO's baseline. Branches
of one position are a group too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

from pydantic import JsonValue, ValidationError

from arena.agents.chat import Attempt, requests_of
from arena.agents.chat_agent import NO_ANSWER
from arena.core.action import CHANCE
from arena.core.errors import ReplayError, UsageError
from arena.core.event import Ply
from arena.core.game import Game
from arena.core.text import encodable, neutralise, shorten
from arena.episodes.branch import MAX_ATTEMPTS
from arena.episodes.record import Episode, Header
from arena.episodes.replay import Replay, verify
from arena.evaluation.analysis import episode_of
from arena.llm.backend import Message
from trainers.config.config import CreditName, TrainConfig
from trainers.credit.estimators import ILLEGAL, default_credit
from trainers.rewards import RewardBreakdown, Rewards, SeatEpisode, default_reward
from trainers.trajectory import Judgement, Judgements

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

    @property
    def size(self) -> int:
        """Return roughly its bytes, with the request."""
        characters = sum(len(message.content) for message in self.request)
        numbers = len(self.attempt.prompt_token_ids) + 3 * len(self.attempt.tokens)
        return characters + len(self.attempt.reply) + len(self.attempt.reasoning) + 8 * numbers


@dataclass(frozen=True, slots=True)
class SeatReplies:
    """All replies of a model in one seat of one game."""

    replay: Replay
    seat_episode: SeatEpisode
    breakdown: RewardBreakdown
    replies: tuple[ModelReply, ...]
    """In the order of the game; at least one was answered."""

    @property
    def seat(self) -> int:
        return self.seat_episode.seat

    @property
    def own(self) -> Episode:
        """Return the game without the plies of a branch's parent, which its own replay holds."""
        return _own_plies(self.seat_episode.episode)

    def judgements(self, reply: ModelReply) -> Judgements:
        """Return the values of a reply that `--credit judged` reads; not centred, not weighted."""
        if not reply.answered or reply.attempt.call:
            return ()
        if reply.attempt.failure is not None:
            return (Judgement(ILLEGAL, -1.0),)
        return self.breakdown.judgements.get(reply.ply.number, ())

    def facts(self, terms: Sequence[str]) -> dict[str, JsonValue]:
        """Return the columns that are equal in all rows of the seat; every one of `terms` is named.

        A term that the game does not have is None.
        """
        header, outcome = self.replay.header, self.seat_episode.episode.outcome
        return {
            # A file name need not be valid text, but a column must be.
            "replay": encodable(str(self.replay.path)),
            "game": header.game,
            "options": GameSetup.of(header).options,
            "seed": header.seed,
            "first_ply": header.first_own_ply,
            "text_level": header.text_level,
            "players": list(header.players),
            "seat": self.seat,
            "spec": header.players[self.seat],
            "won": outcome.is_winner(self.seat),
            "return": float(outcome.returns[self.seat]),
            "reward": self.breakdown.reward,
            "terms": {name: self.breakdown.terms.get(name) for name in terms},
        }


@dataclass(frozen=True, slots=True)
class GameSetup:
    """Name and options of a game; games of one set-up share a reward."""

    game: str
    options: str
    """As JSON with sorted keys."""

    @classmethod
    def of(cls, header: Header) -> GameSetup:
        """Return the set-up of a replay."""
        return cls(header.game, json.dumps(header.options, sort_keys=True))


class ReplyReader:
    """Reads the models' replies from replays, and computes rewards."""

    def __init__(self, games: Sequence[Game], reward: str, *, with_credit: bool = False) -> None:
        """`games` are those whose columns are known in advance; `reward` is --reward.

        Without it the reward is the game's default, `with_credit` the one beside the game's default
        credit, as `arena train` takes it. Raises UsageError if none of the games has this reward.
        """
        self._reward = reward
        self._with_credit = with_credit
        self._by_setup: dict[GameSetup, Rewards] = {}
        self._known: list[Rewards] = []
        for game in games:
            # A game without models need not have the reward; one with models fails in `seats`.
            with suppress(UsageError):
                self._known.append(self._parse(game))
        if games and not self._known:
            self._parse(games[0])  # Raises the error that was suppressed.

    @property
    def terms(self) -> list[str]:
        """Return the names of the reward terms of all games."""
        names = (term.name for rewards in self._known for term in rewards.terms)
        return list(dict.fromkeys(names))

    @property
    def rewards(self) -> Mapping[str, str]:
        """Return the reward of each game by its name, in the form of --reward."""
        return {
            rewards.game.name: ",".join(
                f"{name}={weight:g}" for name, weight in rewards.weights.items()
            )
            for rewards in self._known
        }

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
        seats = []
        for seat in range(rewards.game.num_players):
            replies = tuple(_replies(_own_plies(episode), seat))
            if any(reply.answered for reply in replies):
                seat_episode = SeatEpisode(rewards.game, episode, seat)
                breakdown = rewards.score(seat_episode)
                seats.append(SeatReplies(replay, seat_episode, breakdown, replies))
        if not seats:
            raise ReplayError(f"{replay.path}: no model has answered in this game")
        return seats

    def trainable_seats(self, replay: Replay) -> list[SeatReplies]:
        """Return the seats whose sampled tokens have ids. Raises as `seats`, also without any."""
        seats = [seat for seat in self.seats(replay) if _has_tokens(seat)]
        if not seats:
            raise ReplayError(
                f"{replay.path}: no token ids and log-probabilities are recorded: arena play keeps "
                "them with --set logprobs=true, if the model's backend gives both"
            )
        return seats

    def weights(self, replay: Replay) -> Mapping[str, float]:
        """Return the weights of the reward in this game, by the name of the term."""
        return self._rewards_of(replay).weights

    def _parse(self, game: Game) -> Rewards:
        """Return the reward, with judgements if the game values decisions. Raises UsageError."""
        credit: CreditName = "judged" if game.analysis.decision_kinds else "game"
        beside = default_credit(TrainConfig(game=game.name), game) if self._with_credit else "game"
        return Rewards.parse(self._reward or default_reward(game, beside), game, credit=credit)

    def _rewards_of(self, replay: Replay) -> Rewards:
        setup = GameSetup.of(replay.header)
        if setup not in self._by_setup:
            game = replay.make_game()
            known = (rewards for rewards in self._known if rewards.game == game)
            self._by_setup[setup] = next(known, None) or self._parse(game)
        return self._by_setup[setup]


def _own_plies(episode: Episode) -> Episode:
    return replace(episode, plies=episode.plies[episode.header.first_own_ply :])


def _has_tokens(seat: SeatReplies) -> bool:
    """Return whether tokens were sampled, and all of them have ids."""
    tokens = [token for reply in seat.replies for token in reply.attempt.tokens]
    return bool(tokens) and all(number is not None for number, _, _ in tokens)


def _replies(episode: Episode, seat: int) -> list[ModelReply]:
    decisions = [(ply, _attempts(ply)) for ply in episode.plies if CHANCE != ply.player == seat]
    # A request stores only what it adds to the one before, so all are rebuilt in order.
    requests = iter(requests_of(attempt for _, attempts in decisions for attempt in attempts))
    return [
        ModelReply(ply, number, number == len(attempts), next(requests), attempt)
        for ply, attempts in decisions
        for number, attempt in enumerate(attempts, start=1)
    ]


def _attempts(ply: Ply) -> list[Attempt]:
    """Return the requests at this decision. Raises ReplayError for impossible values."""
    listed = ply.decision.details.get("attempts", [])
    where = f"ply {ply.number + 1}: attempts"
    try:
        # A value that is no list raises TypeError, which is reported as well.
        attempts = [Attempt.model_validate(raw) for raw in listed]  # type: ignore[union-attr]
    except (ValidationError, TypeError) as error:
        fault = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise ReplayError(f"{where}: {shorten(fault)}") from None
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


@dataclass(frozen=True, slots=True, order=True)
class StartPosition:
    """The position from which games of a group start; such games are adjacent in the file."""

    game: str
    options: str
    seed: int
    branches: tuple[str, ...]
    """PARENT/PLY of each branching; empty for a game that starts with the deal."""

    @classmethod
    def of(cls, header: Header) -> StartPosition:
        """Return the start of a replay's game."""
        branches = tuple(f"{branch.parent_sha256}/{branch.ply}" for branch in header.branches)
        return cls(header.game, GameSetup.of(header).options, header.seed, branches)

    @property
    def metadata(self) -> dict[str, float | int | str | bool | None]:
        """Return what ART keeps of a group; the type is ART's."""
        return {"game": self.game, "options": self.options, "seed": self.seed}


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Common features of a group's games, beside their start position."""

    dealt: tuple[str, ...]
    """Chance actions before the first decision: a branch may have another deal."""
    seat: int
    players: tuple[str, ...]
    text_level: str
    model: str
    versions: tuple[int, ...]

    @classmethod
    def of(cls, seat: SeatReplies) -> GroupKey:
        """Return the features of a seat's game; `model` is the one that gave the last tokens."""
        header = seat.replay.header
        attempts = [reply.attempt for reply in seat.replies if reply.attempt.tokens]
        versions = {a.policy_version for a in attempts if a.policy_version is not None}
        dealing = takewhile(lambda ply: ply.player == CHANCE, seat.seat_episode.episode.plies)
        return cls(
            tuple(str(ply.decision.action) for ply in dealing),
            seat.seat,
            header.players,
            header.text_level,
            attempts[-1].model if attempts else "",
            tuple(sorted(versions)),
        )
