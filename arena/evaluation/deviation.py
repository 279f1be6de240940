"""The gain of one deviating seat: a lower bound of how exploitable a player is, in any game.

A table of copies of one player is frozen, and a response takes one of the seats. With u_i the
expected return of seat i of n, p the player and r the response,

    gain(r) = (1/n) sum_i (u_i(r in seat i, p in the others) - u_i(p in all)).

The best response has the greatest gain, which is the player's exploitability
(`arena.evaluation.exact.exploitability`). So the gain of any response is a lower bound of it, and
the lower end of an interval for that gain is one at the level of the interval. On each deal the
response plays once in each seat and the player once in all, so most of the deal's luck cancels; the
deal is the unit of the interval. Responses are chosen on other deals than those of the bound, or
the best of several would look better than it is.

With more than two players a gain of one seat is found; several seats that work together may find
more, and that is not covered.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
from pydantic import JsonValue

from arena.agents.agent import Seat
from arena.core.action import CHANCE, Action
from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.core.observation import Observation
from arena.episodes.job import GameJob, ReplayFile
from arena.episodes.match import Match
from arena.episodes.record import Episode
from arena.evaluation.exact.exploitability import Policy, expected_returns, exploitability
from arena.evaluation.records import Interval, Number, ReportPart
from arena.evaluation.scoring import known_policy
from arena.evaluation.statistics import clustered_mean

NO_GAIN = 1e-9
"""An exploitability below it is a rounding error of 0."""


class ExactGain(ReportPart):
    """Values from the complete tree of a small game."""

    exploitability: float
    """Gain of a best response."""
    response: Number = None
    """Gain of the response that was found, if its policy is known."""
    share: Number = None
    """Gain of the response found as a share of a best response's."""
    bound_share: Number = None
    """The lower bound as a share of the exploitability."""


class Candidate(ReportPart):
    """A response that was compared."""

    spec: str
    gain: float
    """On the deals of the comparison, in units of the return."""


class ExploitReport(ReportPart):
    """Result of `arena exploit`."""

    game: str
    options: dict[str, JsonValue]
    player: str
    seed: int
    training_games: int
    candidates: list[Candidate]
    """All responses, best first, on `comparison_deals` deals that the bound does not use."""
    comparison_deals: int
    response: str
    """The candidate whose gain is measured."""
    gain: Interval
    """Gain of the response on fresh deals; its low end is the bound."""
    bound: Number
    """Lower bound of the player's exploitability, at 97.5 %; below 0 no exploit was found."""
    games: int
    """Games of the bound, `n` deals of the gain."""
    fallbacks: Number = None
    """Share of the player's decisions that were fallback moves."""
    exact: ExactGain | None = None
    exact_reason: str = ""
    """Why there is no exact value."""


class Played(ReportPart):
    """Measurement of a game of the bound or the comparison."""

    returns: tuple[float, ...]
    decisions: int
    """Of the frozen player."""
    fallbacks: int


def played(response: int | None, game: Game, episode: Episode) -> Played:
    """Measure a game with the response in this seat; None: in no seat.

    Raises ArenaError if the response failed: fallback moves are not its policy.
    """
    own = [ply for ply in episode.plies if ply.player == response]
    failures = [ply.decision.failure for ply in own if ply.decision.failure is not None]
    if failures:
        raise ArenaError(
            f"the response failed in the game of seed {episode.header.seed}: {failures[0]}"
        )
    others = [ply for ply in episode.plies if ply.player not in (response, CHANCE)]
    return Played(
        returns=episode.outcome.returns,
        decisions=len(others),
        fallbacks=sum(ply.decision.failure is not None for ply in others),
    )


@dataclass(frozen=True, slots=True)
class Deviation:
    """A table of copies of a player, in which a response takes one seat at a time."""

    match: Match
    """The game, its limits and how models are asked; players and seeds are set for each game."""
    player: str
    """SPEC of the frozen player."""

    def specs(self, response: str, seat: int | None) -> tuple[str, ...]:
        """Return the SPECs of a table with the response in this seat; None: in no seat."""
        seats = range(self.match.game.num_players)
        return tuple(response if each == seat else self.player for each in seats)

    def jobs(
        self, response: str | None, deals: Sequence[int], replays: Path | None = None, kept: int = 0
    ) -> Iterator[GameJob[Played]]:
        """Yield the games of a response: for each deal one in each seat; None: one of the player.

        The replays of the first `kept` deals are written.
        """
        seats = range(self.match.game.num_players) if response else (None,)
        for number, seed in enumerate(deals):
            for seat in seats:
                # The same draws in all of them: only the response differs.
                match = replace(self.match, specs=self.specs(response or "", seat), seed=seed)
                stem = f"deal{number:04}-seat{seat}"
                file = ReplayFile(replays, stem) if replays and number < kept else None
                name = f"deal {number} (seed {seed}), response in seat {seat}"
                yield GameJob(name, match, partial(played, seat), replay=file)


def gains(response: Sequence[Played], copies: Sequence[Played]) -> list[float]:
    """Return the gain of a response on each deal, from the games of `Deviation.jobs`."""
    seats = len(copies[0].returns)
    found = np.array([game.returns[place % seats] for place, game in enumerate(response)])
    before = np.array([game.returns for game in copies])
    return list(map(float, (found.reshape(-1, seats) - before).mean(axis=1)))


def gain_interval(values: Sequence[float], game: Game) -> Interval:
    """Return the mean gain with its 95 % interval over deals."""
    deals, bounds = np.arange(len(values)), game.return_scale.difference
    return Interval.of(clustered_mean(values, deals, bounds=bounds))


# Exact values


def stated_policy(spec: str, game: Game) -> Policy | None:
    """Return the policy of a bot that states its probabilities; None for other players."""

    def policy(observation: Observation) -> Mapping[Action, float]:
        # A fresh bot each time: the traversal asks in no order of play.
        bot = known_policy(spec, Seat(game, observation.player, Random(0)))
        assert bot is not None
        return bot.probabilities(observation)

    return None if known_policy(spec, Seat(game, 0, Random(0))) is None else policy


def exact_gain(
    game: Game, player: Policy, response: Policy | None, bound: float | None
) -> ExactGain:
    """Return the exploitability of a player, and how much of it a response and a bound found.

    Raises UsageError for a game whose complete tree is too large.
    """
    best = exploitability(game, player)
    if response is None:
        found = None
    else:
        table, seats = [player] * game.num_players, range(game.num_players)
        before = expected_returns(game, table)
        after = (expected_returns(game, [*table[:i], response, *table[i + 1 :]])[i] for i in seats)
        found = (math.fsum(after) - math.fsum(before)) / game.num_players
    # A share says nothing about a response that gains nothing, nor where there is nothing to gain.
    shares = [
        None if each is None or each <= 0 or best < NO_GAIN else each / best
        for each in (found, bound)
    ]
    return ExactGain(exploitability=best, response=found, share=shares[0], bound_share=shares[1])
