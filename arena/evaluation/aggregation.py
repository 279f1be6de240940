"""Aggregation of finished games into a report: an evaluation, a tournament, an analysis.

Each class takes in results one by one, in the order of the schedule, and can report at any moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from arena.core.assessment import WeightedSum
from arena.core.game import Game
from arena.evaluation.records import GameResult
from arena.evaluation.report import (
    Interval,
    LuckAdjusted,
    PairedComparison,
    PairResult,
    Report,
    SeatEffect,
    SequentialResult,
)
from arena.evaluation.schedule import design_text
from arena.evaluation.statistics.confidence_sequence import ConfidenceSequence
from arena.evaluation.statistics.control_variate import controlled_mean
from arena.evaluation.statistics.intervals import (
    clustered_mean,
    difference_of_ratios,
    games_needed,
    games_needed_for_rates,
    worst_cases,
)
from arena.evaluation.statistics.ratings import rate as rate_players
from arena.evaluation.statistics.samples import Sample
from arena.evaluation.summary import bounds_of, intervals_by_name, make_report, table_names
from arena.evaluation.tournament_schedule import balance

MIN_CONTROLLED_GAMES = 20
"""Scored games from which luck is removed from the win rate; with fewer, the regression
coefficient is a guess."""


class EvaluationAggregator:
    """Results of `arena eval`: one player, and perhaps a baseline on the same deals."""

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
        """Half width of the confidence sequence at which the run may stop."""
        self.any_time = False
        """Whether the number of games may depend on the results (`stopping_notes`)."""
        # A win is 0 or 1; a difference of two wins is -1, 0 or 1.
        self.sequence = ConfidenceSequence(-1.0 if baseline else 0.0, 1.0)
        self.games = 0
        self.scored = 0
        # For each scored game of the player: its own bits of luck, the opponents' mean, and 1 for
        # a win.
        self._luck: list[tuple[float, float]] = []
        self._wins_with_luck: list[float] = []

    def add(self, result: GameResult) -> None:
        """Add the next game. The game of the player comes before the baseline's on its deal."""
        tested = result.slot.seat
        assert tested is not None
        self.games += 1
        self.scored += result.scored
        seat = result.seats[tested]
        sample = self.player if result.slot.role == "player" else self.baseline
        assert sample is not None
        sample.games += 1
        sample.add(result.slot.seed, seat, result.no_fallback)
        if sample is self.player:
            self._add_luck(result, tested)
        # The sequence counts deals: each adds a win (0 or 1), or a difference of two wins.
        if self.baseline is None:
            self.sequence.add(float(seat.won))
        elif sample is self.baseline:
            self.sequence.add(float(self.player.won[-1]) - float(seat.won))

    def _add_luck(self, result: GameResult, tested: int) -> None:
        if not (result.scored and self.game.luck):
            return
        nothing = WeightedSum(0.0)
        bits = [seat.measurements.get(self.game.luck, nothing).total for seat in result.seats]
        # What remains are the opponents' bits.
        own = bits.pop(tested)
        self._luck.append((own, sum(bits) / max(1, len(bits))))
        self._wins_with_luck.append(float(result.seats[tested].won))

    def status(self) -> str:
        """Return the result so far in a few words."""
        won = sum(self.player.won) / max(1, len(self.player))
        return f"{self.player.player} won {won:.0%}"

    @property
    def enough(self) -> bool:
        """True if the interval has reached the target width."""
        # One observation has no variance, so the width says nothing yet.
        if self.target is None or len(self.player) < 2:
            return False
        return self.sequence.interval().half_width <= self.target

    def report(self) -> Report:
        samples = [self.player, *([self.baseline] if self.baseline else [])]
        return make_report(
            "eval",
            self.game,
            self.games,
            self.scored,
            samples,
            against=self.against,
            design=design_text(paired=self.baseline is not None),
            comparison=self._comparison(),
            controlled=self._luck_adjusted(),
            sequential=self._sequential(),
        )

    def _comparison(self) -> PairedComparison | None:
        if self.baseline is None or not len(self.baseline):
            return None
        # The last deal may still lack the baseline's game: only complete pairs count.
        deals = len(self.baseline)
        first, second = self.player, self.baseline
        differences = np.array(first.won[:deals], float) - np.array(second.won, float)
        sd = float(differences.std(ddof=1)) if deals > 1 else float("nan")
        return PairedComparison(
            player=first.player,
            baseline=second.player,
            deals=deals,
            difference=_paired(differences, second.deals),
            games_needed=games_needed(float(differences.mean()), sd),
            games_needed_unpaired=games_needed_for_rates(
                sum(first.won) / len(first), sum(second.won) / len(second)
            ),
            fallback_bounds=self._difference_bounds(),
            measures=self._measure_differences(),
        )

    def _difference_bounds(self) -> Interval:
        """Bound the difference that the same pairs would have had without fallback moves."""
        assert self.baseline is not None
        second, deals = self.baseline, len(self.baseline)
        own = worst_cases(self.player.won[:deals], self.player.no_fallback[:deals])
        other = worst_cases(second.won, second.no_fallback)
        return Interval.within(
            _paired(own[0] - other[1], second.deals), _paired(own[1] - other[0], second.deals)
        )

    def _measure_differences(self) -> dict[str, Interval]:
        assert self.baseline is not None
        first, second = self.player, self.baseline
        # Luck is left out: a difference in luck is not a difference in skill.
        both = [
            name for name in table_names(first) if name in second.names and name != self.game.luck
        ]
        low, high = bounds_of(self.game, both).T
        # The difference of two values in [low, high] lies in [low - high, high - low].
        bounds = np.stack([low - high, high - low], axis=1)
        return intervals_by_name(
            both, difference_of_ratios(first.sums(both), second.sums(both), bounds=bounds)
        )

    def _luck_adjusted(self) -> LuckAdjusted | None:
        if len(self._luck) < MIN_CONTROLLED_GAMES:
            return None
        controlled = controlled_mean(np.array(self._wins_with_luck), np.array(self._luck))
        estimate = controlled.estimate
        # The regression does not know that a win rate lies between 0 and 1.
        share = replace(estimate, low=max(0.0, estimate.low), high=min(1.0, estimate.high))
        return LuckAdjusted(
            estimate=Interval.of(share),
            plain=Interval.of(controlled.plain),
            variance_ratio=controlled.variance_ratio,
            possible_bias=round(controlled.possible_bias, 6),
            valid=controlled.valid,
            fault=controlled.fault,
            luck=[Interval.of(mean) for mean in controlled.luck_means],
        )

    def _sequential(self) -> SequentialResult | None:
        if self.target is None and not self.any_time:
            return None
        return SequentialResult(
            of="difference" if self.baseline else "win rate",
            estimate=Interval.of(self.sequence.interval()),
            target=self.target,
            reached=None if self.target is None else self.enough,
        )


