"""JSON API of the home page, and the full reports."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from arena.core.errors import ArenaError
from arena.evaluation.store.database import is_locked
from replays.html_report import page as experiment_report
from replays.html_report.training import report as training_report
from replays.web.exchange import json_response, parameter
from replays.web.home.documents import HomeJson, ViewJson
from replays.web.home.entries import EntryList
from replays.web.home.experiment_view import comparison_view, experiment_view, read_report
from replays.web.home.files import (
    MAX_DATABASE_BYTES,
    FileSet,
    find_results,
    find_run,
    public_message,
)
from replays.web.home.run_view import read_run, run_comparison_view, run_view
from replays.web.http_errors import HttpError, not_found
from replays.web.listing import Listing
from replays.web.replay_directory import ReplayDirectory

Result = TypeVar("Result")

MAX_REPORT_BYTES = 32 * 2**20
MAX_CACHED = 16
REPORT_POLICY = "; ".join(
    (
        "sandbox",
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Of HTML reports: no script runs and nothing is loaded, whatever a file in the folder contains."""


@dataclass(frozen=True, slots=True)
class CachedView:
    """A view and the files that it was made from."""

    files: tuple[FileSet, ...]
    running: bool
    view: ViewJson


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
            Route("/api/compare", self.compare),
            Route("/report/{kind}", self.report),
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
        files = self._results(request, "path")
        running = is_locked(files.location)
        view = self._view((files,), running, lambda: experiment_view(files, running))
        return json_response(request, view, tagged=True)

    def run(self, request: Request) -> Response:
        """Return the view of a training run."""
        files = find_run(self._directory, _required(request, "path"))
        return json_response(request, self._view((files,), True, lambda: run_view(files)), True)

    def compare(self, request: Request) -> Response:
        """Return two evaluations, or two training runs, beside each other."""
        kind = _required(request, "kind")
        make: Callable[[FileSet, FileSet], ViewJson]
        if kind == "experiment":
            first, second = self._results(request, "path"), self._results(request, "with")
            make = comparison_view
        elif kind == "run":
            paths = _required(request, "path"), _required(request, "with")
            first, second = (find_run(self._directory, path) for path in paths)
            make = run_comparison_view
        else:
            raise HttpError(400, "kind= must be experiment or run")
        view = self._view((first, second), kind == "run", lambda: make(first, second))
        return json_response(request, view, tagged=True)

    def report(self, request: Request) -> Response:
        """Return a full report as a page of its own: of an experiment, a run, or a stored file."""
        kind, path = request.path_params["kind"], _required(request, "path")
        if kind == "file":
            return _page(self._file(path))
        if kind == "experiment":
            files = self._results(request, "path")
            return _page(
                self._checked((files,), lambda: experiment_report.render(read_report(files)))
            )
        if kind == "run":
            files = find_run(self._directory, path)
            return _page(self._checked((files,), lambda: training_report.render(read_run(files))))
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

    def _results(self, request: Request, name: str) -> FileSet:
        files = find_results(self._directory, _required(request, name))
        if files.bytes > MAX_DATABASE_BYTES:
            raise HttpError(422, f"{files.path} is larger than {MAX_DATABASE_BYTES >> 30} GiB")
        return files

    def _view(
        self, files: tuple[FileSet, ...], running: bool, make: Callable[[], ViewJson]
    ) -> ViewJson:
        """Return a view; it is computed again only if a file has changed.

        `running` is also compared, since a run that is killed changes no file; a view that says
        that its run is running is always computed.
        """
        key = "\n".join(each.path for each in files)
        with self._computing:
            cached = self._views.get(key)
            unchanged = cached and (cached.files, cached.running) == (files, running)
            if cached and unchanged and not cached.view["running"]:
                self._views.move_to_end(key)
                return cached.view
            view = self._checked(files, make)
            self._views[key] = CachedView(files, running, view)
            if len(self._views) > MAX_CACHED:
                self._views.popitem(last=False)
            return view

    def _checked(self, files: tuple[FileSet, ...], make: Callable[[], Result]) -> Result:
        """Return what `make` does; its errors name served files, not paths on this machine."""
        try:
            return make()
        except HttpError:
            raise
        except ArenaError as error:
            message = str(error)
            for each in files:
                message = public_message(ArenaError(message), self._directory, each)
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
