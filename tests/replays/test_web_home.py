"""The home page's documents: what is listed, what is refused, and what the views say."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from command_line import arena
from home_folder import ATTACK, fill_folder, played, write_evaluation, write_records, write_run
from hypothesis import given
from hypothesis import strategies as st
from training_rows import rows
from web_viewer import WebViewer, record, serving

from arena.core.errors import ArenaError, UsageError
from arena.evaluation.aggregation import stored_report
from arena.evaluation.paired import compare_evaluations
from arena.evaluation.store import Results
from replays.analysis.documents import ListedReplayJson
from replays.web.home.entries import EntryList, FileSet, find_results, find_run
from replays.web.home.views import comparison_view, run_comparison_view, run_view
from replays.web.http_errors import HttpError
from replays.web.listing import EMPTY_ROW, Listing
from replays.web.replay_api import ORDERS, GameIndex, GameQuery
from replays.web.replay_directory import ReplayDirectory
from trainers.runs.records import RunState


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
        "eval/strong/results.sqlite": "eval",
        "eval/weak/results.sqlite": "eval",
        "eval/part/results.sqlite": "eval",
        "tournament/bots/results.sqlite": "tournament",
        "train/first": "train",
        "train/second": "train",
        "report.html": "report",
    }
    part, run = listed["eval/part/results.sqlite"], listed["train/first"]
    assert part["status"] == "interrupted" and "4 of 30 games" in part["facts"]
    assert run["status"] == "finished" and "step 20 of 60" in run["facts"]
    assert listed["report.html"]["title"] == ATTACK


def test_hostile_files_are_marked(folder: Path) -> None:
    listed = entries(folder)
    broken = listed[f"{HOSTILE}/broken/results.sqlite"]
    assert broken["status"] == "unreadable" and not broken["opens"] and broken["error"]
    nan = listed[f"{HOSTILE}/nan"]
    assert nan["status"] == "unreadable" and "config.json" in nan["error"]
    assert "scripts" in listed[f"{HOSTILE}/scripts.html"]["error"]
    assert f"{HOSTILE}/other" not in listed
    assert str(folder) not in json.dumps(listed)


def test_files_are_shown_while_they_are_written(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.ask("home").json["entries"] == []
        files = write_run(tmp_path / "run", rows(2))
        record(tmp_path, "game")
        home = server.ask("home").json
        assert [entry["path"] for entry in home["entries"]] == ["run"] and home["games"] == 1
        first = server.ask("run", path="run")
        tag = first.headers["etag"]
        same = server.get("/api/run?path=run", If_None_Match=tag)
        assert same.status == 304 and same.body == b""
        write_records(files, rows(9))
        grown = server.get("/api/run?path=run", If_None_Match=tag)
        assert grown.status == 200 and grown.headers["etag"] != tag
        assert "9" in grown.json["sections"][0]["charts"][1]["svg"]


@pytest.mark.parametrize("route", ["experiment", "run"])
@pytest.mark.parametrize(
    "path",
    ["", "..", "/etc", "../runs/eval/strong/results.sqlite", "eval/strong", "games/game0.jsonl",
     "nothing", "eval/strong/results.sqlite/", ".hidden/results.sqlite", "\0", "train/first/.."],
)  # fmt: skip
def test_no_other_file_is_opened(server: WebViewer, route: str, path: str) -> None:
    answer = server.ask(route, path=path)
    assert answer.status == 404 and set(answer.json) == {"error"}


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
        find_results(directory, "out/strong/results.sqlite")
    assert {entry["opens"] for entry in entries(served).values()} == {False}


def test_entries_have_distinct_titles(tmp_path: Path) -> None:
    for place in ("eval/one", "eval/two"):
        write_evaluation(tmp_path / place, "bot:strong")
    for place in ("first/run", "second/run", "second/other"):
        write_run(tmp_path / place, rows(1))
    assert {path: entry["title"] for path, entry in entries(tmp_path).items()} == {
        "eval/one/results.sqlite": "bot:strong (eval/one)",
        "eval/two/results.sqlite": "bot:strong (eval/two)",
        "first/run": "run (first/run)",
        "second/run": "run (second/run)",
        "second/other": "other",
    }


def test_a_run_that_makes_its_base_model_shows_the_progress(tmp_path: Path) -> None:
    files = write_run(tmp_path / "run", [], "running")
    phase = "making the base model (training: 30 of 200)"
    files.state.write_text(RunState(phase=phase).model_dump_json())
    assert phase in entries(tmp_path)["run"]["facts"]
    view = run_view(find_run(ReplayDirectory(tmp_path), "run"))
    assert view["verdict"][0] == f"Now {phase}; the first step follows." and phase in view["facts"]


def test_views_of_evaluations(server: WebViewer, folder: Path) -> None:
    view = server.ask("experiment", path="eval/strong/results.sqlite").json
    with Results.read(folder / "eval" / "strong" / "results.sqlite") as results:
        report = stored_report(results)
    assert "bot:strong" in view["verdict"][0] and report.games == 30
    assert view["sections"][0]["tables"][0]["rows"][0][:2] == ["bot:strong", "30"]
    assert view["sections"][0]["charts"][0]["svg"].startswith("<svg ")
    assert (view["games"], view["running"]) == ("eval/strong", False)
    table = server.ask("experiment", path="tournament/bots/results.sqlite").json
    assert {row[0] for row in table["sections"][0]["tables"][0]["rows"]} == {
        "bot:a", "bot:b", "bot:c",
    }  # fmt: skip
    broken = server.ask("experiment", path=f"{HOSTILE}/broken/results.sqlite")
    assert broken.status == 422 and str(folder) not in broken.json["error"]


def test_a_report_is_about_the_start_of_the_schedule(folder: Path) -> None:
    """Game 3 is missing: 4 was quick, and would bias the result."""
    with Results.read(folder / "eval" / "part" / "results.sqlite") as results:
        report = stored_report(results)
        progress = results.progress()
    assert report.games == 3 and (progress.finished, progress.planned) == (4, 30)
    assert any("3 of 30 games" in note for note in report.notes)
    assert report.sequential is not None  # Valid whenever one looks.


def test_two_evaluations_are_compared_on_the_deals_that_both_have(
    server: WebViewer, folder: Path, tmp_path: Path
) -> None:
    view = server.ask(
        "compare",
        kind="experiment",
        path="eval/strong/results.sqlite",
        **{"with": "eval/weak/results.sqlite"},
    ).json
    assert view["verdict"][0].startswith("A is better. A − B: +0.")
    assert "30 shared deals" in view["verdict"][0] and view["notes"] == []
    paths = (
        folder / "eval" / "strong" / "results.sqlite",
        folder / "eval" / "weak" / "results.sqlite",
    )
    with Results.read(paths[0]) as one, Results.read(paths[1]) as other:
        shared = compare_evaluations(one, other)
        slots = one.schedule()
    assert shared is not None and shared.comparison is not None and shared.same_opponents
    gains = [
        played(slot, 1.0).seats[slot.seat or 0].returns - played(slot).seats[slot.seat or 0].returns
        for slot in slots
    ]
    assert shared.comparison.difference.value == pytest.approx(sum(gains) / 30, abs=1e-6)
    few = write_evaluation(tmp_path, "bot:few", finished=[0, 1, 2], against="bot:other")
    with Results.read(paths[0]) as one, Results.read(few) as other:
        shared = compare_evaluations(one, other)
    assert shared is not None and len(shared.first) == 3 and not shared.same_opponents


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"kind": "experiment", "path": "eval/part/results.sqlite",
          "with": "eval/weak/results.sqlite"}, 200, "too few"),
        ({"kind": "experiment", "path": "eval/weak/results.sqlite",
          "with": "tournament/bots/results.sqlite"}, 422, "only evaluations"),
        ({"kind": "experiment", "path": "eval/weak/results.sqlite"}, 400, "with= is missing"),
        ({"kind": "x", "path": "a", "with": "b"}, 400, "kind= must be"),
        ({"kind": "run", "path": "train/first", "with": "nothing"}, 404, "no such"),
    ],
)  # fmt: skip
def test_other_comparisons(
    server: WebViewer, fields: dict[str, str], status: int, text: str
) -> None:
    answer = server.ask("compare", **fields)
    assert answer.status == status and text in answer.body.decode()


def test_two_runs_are_drawn_over_each_other(server: WebViewer) -> None:
    asked = {"kind": "run", "path": "train/first", "with": "train/second"}
    view = server.ask("compare", **asked).json
    delta = view["sections"][0]["charts"][0]
    assert [item["name"] for item in delta["legend"]] == ["● A: first", "■ B: second"]
    assert all(f'class="c{color} line"' in delta["svg"] for color in (0, 1))
    tables = [table for section in view["sections"] for table in section["tables"]]
    assert ["learning_rate", "0.001", "0.002"] in [row for table in tables for row in table["rows"]]


def test_what_cannot_be_compared_is_not_drawn_together(tmp_path: Path) -> None:
    paths = [write_evaluation(tmp_path / name, f"bot:{name}") for name in ("one", "other")]
    with closing(sqlite3.connect(paths[1])) as database:
        database.execute("UPDATE experiment SET game = 'leduc_poker', options = '{}'")
        database.commit()
    files = [FileSet(path.parent.name, path, ()) for path in paths]
    view = comparison_view(files[0], files[0])
    assert any(part["charts"] for part in view["sections"])
    view = comparison_view(*files)
    assert "cannot be compared" in view["verdict"][0]
    assert not any(part["charts"] for part in view["sections"])
    runs = [
        write_run(tmp_path / f"run of {game}", rows(12), "stopped", game=game).folder
        for game in ("cluedo", "leduc_poker")
    ]
    titles = {}
    for other in runs:
        both = [FileSet(path.name, path, ()) for path in (runs[0], other)]
        view = run_comparison_view(*both)
        titles[other.name] = {part["title"] for part in view["sections"] if part["charts"]}
    assert {"Learning", "Reward"} <= titles["run of cluedo"]
    assert (
        titles["run of leduc_poker"] and not {"Learning", "Reward"} & titles["run of leduc_poker"]
    )
    assert "cannot be compared" in view["notes"][0]


def test_reports_run_no_script(server: WebViewer) -> None:
    for kind, path in (
        ("file", "report.html"),
        ("file", f"{HOSTILE}/scripts.html"),
        ("experiment", "eval/strong/results.sqlite"),
        ("run", f"{HOSTILE}/{ATTACK}/report"),
    ):
        answer = server.get(f"/report/{kind}/{quote(path)}")
        assert answer.status == 200, answer.body
        policy = answer.headers["content-security-policy"].split("; ")
        assert policy[:2] == ["sandbox", "default-src 'none'"]
        assert not any(part.startswith("script-src") for part in policy)
    others = [
        *("other/report.html", "file/train/first", "file/../runs/report.html", "run/report"),
        *("file//etc/passwd", "experiment/report.html", "file/games/none.jsonl"),
    ]
    for path in others:
        assert server.get(f"/report/{path}").status == 404, path
    assert server.get("/report/file/report.html", Host="evil.example").status == 403
    linked = server.get("/report/run/games/game0.jsonl")
    assert (linked.status, linked.headers["location"]) == (303, "/#path=games%2Fgame0.jsonl")


def test_a_replay_alone_has_no_home(folder: Path) -> None:
    with serving(folder / "games" / "game0.jsonl") as server:
        assert server.ask("home").status == 404
        assert server.get("/report/file/report.html").status == 404


def test_the_command_names_its_default_folder(tmp_path: Path) -> None:
    refused = arena("web --port 0", cwd=tmp_path)
    assert refused.returncode == 2 and "no folder 'runs'" in refused.stderr


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
    for query in ("sort=nothing", "since=yesterday", "limit=x", "least=-1"):
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


def test_conditions_on_games() -> None:
    rows_ = [row(number) for number in range(6)] + [
        row(9, status="running", turns=None, winners=[])
    ]
    index = GameIndex()

    def found(query: GameQuery) -> list[str]:
        query.check()
        return [each["path"][4:7] for each in index.select(1, rows_, query)[0]]

    ascending = GameQuery(descending=False)
    assert found(ascending) == ["000", "001", "002", "003", "004", "005", "009"]
    assert found(replace(ascending, player="bot:0", result="won")) == ["003"]
    assert found(replace(ascending, player="bot:0", result="lost")) == ["000"]
    assert found(replace(ascending, least=4)) == ["004", "005"]
    assert found(replace(ascending, most=1)) == ["000", "001"]
    since, until = "2026-01-02T00:00:00.000Z", "2026-01-04T00:00:00.000Z"
    assert found(replace(ascending, since=since, until=until)) == ["001", "002"]
    assert found(replace(ascending, result="running")) == ["009"]
    assert found(GameQuery(sort="turns"))[0] == "005"
    with pytest.raises(UsageError, match="sort="):
        GameQuery(sort="path").check()


@given(
    st.text(max_size=8),
    st.sampled_from(sorted(ORDERS)),
    st.booleans(),
    st.none() | st.integers(0, 40),
)
def test_any_query_gives_a_sorted_part(
    text: str, sort: str, descending: bool, least: int | None
) -> None:
    all_rows = [row(number) for number in range(30)]
    query = GameQuery(text=text, sort=sort, descending=descending, least=least)
    found, players, _ = GameIndex().select(1, all_rows, query)
    assert players == ["bot:0", "bot:1", "bot:2", "bot:a"]
    keys = [ORDERS[sort](each) for each in found]
    assert keys == sorted(keys, key=lambda key: key, reverse=descending)
    expected = [
        each
        for each in all_rows
        if (least is None or (each["turns"] or 0) >= least)
        and all(
            word in f"cluedo {each['path']} {' '.join(each['players'])}"
            for word in text.lower().split()
        )
    ]
    assert {each["path"] for each in found} == {each["path"] for each in expected}


@pytest.mark.timed
def test_fifty_thousand_games_are_searched_at_once() -> None:
    all_rows = [row(number) for number in range(50_000)]
    index = GameIndex()
    index.select(1, all_rows, GameQuery())
    begun = time.process_time()
    found, *_ = index.select(1, all_rows, GameQuery(text="bot:2 game4999", sort="players"))
    assert len(found) == 3 and time.process_time() - begun < 0.5


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


def test_no_games_no_report(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path, "bot:x", finished=[])
    with Results.read(path) as results, pytest.raises(ArenaError, match="no game is finished"):
        stored_report(results)
