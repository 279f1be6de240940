"""Reports of games that were played earlier: one for each set-up, with a row for each role."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from pydantic import JsonValue

from arena.core.game import Game
from arena.core.text import pluralize, printable
from arena.evaluation.aggregation import add_seats
from arena.evaluation.analysis import AnalysisGroup, AnalyzedGame, SkippedFile
from arena.evaluation.records import GameResult, SeatRole
from arena.evaluation.report import Report
from arena.evaluation.statistics.samples import Sample
from arena.evaluation.summary import make_report


class AnalysisAggregator:
    """Results of games that were played earlier and have the same set-up."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.games = 0
        self.scored = 0
        self._unknown = 0
        """Games whose seats have unknown roles."""
        self._samples: dict[tuple[str, SeatRole], Sample] = {}

    def add(self, result: GameResult) -> None:
        self.games += 1
        self.scored += result.scored
        self._unknown += result.slot.role == "unknown"
        # An opponent is chosen, not tested: its results are never mixed with those of a test.
        roles = (result.slot.seat_role(number) for number in range(len(result.seats)))
        keys = [(seat.player, role) for seat, role in zip(result.seats, roles, strict=True)]
        add_seats(self._samples, keys, result, self.game.return_scale)

    def report(self) -> Report:
        samples = self._samples
        head = make_report("analysis", self.game, self.games, self.scored, list(samples.values()))
        players = [
            player.model_copy(update={"role": role})
            for player, (_, role) in zip(head.players, samples, strict=True)
        ]
        notes = [*self._role_notes(), *head.notes]
        report = head.model_copy(update={"players": players, "notes": notes})
        return report.model_copy(update={"players": report.ranked})

    def _role_notes(self) -> Iterator[str]:
        if self._unknown:
            yield (
                f"Whether a seat was tested or an opponent is unknown in {self._unknown} of "
                f"{pluralize(self.games, 'game')}: the replays are not from an evaluation or a "
                "tournament, or its results file is not beside their folder."
            )


class GroupedAnalyses:
    """Results of games of any groups, kept apart by group."""

    def __init__(self) -> None:
        self.skipped: list[SkippedFile] = []
        self.copies = 0
        """Games that occurred before: the same replay elsewhere, or in a results file."""
        self._hashes: set[str] = set()
        self._by_group: dict[AnalysisGroup, AnalysisAggregator] = {}
        self._shared_deals: dict[AnalysisGroup, SharedDeals] = defaultdict(SharedDeals)

    def add(self, item: AnalyzedGame | SkippedFile) -> None:
        if isinstance(item, SkippedFile):
            self.skipped.append(item)
            return
        digest = item.result.sha256
        if digest in self._hashes:
            self.copies += 1
            return
        # Games without a replay have no hash and cannot be recognised as copies.
        if digest:
            self._hashes.add(digest)
        if item.group not in self._by_group:
            self._by_group[item.group] = AnalysisAggregator(item.group.make())
        self._by_group[item.group].add(item.result)
        self._shared_deals[item.group].add(item.result.slot.seed, item.run)

    def reports(self) -> list[Report]:
        """Return a report for each group."""
        reports = []
        for group, analysis in self._by_group.items():
            report = analysis.report()
            notes = [*report.notes, *self._shared_deals[group].notes()]
            settings: dict[str, JsonValue] = {"text_level": group.text_level or None}
            reports.append(report.model_copy(update={"notes": notes, "settings": settings}))
        return reports


class SharedDeals:
    """The deals that occur in more than one run, such as those of two runs with one seed."""

    def __init__(self) -> None:
        self._first_run: dict[int, Path] = {}
        """The first run of each deal, by its seed."""
        self._shared: set[int] = set()
        self._example: tuple[Path, Path] | None = None

    def add(self, deal: int, run: Path) -> None:
        first = self._first_run.setdefault(deal, run)
        if first != run:
            self._shared.add(deal)
            self._example = self._example or (first, run)

    def notes(self) -> Iterator[str]:
        """Yield a warning if runs share deals, so that their results are not independent."""
        if self._example:
            one, other = (printable(str(run)) for run in self._example)
            yield (
                f"{len(self._shared)} of {pluralize(len(self._first_run), 'deal')} are in several "
                f"of these runs ({one} and {other}), whose results are therefore not independent. "
                "The games of one deal count as one observation. To compare two players on the "
                "same deals, use arena eval --baseline."
            )
