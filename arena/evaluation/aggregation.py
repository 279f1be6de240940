"""Aggregation of finished games into a report: an evaluation, a tournament.

An aggregator takes in results one by one, in the order of the schedule, and can report at any
moment. `make_aggregator` chooses it by the settings of a run, whether that is played or read.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import JsonValue

from arena.core.errors import ArenaError, UsageError
from arena.core.event import ReturnScale
from arena.core.game import Game
from arena.core.text import decimal, percentage
from arena.evaluation.records import TEAM, Estimate, GameResult, Interval
from arena.evaluation.report import PairResult, Report, SequentialResult
from arena.evaluation.scoring import measures_of
from arena.evaluation.statistics.confidence_sequence import ConfidenceSequence
from arena.evaluation.statistics.ratings import Ratings
from arena.evaluation.statistics.ratings import rate as rate_players
from arena.evaluation.store import Kind, Results
from arena.evaluation.summary import Sample, compare, holm, player_report

Key = TypeVar("Key", bound=Hashable)


DESIGN = "Deals are independent, each played once by the player, in a seat drawn at random."
PAIRED_DESIGN = (
    f"{DESIGN} The baseline plays the same deals in the same seats against the same opponents: "
    "most of the luck cancels in the difference."
)


class EvaluationAggregator:
    """Results of `arena eval`: each deal is played by the player and by its baseline, if any."""

    def __init__(
        self,
        game: Game,
        players: Sequence[str],
        target: float | None = None,
        against: Sequence[str] = (),
    ) -> None:
        self.game = game
        self.against = list(against)
        self.target = target
        """Half width of the confidence sequence at which the run may stop."""
        self.any_time = False
        """True if the number of games may depend on the results (`stopping_reason`)."""
        self.games = 0
        self.scored = 0
        self._samples = [Sample(player) for player in players]
        self._deal: list[GameResult] = []
        """Games of the latest deal until both players have played it."""
        scale = game.return_scale
        # The method needs bounded observations, so a scale without a range has no sequence.
        self._sequence: ConfidenceSequence | None = None
        if scale.is_bounded:
            ends = scale.difference if len(players) > 1 else scale.bounds
            self._sequence = ConfidenceSequence(*ends)
        if target is not None:
            _check_target(game, target)

    def add(self, result: GameResult) -> None:
        """Add the next game. Games count once their deal was played by all players."""
        assert result.slot.role == ("baseline" if self._deal else "player")
        self._deal.append(result)
        if len(self._deal) < len(self._samples):
            return
        for sample, each in zip(self._samples, self._deal, strict=True):
            sample.add_tested(each, self.game.return_scale)
            self.scored += each.scored
        self.games += len(self._deal)
        self._deal.clear()

    def status(self) -> str:
        """Return the result of the first player so far in a few words."""
        scale, player = self.game.return_scale, self._samples[0]
        games = max(1, len(player))
        if scale.is_win_rate:
            return f"{player.player} won {percentage(player.endings['won'] / games)}"
        mean = decimal(player.total_return / games, 2, signed=True)
        return f"{player.player}: {scale.name} {mean} {scale.unit}".rstrip()

    @property
    def enough(self) -> bool:
        """True if the interval has reached the target width."""
        # One observation has no variance, so the width says nothing yet.
        if self.target is None or len(self._samples[0]) < 2:
            return False
        return self._estimate().half_width <= self.target

    def report(self) -> Report:
        is_paired = len(self._samples) > 1
        return make_report(
            "eval",
            self.game,
            self.games,
            self.scored,
            self._samples,
            against=self.against,
            design=PAIRED_DESIGN if is_paired else DESIGN,
            comparison=compare(self.game, *self._samples) if is_paired and self.games else None,
            sequential=self._sequential(),
        )

    def _estimate(self) -> Estimate:
        """Return the interval of the confidence sequence after all deals so far."""
        sequence = self._sequence
        assert sequence is not None
        # The sequence counts deals: each adds a return, or a difference of two returns.
        for deal in range(sequence.n, len(self._samples[0])):
            own, *others = (sample.returns[deal] for sample in self._samples)
            sequence.add(own - sum(others))
        return sequence.interval()

    def _sequential(self) -> SequentialResult | None:
        # If the games decided when to stop, only the confidence sequence is valid.
        if self._sequence is None or (self.target is None and not self.any_time):
            return None
        mean: Literal["win rate", "return"] = "return"
        if self.game.return_scale.is_win_rate:
            mean = "win rate"
        return SequentialResult(
            of="difference" if len(self._samples) > 1 else mean,
            estimate=Interval.of(self._estimate()),
            target=self.target,
            reached=None if self.target is None else self.enough,
        )


def _check_target(game: Game, target: float) -> None:
    """Raise UsageError unless an interval of returns can get as narrow as ± target."""
    scale = game.return_scale
    if scale.low is None or scale.high is None:
        raise UsageError(
            f"--until-ci {target:g}: {game.name} does not declare the range of its returns, which "
            "a valid stopping rule needs; give --games instead, or set `return_scale` in the game"
        )
    most = (scale.high - scale.low) / 2
    if not 0 < target <= most:
        raise UsageError(
            f"--until-ci {target:g}: the {scale.name} of {game.name} lies in {scale.range_text}, "
            f"so give a number above 0 and up to {most:g}"
        )


class TournamentAggregator:
    """Results of `arena tournament`: ratings, ranks, seats and pairs."""

    enough = False
    """A tournament always plays its whole schedule."""
    target: float | None = None
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
        keys = [seat.player for seat in result.seats]
        add_seats(self._samples, keys, result, self.game.return_scale)
        # Ratings need only the teams: without measurements a long tournament fits into memory.
        seats = tuple(
            replace(seat, measurements={n: v for n, v in seat.measurements.items() if n == TEAM})
            for seat in result.seats
        )
        # `players` are SPECs without secrets; the slot may have them.
        slot = replace(result.slot, specs=tuple(seat.player for seat in result.seats))
        self._results.append(replace(result, slot=slot, seats=seats))

    def status(self) -> str:
        return self.game.name

    def report(self) -> Report:
        results, players = self._results, list(self._samples)
        ratings = rate_players(results, players)
        rows = [
            {"rating": Interval.of(ratings.ratings[each]), "rank": Interval.of(ratings.ranks[each])}
            for each in players
        ]
        return make_report(
            "tournament",
            self.game,
            len(results),
            sum(result.scored for result in results),
            self._samples.values(),
            rows,
            pairs=pair_results(ratings),
            design="Tables by a balanced draw. Each game has its own deal.",
        )


Aggregator = EvaluationAggregator | TournamentAggregator


def add_seats(
    samples: dict[Key, Sample], keys: Sequence[Key], result: GameResult, scale: ReturnScale
) -> None:
    """Add each seat of a game to the sample with its key; a new sample has the seat's player."""
    for number, (key, seat) in enumerate(zip(keys, result.seats, strict=True)):
        samples.setdefault(key, Sample(seat.player)).add(result, number, scale)
    # A player may have several seats of a game, but the game counts once.
    for key in set(keys):
        samples[key].games += 1


