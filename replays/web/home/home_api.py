"""JSON API of the home page, and the full reports."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
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
from replays.web.replay_directory import SUFFIXES, ReplayDirectory

Result = TypeVar("Result")

MAX_REPORT_BYTES = 32 * 2**20
RUN_REPORT = "/report"
"""End of the address of a run's report, after the folder of the run."""
MAX_CACHED = 16
QUICK_SECONDS = 0.5
"""A view that takes longer is not made after each change of its files."""
REPORT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""Of HTML reports: no script runs and nothing is loaded, whatever a file in the folder contains."""


@dataclass(frozen=True, slots=True)
class CachedView:
    """A view and the files that it was made from."""

    files: tuple[FileSet, ...]
    running: tuple[bool, ...]
    view: ViewJson
    made: float
    """When, by the monotonic clock."""
    seconds: float
    """How long it took."""

    def serves(self, files: tuple[FileSet, ...], running: tuple[bool, ...]) -> bool:
        """Return whether the view can be shown for these files as they are now."""
        if (self.files, self.running) == (files, running):
            return True
        # The view of a large evaluation takes seconds: at most a fifth of the time is spent on it.
        is_quick = self.seconds < QUICK_SECONDS
        return not is_quick and time.monotonic() - self.made < 4 * self.seconds


class HomeApi:
    """Endpoints of the home page for the served folder."""

    def __init__(self, directory: ReplayDirectory, listing: Listing) -> None:
        self._directory = directory
        self._listing = listing
        self._entries = EntryList(directory)
        self._views: OrderedDict[str, CachedView] = OrderedDict()
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
        return self._view(request, files, make=lambda: experiment_view(files, files.is_written()))

    def run(self, request: Request) -> Response:
        """Return the view of a training run."""
        files = find_run(self._directory, _required(request, "path"))
        return self._view(request, files, make=lambda: run_view(files))

    def report(self, request: Request) -> Response:
        """Return a full report as a page of its own: of an experiment, a run, or a stored file.

        The path of the request is that of the file, so that a report may link replays beside it.
        """
        kind, path = request.path_params["kind"], request.path_params["path"]
        if path.endswith(SUFFIXES):
            name = self._directory.find(path).name
            return RedirectResponse(f"/#path={quote(name, safe='')}", 303)
        if kind == "file":
            return _page(self._file(path))
        if kind == "experiment":
            results = find_results(self._directory, path)
            render = experiment_report.render
            return _page(self._checked((results,), lambda: render(read_report(results))))
        if kind == "run" and path.endswith(RUN_REPORT):
            run = find_run(self._directory, path.removesuffix(RUN_REPORT))
            return _page(self._checked((run,), lambda: training_report.render(read_run(run))))
        raise not_found()

    def _file(self, path: str) -> str:
        file = self._directory.find_other(path)
        if not file.name.endswith(".html"):
            raise HttpError(404, "there is no such file here")
        if file.version.bytes > MAX_REPORT_BYTES:
            limit = f"{MAX_REPORT_BYTES / 2**20:.0f} MiB"
            raise HttpError(422, f"{file.name} is too large; the limit is {limit}")
        try:
            return file.path.read_text("utf-8", errors="replace")
        except OSError as error:
            raise HttpError(422, f"cannot read {file.name}: {error.strerror}") from None

    def _view(self, request: Request, *files: FileSet, make: Callable[[], ViewJson]) -> Response:
        """Answer with a view, which is made again only if a file or the state of a run changes."""
        key = "\n".join(each.path for each in files)
        running = tuple(each.is_written() for each in files)
        with self._computing:
            cached = self._views.get(key)
            if cached is None or not cached.serves(files, running):
                started = time.monotonic()
                view = self._checked(files, make)
                ended = time.monotonic()
                cached = CachedView(files, running, view, ended, ended - started)
            self._views[key] = cached
            self._views.move_to_end(key)
            if len(self._views) > MAX_CACHED:
                self._views.popitem(last=False)
        return json_response(request, cached.view, tagged=True)

    def _checked(self, files: tuple[FileSet, ...], make: Callable[[], Result]) -> Result:
        """Return what `make` does; its errors name served files, not paths on this machine."""
        try:
            return make()
        except HttpError:
            raise
        except ArenaError as error:
            message = str(error)
            for each in files:
                message = public_message(message, self._directory, each)
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
