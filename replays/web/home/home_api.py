"""JSON API of the home page, and the full reports."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from arena.core.errors import ArenaError
from replays.html_report import page as experiment_report
from replays.html_report import training_report
from replays.web.exchange import json_response, parameter
from replays.web.home.documents import HomeJson, ViewJson
from replays.web.home.entries import EntryList, FileSet, find_results, find_run, public_message
from replays.web.home.views import experiment_view, read_report, read_run, run_view
from replays.web.http_errors import HttpError, not_found
from replays.web.listing import Listing
from replays.web.replay_directory import ReplayDirectory

Result = TypeVar("Result")

RUN_REPORT = "/report"
"""End of the address of a run's report, after the folder of the run."""
MAX_CACHED = 16
REPORT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""Of HTML reports: no script runs and nothing is loaded, whatever a file in the folder contains."""


class HomeApi:
    """Endpoints of the home page for the served folder."""

    def __init__(self, directory: ReplayDirectory, listing: Listing) -> None:
        self._directory = directory
        self._listing = listing
        self._entries = EntryList(directory)
        self._views: OrderedDict[str, tuple[tuple[FileSet, bool], ViewJson]] = OrderedDict()
        self._computing = Lock()
        """One view at a time is computed: a statistic of many games keeps a core busy."""

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes of the documents and reports."""
        return [
            Route("/api/home", self.home),
            Route("/api/experiment", self.experiment),
            Route("/api/run", self.run),
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

    def experiment(self, request: Request) -> Response:
        """Return the view of an evaluation or a tournament."""
        files = find_results(self._directory, _required(request, "path"))
        return self._view(request, files, lambda: experiment_view(files, files.is_written()))

    def run(self, request: Request) -> Response:
        """Return the view of a training run."""
        files = find_run(self._directory, _required(request, "path"))
        return self._view(request, files, lambda: run_view(files))

    def report(self, request: Request) -> Response:
        """Return the full report of an experiment or a run as a page of its own."""
        kind, path = request.path_params["kind"], request.path_params["path"]
        if not path.endswith(RUN_REPORT):
            raise not_found()
        folder = path.removesuffix(RUN_REPORT)
        if kind == "experiment":
            results = find_results(self._directory, folder)
            render = experiment_report.render
            return _page(self._checked(results, lambda: render(read_report(results))))
        if kind == "run":
            run = find_run(self._directory, folder)
            return _page(self._checked(run, lambda: training_report.render(read_run(run))))
        raise not_found()

    def _view(self, request: Request, files: FileSet, make: Callable[[], ViewJson]) -> Response:
        """Answer with a view, which is made again only if a file or the state of a run changes."""
        state = (files, files.is_written())
        with self._computing:
            known, view = self._views.pop(files.path, (None, None))
            if view is None or known != state:
                view = self._checked(files, make)
            self._views[files.path] = state, view
            if len(self._views) > MAX_CACHED:
                self._views.popitem(last=False)
        return json_response(request, view, tagged=True)

    def _checked(self, files: FileSet, make: Callable[[], Result]) -> Result:
        """Return what `make` does; its errors name served files, not paths on this machine."""
        try:
            return make()
        except HttpError:
            raise
        except ArenaError as error:
            message = public_message(str(error), self._directory, files)
            raise HttpError(422, message) from None


def _required(request: Request, name: str) -> str:
    value = parameter(request, name)
    if value is None:
        raise HttpError(400, f"{name}= is missing")
    return value


def _page(text: str) -> Response:
    # A browser refuses a sandboxed page that asks for a group of its own.
    headers = {
        "Content-Security-Policy": REPORT_POLICY,
        "Cross-Origin-Opener-Policy": "unsafe-none",
    }
    return Response(text, headers=headers, media_type="text/html; charset=utf-8")
