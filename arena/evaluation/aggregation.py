"""What is learned of games that come one by one: an evaluation, a tournament, an analysis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from arena.core.assessment import Share
from arena.core.game import Game
from arena.core.json import Json
from arena.evaluation.records import Estimate, GameResult, finite
from arena.evaluation.schedule import balance, design_text
from arena.evaluation.statistics.confidence_sequence import ConfidenceSequence
from arena.evaluation.statistics.control_variate import controlled_mean
from arena.evaluation.statistics.intervals import (
    clustered_mean,
    difference_of_ratios,
    games_needed,
    games_needed_for_rates,
)
from arena.evaluation.statistics.ratings import rate as rate_players
from arena.evaluation.statistics.samples import Sample
from arena.evaluation.summary import bounds_of, head_of, player_report, table_names

FEWEST = 20
"""Scored games from which luck is taken out of the win rate: before, its coefficient is a guess."""


class Evaluation:
    """The games of `arena eval`, taken in one by one in the order of the schedule."""

    def __init__(
        self,
        game: Game,
        player: str,
        baseline: str | None,
        target: float | None = None,
        against: Sequence[str] = (),
    ) -> None:
        self.game = game
        self.player = Sample(player)
        self.baseline = Sample(baseline) if baseline else None
        self.against = list(against)
        self.target = target
        """Half width at which the confidence sequence is narrow enough."""
        self.sequence = ConfidenceSequence(-1.0 if baseline else 0.0, 1.0)
        self.games = 0
        self.scored = 0
        self._luck: list[tuple[float, float]] = []
        self._lucky_wins: list[float] = []

    def add(self, result: GameResult) -> None:
        """Take in the next game. The two games of a deal come one after the other."""
        tested = result.slot.seat
        assert tested is not None
        self.games += 1
        self.scored += result.scored
        seat = result.seats[tested]
        sample = self.player if result.slot.role == "player" else self.baseline
        assert sample is not None
        sample.games += 1
        sample.add(result.slot.seed, seat, result.clean)
        if sample is self.player:
            self._note_luck(result, tested)
        if self.baseline is None:
            self.sequence.add(float(seat.won))
        elif sample is self.baseline:
            self.sequence.add(float(self.player.won[-1]) - float(seat.won))

    def _note_luck(self, result: GameResult, tested: int) -> None:
        if not (result.scored and self.game.luck):
            return
        nothing = Share(0.0)
        bits = [seat.shares.get(self.game.luck, nothing).total for seat in result.seats]
        own = bits.pop(tested)
        self._luck.append((own, sum(bits) / max(1, len(bits))))
        self._lucky_wins.append(float(result.seats[tested].won))

    def status(self) -> str:
        """The result so far."""
        won = sum(self.player.won) / max(1, len(self.player))
        return f"{self.player.player} won {won:.0%}"

    @property
    def enough(self) -> bool:
        """Whether the interval is as narrow as was asked for."""
        if self.target is None or len(self.player) < 2:
            return False
        return self.sequence.interval().half_width <= self.target

    def report(self) -> dict[str, Json]:
        samples = [self.player, *([self.baseline] if self.baseline else [])]
        return {
            "kind": "eval",
            **head_of(self.game, self.games, self.scored, samples),
            "players": [player_report(sample, self.game) for sample in samples],
            "against": self.against,
            "design": design_text(self.game.num_players, paired=self.baseline is not None),
            "comparison": self._comparison(),
            "controlled": self._controlled(),
            "sequential": self._sequential(),
        }

    def _comparison(self) -> dict[str, Json] | None:
        if self.baseline is None or not len(self.baseline):
            return None
        deals = len(self.baseline)
        first, second = self.player, self.baseline
        differences = np.array(first.won[:deals], float) - np.array(second.won, float)
        clean = np.array(first.clean[:deals], bool) & np.array(second.clean, bool)
        sd = float(differences.std(ddof=1)) if deals > 1 else float("nan")
        mean = float(differences.mean())
        return {
            "player": first.player,
            "baseline": second.player,
            "deals": deals,
            "difference": _paired(differences, second.deals),
            "games_needed": games_needed(mean, sd),
            "games_needed_unpaired": games_needed_for_rates(_rate(first), _rate(second)),
            "clean_difference": _paired(differences[clean], np.array(second.deals)[clean]),
            "measures": self._measure_differences(),
        }

    def _measure_differences(self) -> dict[str, Json]:
        assert self.baseline is not None
        first, second = self.player, self.baseline
        both = [name for name in table_names(first) if name in second.names]
        both = [name for name in both if name != self.game.luck]  # What it tells is no skill.
        low, high = bounds_of(self.game, both).T
        bounds = np.stack([low - high, high - low], axis=1)
        estimates = difference_of_ratios(first.sums(both), second.sums(both), bounds=bounds)
        return {name: e.to_json() for name, e in zip(both, estimates, strict=True)}

    def _controlled(self) -> dict[str, Json] | None:
        if len(self._luck) < FEWEST:
            return None
        found = controlled_mean(np.array(self._lucky_wins), np.array(self._luck))
        return {
            "estimate": _as_share(found.estimate).to_json(),
            "plain": found.plain.to_json(),
            "gain": found.gain,
            "possible_bias": finite(found.possible_bias),
            "valid": found.valid,
            "luck": [mean.to_json() for mean in found.luck_means],
        }

    def _sequential(self) -> dict[str, Json] | None:
        if self.target is None:
            return None
        return {
            "of": "difference" if self.baseline else "win rate",
            "estimate": self.sequence.interval().to_json(),
            "target": self.target,
            "reached": self.enough,
        }


def _as_share(estimate: Estimate) -> Estimate:
    """With ends that a share can have."""
    return replace(estimate, low=max(0.0, estimate.low), high=min(1.0, estimate.high))


def _rate(sample: Sample) -> float:
    return sum(sample.won) / len(sample)


def _paired(differences: ArrayLike, deals: ArrayLike) -> dict[str, Json]:
    return clustered_mean(differences, deals, bounds=(-1.0, 1.0)).to_json()


class Tournament:
    """The games of `arena tournament`: ratings, ranks, seats and pairs."""

    def __init__(self, game: Game, players: Sequence[str]) -> None:
        self.game = game
        self._samples = {player: Sample(player) for player in players}
        self._outcomes: list[GameResult] = []

    @property
    def games(self) -> int:
        return len(self._outcomes)

    @property
    def enough(self) -> bool:
        return False

    def add(self, result: GameResult) -> None:
        add_seats(self._samples, result)
        bare = tuple(replace(seat, shares={}) for seat in result.seats)
        # Who plays is called here as it may be shown, which is how `players` are named.
        slot = replace(result.slot, specs=tuple(seat.player for seat in result.seats))
        self._outcomes.append(replace(result, slot=slot, seats=bare))

    def status(self) -> str:
        return self.game.name

    def report(self) -> dict[str, Json]:
        played, players = self._outcomes, list(self._samples)
        ratings = rate_players(played, players)
        clean = [result for result in played if result.clean]
        clean_ratings = rate_players(clean, players) if len(clean) < len(played) else ratings
        rows = [
            {
                **player_report(sample, self.game),
                "rating": ratings.ratings[player].to_json(),
                "rank": ratings.ranks[player].to_json(),
                "clean_rating": clean_ratings.ratings[player].to_json(),
            }
            for player, sample in self._samples.items()
        ]
        rows.sort(key=lambda row: -row["rating"]["value"])
        scored = sum(result.scored for result in played)
        slots = [result.slot for result in played]
        evenness = balance(slots, players, self.game.num_players)
        return {
            "kind": "tournament",
            **head_of(self.game, len(played), scored, list(self._samples.values())),
            "players": rows,
            "seats": [
                {"seat": seat, "effect": effect.to_json()}
                for seat, effect in enumerate(ratings.seats)
            ],
            "pairs": [meeting.to_json() for meeting in ratings.beats],
            "balance": evenness.to_json(),
            "design": f"Tables by a balanced draw: {evenness}. Each game is a deal of its own.",
        }


class Analysis:
    """Games of one kind that had been played already."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.games = 0
        self.scored = 0
        self._samples: dict[str, Sample] = {}

    def add(self, result: GameResult) -> None:
        self.games += 1
        self.scored += result.scored
        add_seats(self._samples, result)

    def report(self) -> dict[str, Json]:
        samples = list(self._samples.values())
        rows = [player_report(sample, self.game) for sample in samples]
        rows.sort(key=lambda row: -row["win_rate"]["value"])
        head = head_of(self.game, self.games, self.scored, samples)
        return {"kind": "analysis", **head, "players": rows}


def add_seats(samples: dict[str, Sample], result: GameResult) -> None:
    for seat in result.seats:
        sample = samples.setdefault(seat.player, Sample(seat.player))
        sample.add(result.slot.seed, seat, result.clean)
    for player in {seat.player for seat in result.seats}:
        samples[player].games += 1
