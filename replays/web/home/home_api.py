"""JSON API of the home page, and the reports of its entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from arena.core.errors import ArenaError
from arena.core.text import pluralize
from arena.evaluation.aggregation import report_results
from arena.evaluation.document import Document
from arena.evaluation.document.tables import document as report_document
from arena.evaluation.store import Results
from replays.html_report.page import render
from replays.web.exchange import json_response
from replays.web.home.entries import (
    EntryList,
    FileSet,
    HomeJson,
    find_results,
    find_run,
    public_message,
)
from replays.web.http_errors import HttpError, not_found
from replays.web.listing import Listing
from replays.web.replay_directory import ReplayDirectory
from trainers.runs.document import document as run_document
from trainers.runs.training_run import TrainingRun

RUN_REPORT = "/report"
"""End of the address of a run's report, after the folder of the run."""
REFRESH_SECONDS = "5"
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""Policy of HTML reports: no script runs and nothing is loaded, whatever a file contains."""


class HomeApi:
    """Endpoints of the home page for the served folder."""

    def __init__(self, directory: ReplayDirectory, listing: Listing) -> None:
        self._directory = directory
        self._listing = listing
        self._entries = EntryList(directory)
        self._computing = Lock()
        """One report at a time is computed: a statistic of many games keeps a core busy."""

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes of the documents and reports."""
        return [
            Route("/api/home", self.home),
            Route("/report/{kind}/{path:path}", self.report),
        ]

    def home(self, request: Request) -> Response:
        """List everything but games."""
        snapshot = self._listing.current()
        entries, left_out = self._entries.read(snapshot.others)
        document: HomeJson = {
            "root": self._directory.title,
            "entries": entries,
            "left_out": left_out,
            "games": len(snapshot.games),
            "unread": snapshot.unread,
        }
        return json_response(request, document, tagged=True)

    def report(self, request: Request) -> Response:
        """Return the report of an experiment or a run as a page of its own.

        It is made anew for each request. While games or steps are added, the page loads itself
        again every few seconds.
        """
        kind, path = request.path_params["kind"], request.path_params["path"]
        if not path.endswith(RUN_REPORT) or kind not in DOCUMENTS:
            raise not_found()
        find, make = DOCUMENTS[kind]
        files = find(self._directory, path.removesuffix(RUN_REPORT))
        try:
            with self._computing:
                document = make(files)
        except ArenaError as error:  # It names served files, not paths on this machine.
            message = public_message(str(error), self._directory, files)
            raise HttpError(422, message) from None
        is_running = files.is_written()
        if is_running:
            document = replace(document, facts=[*document.facts, "running"])
        games = f"/#{urlencode({'list': 'games', 'within': files.path})}"
        page = render(document, [("Home", "/"), ("Its games", games)])
        return _page(page, is_running)


def _experiment(files: FileSet) -> Document:
    with Results.read(files.location) as results:
        planned, report = len(results.slots), report_results(results)
    if files.is_written():
        count = f"{report.games} of {pluralize(planned, 'game')}"
        stopped = f"The run was stopped at {count}, perhaps because of its results."
        notes = [n.replace(stopped, f"The run goes on: {count} so far.") for n in report.notes]
        report = report.model_copy(update={"notes": notes})
    return report_document(report)


def _training(files: FileSet) -> Document:
    run = TrainingRun.read(files.location)
    if run.fault:
        raise ArenaError(run.fault)
    return run_document(run)


DOCUMENTS = {"experiment": (find_results, _experiment), "run": (find_run, _training)}
"""Functions that find the files of an entry and make its document, by the kind in the address."""


def _page(text: str, is_running: bool) -> Response:
    # A browser refuses a sandboxed page that asks for a group of its own, or to be loaded again.
    headers = {
        "Content-Security-Policy": REPORT_POLICY if is_running else f"sandbox; {REPORT_POLICY}",
        "Cross-Origin-Opener-Policy": "unsafe-none",
        **({"Refresh": REFRESH_SECONDS} if is_running else {}),
    }
    return Response(text, headers=headers, media_type="text/html; charset=utf-8")