def pair_results(ratings: Ratings) -> list[PairResult]:
    """Return the comparison of each two rated players, with adjusted p-values."""
    # A pair is in the list in both orders, which is one comparison.
    adjusted = holm({frozenset((m.first, m.second)): m.difference.p for m in ratings.meetings})
    return [
        PairResult(
            first=meeting.first,
            second=meeting.second,
            games=meeting.games,
            ahead=Interval.of(meeting.ahead),
            difference=Interval.of(meeting.difference),
            adjusted_p=adjusted[frozenset((meeting.first, meeting.second))],
        )
        for meeting in ratings.meetings
    ]


def make_aggregator(
    kind: Kind,
    game: Game,
    settings: Mapping[str, JsonValue],
    players: Sequence[str],
    target: float | None = None,
) -> Aggregator:
    """Return what turns the games of a run with these settings into a report.

    Settings of an evaluation name its players; `players` are those of a tournament.
    """
    if kind == "tournament":
        return TournamentAggregator(game, players)
    against = settings.get("against")
    opponents = [str(name) for name in against] if isinstance(against, list) else []
    compared = [str(settings[name]) for name in ("player", "baseline") if settings.get(name)]
    return EvaluationAggregator(game, compared, target, opponents)


def make_report(
    kind: Literal["tournament", "eval", "analysis"],
    game: Game,
    games: int,
    scored: int,
    samples: Collection[Sample],
    rows: Sequence[Mapping[str, Any]] = (),
    notes: Iterable[str] = (),
    **parts: Any,
) -> Report:
    """Return a report with one player for each sample.

    `rows` hold what its kind adds to each player, `notes` its first notes, `parts` its other parts.
    The players of an evaluation keep their order, others come with the best first.
    """
    names = {name for sample in samples for name in sample.names}
    par = game.return_scale.par_of(game.num_players)
    players = [
        player_report(sample, game, names).model_copy(update=row)
        for sample, row in zip(samples, rows or [{}] * len(samples), strict=True)
    ]
    report = Report(
        kind=kind,
        game=game.name,
        options=game.options.model_dump(mode="json"),
        games=games,
        scored=scored,
        scale=game.return_scale,
        has_winner=game.return_scale.has_winner,
        par=None if par is None else round(par, 6),
        measures=measures_of(game, names),
        notes=[*notes, *(note for sample in samples for note in _notes(sample, game))],
        players=players,
        **parts,
    )
    return report if kind == "eval" else report.model_copy(update={"players": report.ranked})


