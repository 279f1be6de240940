"""The files of a leaderboard: its pages, the reports of all tasks, and the annotated games."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from arena.core.errors import ArenaError
from arena.core.text import printable
from arena.episodes.replay import read_replay
from arena.evaluation.benchmark.standings import BenchEntry, NotableGame, Standings, notable_games
from arena.evaluation.benchmark.submission import PlayedTask, Submission
from arena.evaluation.benchmark.verification import replay_name
from arena.evaluation.report import Report
from replays.html_report import write_document
from replays.html_report.page import render as render_report
from replays.leaderboard.pages import (
    Download,
    EntryLinks,
    GameLink,
    ReportLink,
    entry_page,
    index_page,
    method_page,
    page_style,
)
from replays.leaderboard.publication import (
    cite,
    csv_text,
    file_name,
    latex_table,
    model_facts,
    publication_figures,
    publication_tables,
    standalone,
    zip_submission,
)
from replays.web.bundle import collect_documents
from replays.web.bundle import render as render_game

INDEX, METHOD, MARKER = "index.html", "method.html", "leaderboard.json"
"""Names of files in the folder; the marker shows that the folder may be written again."""


@dataclass(frozen=True, slots=True)
class LeaderboardSite:
    """A leaderboard that is to be written."""

    standings: Standings
    out: Path
    verified: Collection[Path]

    def write(self, show: Callable[[str], None]) -> None:
        """Write all pages; the first page comes last, so that a broken run leaves none."""
        self._clear()
        links = [
            self._write_entry(number, entry, show)
            for number, entry in enumerate(self.standings.entries, start=1)
        ]
        show(METHOD)
        self._write(METHOD, method_page(self.standings))
        numbers = self.to_json()
        citation = cite(self.standings, numbers)
        for file in (MARKER, citation.archived):
            self._write(file, json.dumps(numbers, indent=2) + "\n")
        show(INDEX)
        downloads, models = self._write_downloads(), model_facts(self.standings.entries)
        self._write(INDEX, index_page(self.standings, links, citation, downloads, models))

    def _write_downloads(self) -> Sequence[Download]:
        """Write each table and each figure as files of their own."""
        downloads = []
        for name, grid in publication_tables(self.standings).items():
            files = (f"data/{name}.csv", f"data/{name}.tex")
            for file, text in zip(files, (csv_text(grid), latex_table(grid)), strict=True):
                self._write(file, text)
            downloads.append(Download(f"Table: {grid.title}", files))
        for name, svg in publication_figures(self.standings).items():
            file = f"data/{name}.svg"
            self._write(file, standalone(svg, page_style()))
            downloads.append(Download(f"Figure: {name.replace('-', ': ', 1)}", (file,)))
        return downloads

    def _clear(self) -> None:
        """Make the folder, or delete the pages of an earlier site in it."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            if any(self.out.iterdir()) and not (self.out / MARKER).is_file():
                raise ArenaError(
                    f"{self.out} has files that are not a leaderboard's; choose another folder"
                )
            for pattern in (
                "*.html",
                "games/*.html",
                "reports/*.html",
                "data/*",
                "submissions/*.zip",
            ):
                for stale in self.out.glob(pattern):
                    stale.unlink()
            for folder in ("games", "reports", "data", "submissions", "archive"):
                (self.out / folder).mkdir(exist_ok=True)
        except OSError as error:
            raise ArenaError(f"cannot write {self.out}: {error.strerror}") from error

    def _write_entry(
        self, number: int, entry: BenchEntry, show: Callable[[str], None]
    ) -> EntryLinks:
        """Write the pages of one entry; return the links to them."""
        stem, submission = _stem(number, entry.label), entry.submission
        reports = []
        for played in submission.tasks:
            name = f"reports/{stem}-{played.task.id}.html"
            show(name)
            self._write(name, render_report(_full_report(submission, played)))
            reports.append(ReportLink(played, name))
        games = []
        for notable in notable_games(submission):
            name = f"games/{stem}-{notable.kind}.html"
            show(name)
            self._write(name, _game_page(notable))
            games.append(GameLink(notable, name))
        is_verified = submission.folder in self.verified
        archive = f"submissions/{stem}.zip"
        try:
            zip_submission(submission.folder, self.out / archive)
        except OSError as error:
            raise ArenaError(f"cannot write {archive}: {error.strerror}") from error
        links = EntryLinks(entry, f"{stem}.html", reports, games, is_verified, archive)
        show(links.page)
        self._write(links.page, entry_page(self.standings, links))
        return links

    def to_json(self) -> dict[str, JsonValue]:
        """Return the numbers of the first page."""
        suite = self.standings.suite
        return {
            "suite": suite.name,
            "suite_version": suite.version,
            "suite_sha256": suite.sha256,
            "entries": [_entry_json(entry) for entry in self.standings.entries],
        }

    def _write(self, name: str, text: str) -> None:
        write_document(text, self.out / name)


def _entry_json(entry: BenchEntry) -> dict[str, JsonValue]:
    card = entry.submission.card
    return {
        "name": entry.label,
        "player": card.player,
        "text_level": card.text_level if card.uses_models else None,
        "rating": entry.rating.model_dump(mode="json"),
        "ahead": entry.ahead.model_dump(mode="json"),
        "skills": {name: share.model_dump(mode="json") for name, share in entry.skills.items()},
        "tasks": {task.task: task.result.model_dump(mode="json") for task in card.tasks},
    }


def _stem(number: int, label: str) -> str:
    """Return a file name from a name that a stranger chose: `01-bot-oracle`."""
    words = file_name(printable(label))[:40].strip("-")
    return f"{number:02}-{words}" if words else f"{number:02}"


def _full_report(submission: Submission, played: PlayedTask) -> Report:
    card = submission.card
    level = card.text_level if card.uses_models else None
    settings: dict[str, JsonValue] = {"text_level": level, "task": played.task.id}
    return played.report.model_copy(update={"settings": settings})


def _game_page(notable: NotableGame) -> str:
    """Return the viewer with one game: everything is open, and its moves have comments."""
    # The name of the suite's game, not the stored one: an unchecked path may lead anywhere.
    path = notable.task.folder / replay_name(notable.deal.player.slot.number)
    try:
        data = collect_documents(read_replay(path), None)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, ArenaError):
            raise
        raise ArenaError(f"{path} cannot be shown: {error}") from error
    return render_game(data, data["scene"])