def _paired(differences: ArrayLike, deals: ArrayLike) -> Interval:
    return Interval.of(clustered_mean(differences, deals, bounds=(-1.0, 1.0)))


class TournamentAggregator:
    """Results of `arena tournament`: ratings, ranks, seats and pairs."""

    enough = False
    """A tournament always plays its whole schedule."""
    any_time = False
    """Ratings have no confidence sequence."""

    def __init__(self, game: Game, players: Sequence[str]) -> None:
        self.game = game
        self._samples = {player: Sample(player) for player in players}
        self._results: list[GameResult] = []

    @property
    def games(self) -> int:
        return len(self._results)

    def add(self, result: GameResult) -> None:
        add_seats(self._samples, result)
        # Ratings need no measurements: without them a long tournament fits into memory.
        seats = tuple(replace(seat, measurements={}) for seat in result.seats)
        # `players` are SPECs without secrets; the slot may have them.
        slot = replace(result.slot, specs=tuple(seat.player for seat in result.seats))
        self._results.append(replace(result, slot=slot, seats=seats))

    def status(self) -> str:
        return self.game.name

    def report(self) -> Report:
        results, players = self._results, list(self._samples)
        ratings = rate_players(results, players)
        scored = sum(result.scored for result in results)
        samples = list(self._samples.values())
        head = make_report("tournament", self.game, len(results), scored, samples)
        rated = [
            row.model_copy(
                update={
                    "rating": Interval.of(ratings.ratings[row.player]),
                    "rank": Interval.of(ratings.ranks[row.player]),
                }
            )
            for row in head.players
        ]
        evenness = balance([result.slot for result in results], players, self.game.num_players)
        seats = enumerate(ratings.seats)
        report = head.model_copy(
            update={
                "players": rated,
                "seats": [SeatEffect(seat=n, effect=Interval.of(effect)) for n, effect in seats],
                "pairs": [
                    PairResult(
                        first=meeting.first,
                        second=meeting.second,
                        games=meeting.games,
                        ahead=Interval.of(meeting.ahead),
                    )
                    for meeting in ratings.meetings
                ],
                "balance": evenness,
                "design": f"Tables by a balanced draw: {evenness}. Each game has its own deal.",
            }
        )
        return report.model_copy(update={"players": report.ranked})


class AnalysisAggregator:
    """Results of games that were played earlier and have the same set-up."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.games = 0
        self.scored = 0
        self._samples: dict[str, Sample] = {}

    def add(self, result: GameResult) -> None:
        self.games += 1
        self.scored += result.scored
        add_seats(self._samples, result)

    def report(self) -> Report:
        samples = list(self._samples.values())
        head = make_report("analysis", self.game, self.games, self.scored, samples)
        return head.model_copy(update={"players": head.ranked})


def add_seats(samples: dict[str, Sample], result: GameResult) -> None:
    """Add each seat of a game to the sample of its player."""
    for seat in result.seats:
        sample = samples.setdefault(seat.player, Sample(seat.player))
        sample.add(result.slot.seed, seat, result.no_fallback)
    # A player may have several seats of a game, but the game counts once.
    for player in {seat.player for seat in result.seats}:
        samples[player].games += 1