def _notes(sample: Sample, game: Game) -> Iterator[str]:
    if sample.with_fallback:
        yield (
            f"{sample.player}: {sample.with_fallback} of {len(sample)} seats were in games with a "
            f"fallback move ({sample.fallbacks} its own): their results are also about the form of "
            "replies."
        )
    if sample.without_winner and game.return_scale.has_winner:
        yield (
            f"{sample.player}: {sample.without_winner} of {len(sample)} seats were in finished "
            "games that no player won; they count as lost."
        )


def report_results(results: Results) -> Report:
    """Return the report of the games at the start of the schedule that are finished.

    A game counts once all games before it are finished: short games finish first, so the games
    that happen to be finished are not a fair sample of the schedule. Raises ArenaError if the file
    cannot be read, or its game is not installed.
    """
    experiment = results.experiment
    game, settings = results.make_game(), experiment.settings
    aggregator = make_aggregator(experiment.kind, game, settings, experiment.players)
    try:
        for result in results.leading_games(game):
            aggregator.add(result)
    except (AssertionError, LookupError, ValueError):
        raise ArenaError(f"{results.folder}: its games are not those of its settings") from None
    if not aggregator.games:
        raise ArenaError(f"{results.folder}: no game is finished yet")
    report = finish_report(aggregator, len(experiment.schedule), len(experiment.looks))
    seed = settings.get("seed")
    return report.model_copy(
        update={"seed": seed if isinstance(seed, int) else None, "settings": dict(settings)}
    )


def read_report(folder: Path | str) -> Report:
    """Return the report of a run: results of players with intervals, differences, notes.

    `arena.evaluation.document.tables.document` makes its sentences and tables. Raises ArenaError
    for a folder that cannot be read, or without a finished game.

        >>> report = read_report("runs/eval/cluedo-cards-4p-seed1-detective")
        >>> report.players[0].win_rate.value
    """
    with Results.read(folder) as results:
        return report_results(results)


def finish_report(aggregator: Aggregator, planned: int, looks: int) -> Report:
    """Return the report of a run, with a note if its number of games may depend on its results.

    `planned` are the games of its schedule, `looks` those at its results (`stopping_reason`).
    """
    # With a target, games that are left out are the rule: the sequence is valid anyway.
    games = planned if aggregator.enough else aggregator.games
    reason = stopping_reason(games, planned, looks)
    aggregator.any_time = bool(reason)
    report = aggregator.report()
    if not reason:
        return report
    note = f"{reason} {ANYTIME if report.sequential else FIXED_LOOK}"
    return report.model_copy(update={"notes": [*report.notes, note]})


ANYTIME = (
    "The result is therefore judged by a confidence sequence, which is valid at every look; all "
    "other intervals are valid at one look that was fixed before."
)
FIXED_LOOK = "All intervals are valid at one look that was fixed before, so they may be too narrow."
"""Note of a tournament, and of a game without a declared range of returns."""


def stopping_reason(games: int, planned: int, looks: int) -> str:
    """Return the reason why a run's number of games may depend on its results; "" for none.

    `looks` counts the planned sizes at which results were shown. The interval of a fixed number of
    games is valid at one look: with ten looks at equal players, a fifth of all runs shows a
    difference at one of them.
    """
    if games < planned:
        return f"The run was stopped at {games} of {planned} games, perhaps because of its results."
    return f"This is look {looks} at a run whose number of games was raised." if looks > 1 else ""
