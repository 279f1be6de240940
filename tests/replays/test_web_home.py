"""The home page's documents: what is listed, what is refused, and what the views say."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from home_folder import ATTACK, fill_folder, write_records, write_run
from training_rows import rows
from web_viewer import WebViewer, record, serving

from arena.evaluation.aggregation import report_results
from arena.evaluation.document.tables import document
from arena.evaluation.store import Results
from replays.analysis.documents import ListedReplayJson
from replays.web.home.entries import EntryList, find_results, find_run
from replays.web.http_errors import HttpError
from replays.web.listing import EMPTY_ROW, Listing
from replays.web.replay_directory import ReplayDirectory


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home") / "runs"
    fill_folder(folder)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[WebViewer]:
    with serving(folder) as running:
        yield running


def entries(folder: Path) -> dict[str, Any]:
    directory = ReplayDirectory(folder)
    listed, left_out = EntryList(directory).read(directory.scan().others)
    assert left_out == 0
    return {entry["path"]: entry for entry in listed}


HOSTILE = f"hostile {ATTACK}"


def test_everything_in_the_folder_is_listed(folder: Path, server: WebViewer) -> None:
    home = server.ask("home").json
    assert (home["root"], home["games"], home["unread"]) == ("runs", 3, 0)
    listed = {entry["path"]: entry for entry in home["entries"]}
    assert listed == entries(folder)
    kinds = {path: entry["kind"] for path, entry in listed.items() if HOSTILE not in path}
    assert kinds == {
        "eval/strong": "eval",
        "eval/weak": "eval",
        "eval/part": "eval",
        "tournament/bots": "tournament",
        "train/first": "train",
        "train/second": "train",
    }
    part, run = listed["eval/part"], listed["train/first"]
    assert part["status"] == "interrupted" and "4 of 30 games" in part["facts"]
    assert run["status"] == "finished" and "step 20 of 60" in run["facts"]


def test_hostile_files_are_marked(folder: Path) -> None:
    listed = entries(folder)
    broken = listed[f"{HOSTILE}/broken"]
    assert broken["status"] == "unreadable" and not broken["opens"] and broken["error"]
    nan = listed[f"{HOSTILE}/nan"]
    assert nan["status"] == "unreadable" and "config.json" in nan["error"]
    assert f"{HOSTILE}/other" not in listed
    assert str(folder) not in json.dumps(listed)


def test_files_are_shown_while_they_are_written(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.ask("home").json["entries"] == []
        files = write_run(tmp_path / "run", rows(2))
        record(tmp_path, "game")
        home = server.ask("home").json
        assert [entry["path"] for entry in home["entries"]] == ["run"] and home["games"] == 1
        first = server.get("/report/run/run/report")
        write_records(files, rows(9))
        grown = server.get("/report/run/run/report")
        assert first.status == grown.status == 200 and len(grown.body) > len(first.body)


@pytest.mark.parametrize("route", ["experiment", "run"])
@pytest.mark.parametrize(
    "path",
    ["", "..", "/etc", "../runs/eval/strong", "eval", "eval/strong/games.jsonl",
     "games/game0.jsonl", "nothing", "eval/strong/", ".hidden", "\0", "train/first/.."],
)  # fmt: skip
def test_no_other_file_is_opened(server: WebViewer, route: str, path: str) -> None:
    answer = server.get(f"/report/{route}/{quote(path, safe='')}/report")
    assert answer.status == 404


def test_links_and_pipes_are_refused(tmp_path: Path, folder: Path) -> None:
    served = tmp_path / "served"
    files = write_run(served / "run", rows(1))
    files.metrics.unlink()
    files.metrics.symlink_to(folder / "train" / "first" / "metrics.jsonl")
    pipe = write_run(served / "pipe", rows(1))
    pipe.state.unlink()
    os.mkfifo(pipe.state)
    (served / "out").symlink_to(folder / "eval")
    directory = ReplayDirectory(served)
    for name in ("run", "pipe"):
        with pytest.raises(HttpError, match="is a link or not a file"):
            find_run(directory, name)
    with pytest.raises(HttpError, match="no such file"):
        find_results(directory, "out/strong")
    assert {entry["opens"] for entry in entries(served).values()} == {False}


def test_reports_of_evaluations(server: WebViewer, folder: Path) -> None:
    page = server.get("/report/experiment/eval/strong/report").body.decode()
    with Results.read(folder / "eval" / "strong") as results:
        shown = document(report_results(results))
    assert "bot:strong" in str(shown.headline[0]) and "30 games" in shown.facts
    assert all(title in page for title in (shown.title, *(s.title for s in shown.sections)))
    assert '<a href="/">Home</a>' in page and "within=eval%2Fstrong" in page
    broken = server.get(f"/report/experiment/{quote(HOSTILE, safe='')}/broken/report")
    assert broken.status == 422 and str(folder) not in broken.body.decode()


def test_reports_run_no_script(server: WebViewer) -> None:
    for kind, path in (
        ("experiment", "eval/strong/report"),
        ("run", f"{HOSTILE}/{ATTACK}/report"),
    ):
        answer = server.get(f"/report/{kind}/{quote(path)}")
        assert answer.status == 200, answer.body
        policy = answer.headers["content-security-policy"].split("; ")
        assert policy[:2] == ["sandbox", "default-src 'none'"]
        assert not any(part.startswith("script-src") for part in policy)
    others = [
        *("other/report.html", "file/train/first", "run/report", "run//etc/passwd/report"),
        *("experiment/report.html", "experiment/eval/strong"),
    ]
    for path in others:
        assert server.get(f"/report/{path}").status == 404, path
    assert server.get("/report/run/train/first/report", Host="evil.example").status == 403


# The list of games, part by part


def test_a_part_of_the_list(server: WebViewer) -> None:
    whole = server.ask("games").json
    assert (whole["found"], whole["all"], whole["offset"], whole["unread"]) == (3, 3, 0, 0)
    assert whole["players"] == ["bot:random"]
    part = server.ask("games", offset=1, limit=1)
    assert [row["path"] for row in part.json["games"]] == [whole["games"][1]["path"]]
    again = server.get("/api/games?offset=1&limit=1", If_None_Match=part.headers["etag"])
    assert again.status == 304
    assert server.ask("games", text="GAME2 kuhn").json["games"][0]["path"] == "games/game2.jsonl"
    assert server.ask("games", text="nobody").json["found"] == 0
    for query in ("sort=nothing", "limit=x"):
        answer = server.get(f"/api/games?{query}")
        assert answer.status == 400 and query.partition("=")[0] in answer.json["error"]


def row(number: int, **more: Any) -> ListedReplayJson:
    values: Any = EMPTY_ROW | {
        "path": f"game{number:03}.jsonl",
        "game": "cluedo",
        "players": ["bot:a", f"bot:{number % 3}"],
        "created": f"2026-01-{1 + number % 28:02}T12:00:00+00:00",
        "status": "terminated",
        "winners": [number % 2],
        "turns": number,
    }
    merged: ListedReplayJson = values | more
    return merged


def test_a_large_folder_is_shown_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from replays.web import listing as module

    for number in range(8):
        record(tmp_path, f"game{number}", seed=number)
    original = module.read_row
    readable = threading.Semaphore(3)

    def when_allowed(*arguments: Any) -> Any:
        assert readable.acquire(timeout=60)
        return original(*arguments)

    monkeypatch.setattr(module, "read_row", when_allowed)
    monkeypatch.setattr(module, "PUBLISH_INTERVAL", 0.0)
    listing = Listing(ReplayDirectory(tmp_path))
    first = listing.current(patience=0.05)
    deadline = time.monotonic() + 60
    while not first.games and time.monotonic() < deadline:
        first = listing.current(patience=0.05)
    assert 0 < len(first.games) < 8 and len(first.games) + first.unread == 8
    readable.release(5)
    assert len(listing.current(patience=60).games) == 8
