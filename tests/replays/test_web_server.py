"""`arena replay --web` as a process: what it answers, and what it refuses, over a real socket."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from command_line import arena
from hypothesis import given, settings
from hypothesis import strategies as st
from web_viewer import WebViewer, record, serving

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


from arena.core.errors import MissingDependency, ReplayError, UsageError
from arena.episodes.replay import read_replay
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.web import serve
from replays.web.replay_directory import ReplayDirectory


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `root` that is served, and beside it what must not be."""
    base = tmp_path_factory.mktemp("web")
    root = base / "root"
    clue = record(root, "clue", 3, "cluedo", variant="cards", players=3)
    record(root / "deep er", "kühn #1")
    secret = record(base / "outside", "secret")
    shutil.copy(clue, root / "note.txt")
    (root / ".hidden").mkdir()
    shutil.copy(clue, root / ".hidden" / "clue.jsonl")
    (root / "leaving.jsonl").symlink_to(secret)
    (root / "leaving").symlink_to(secret.parent)
    (root / "staying.jsonl").symlink_to(clue)
    os.mkfifo(root / "pipe.jsonl")
    lines = clue.read_text().splitlines(keepends=True)
    (root / "empty.jsonl").write_text("")
    (root / "log.jsonl").write_text('{"step": 1}\n')
    (root / "noise.jsonl").write_bytes(os.urandom(100))
    (root / "old.jsonl").write_text(lines[0].replace('"schema_version":1', '"schema_version":0'))
    (root / "unknown.jsonl").write_text(lines[0].replace('"cluedo"', '"chess"'))
    (root / "moves.jsonl").write_text(lines[0] + '{"type":"chance","ply":0,"action":"deal ?"}\n')
    (root / "cut.jsonl").write_text("".join(lines)[:-200])
    return base


@pytest.fixture(scope="module")
def server(base: Path) -> Iterator[WebViewer]:
    with serving(base / "root") as running:
        yield running


def test_answers_equal_the_analysis(server: WebViewer, base: Path) -> None:
    analysis = ReplayAnalysis(read_replay(base / "root" / "clue.jsonl"))
    for seat in (None, 0, 2):
        asked = {"path": "clue.jsonl"} | ({} if seat is None else {"seat": seat})
        timeline = server.ask("timeline", **asked)
        assert timeline.headers["content-type"] == "application/json"
        more = {"running": False, "key": ReplayDirectory(base / "root").find("clue.jsonl").key}
        more |= {"path": "clue.jsonl"} if seat is None else {}
        assert timeline.json == json.loads(json.dumps(analysis.timeline(seat))) | more
        later = server.ask("timeline", first=9, **asked).json
        assert later == json.loads(json.dumps(analysis.timeline(seat, 9))) | more
        lines = server.ask("comments", **asked).body.decode().splitlines()
        assert json.loads(lines.pop()) == {"done": True}
        assert [json.loads(line) for line in lines] == json.loads(
            json.dumps(list(analysis.comments(seat)))
        )
        summaries = json.loads(json.dumps(analysis.summaries(seat)))
        assert server.ask("summaries", **asked).json == summaries
        decision = json.loads(json.dumps(analysis.decision(1, seat)))
        assert server.ask("decision", ply=1, **asked).json == decision
        moves = json.loads(json.dumps(analysis.moves(1, seat)))
        assert server.ask("moves", position=1, **asked).json == moves
    known = json.loads(json.dumps(analysis.posterior(1)))
    assert server.ask("posterior", path="clue.jsonl", player=1).json == known
    assert server.ask("posterior", path="clue.jsonl", player=1, seat=1).json == known


def test_a_seat_is_told_nothing_of_the_others(server: WebViewer) -> None:
    refused = server.ask("posterior", path="clue.jsonl", player=1, seat=0)
    assert refused.status == 403 and "seat 0" in refused.json["error"]
    timeline = server.ask("timeline", path="clue.jsonl", seat=0).json
    assert "seed" not in timeline["game"]
    assert all(
        event["audience"] is None or 0 in event["audience"]
        for ply in timeline["plies"]
        for event in ply["events"]
    )


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("empty.jsonl", "empty.jsonl: the file is empty, not a replay"),
        ("log.jsonl", "log.jsonl: line 1 is not a replay header"),
        ("noise.jsonl", "noise.jsonl: "),
        ("old.jsonl", "old.jsonl: written with replay schema 0"),
        ("unknown.jsonl", "unknown.jsonl: line 1: there is no game 'chess'"),
        ("moves.jsonl", "moves.jsonl: ply 1"),
    ],
)
@pytest.mark.parametrize("route", ["timeline", "comments", "summaries"])
def test_what_is_no_replay_is_said_clearly(
    server: WebViewer, base: Path, route: str, name: str, error: str
) -> None:
    answer = server.ask(route, path=name)
    assert answer.status == 422 and answer.json["error"].startswith(error)
    assert str(base) not in answer.json["error"]


def test_a_seat_is_not_told_what_is_wrong_with_a_move(server: WebViewer) -> None:
    answer = server.ask("timeline", path="moves.jsonl", seat=0)
    assert answer.status == 422 and "everything open" in answer.json["error"]
    assert "deal" not in answer.json["error"] and "moves" not in answer.json["error"]


def test_a_replay_can_be_asked_for_by_its_key(server: WebViewer) -> None:
    by_name = server.ask("timeline", path="clue.jsonl", seat=1)
    by_key = server.ask("timeline", key=by_name.json["key"], seat=1)
    assert by_key.json == by_name.json and "path" not in by_key.json
    assert b"clue.jsonl" not in by_key.body
    assert server.ask("timeline", key="clue.jsonl").status == 404
    refused = server.ask("timeline", key=by_name.json["key"], seat=3)
    assert (refused.status, refused.json["seats"]) == (400, 3)


OUTSIDE = [
    "../outside/secret.jsonl", "..%2foutside%2fsecret.jsonl", "%2e%2e/outside/secret.jsonl",
    "%2e%2e%2foutside%2fsecret.jsonl", "%252e%252e%252foutside%252fsecret.jsonl",
    "..%5coutside%5csecret.jsonl", "..\\outside\\secret.jsonl", "....//outside/secret.jsonl",
    "deep er/../../outside/secret.jsonl", "./../outside/secret.jsonl", "leaving/../clue.jsonl",
    "%c0%ae%c0%ae/outside/secret.jsonl", "..;/outside/secret.jsonl", "..%00/outside/secret.jsonl",
    "leaving.jsonl", "leaving/secret.jsonl", "%2foutside%2fsecret.jsonl", "~/secret.jsonl",
    "file:///etc/passwd", "/etc/passwd", "//etc/passwd", "", ".", "..", "/", "%00", "%2f",
    "clue.jsonl%00", "clue.jsonl%00.txt", "clue.jsonl%0a", "clue.jsonl/", "clue.jsonl/.",
    "clue.jsonl::$DATA", "deep er", "deep%20er/", "note.txt", "pipe.jsonl", "nothing.jsonl",
    ".hidden/clue.jsonl", "./clue.jsonl", "deep%20er//k%C3%BChn%20%231.jsonl", "CLUE.JSONL",
    "%ff.jsonl", "%ed%b3%bf.jsonl", "x" * 5000 + ".jsonl", "clue.jsonl/../clue.jsonl",
]  # fmt: skip


ROUTES = ["timeline", "posterior", "comments", "summaries", "decision", "moves"]


@pytest.mark.parametrize("route", ROUTES)
def test_no_path_leads_out_of_the_root(server: WebViewer, base: Path, route: str) -> None:
    absolute = str(base / "outside" / "secret.jsonl")
    own = str(base / "root" / "clue.jsonl")
    for path in (*OUTSIDE, absolute, own, quote(absolute, safe="")):
        answer = server.get(
            f"/api/{route}?player=0&ply=0&position=0&path={path.replace(' ', '%20')}"
        )
        assert (answer.status, answer.json) == (404, {"error": "there is no such replay here"})


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_as_a_path_are_answered(server: WebViewer, path: bytes, twice: bool) -> None:
    text = quote(quote(path) if twice else path, safe="")
    assert server.get(f"/api/timeline?path={text}").status == 404


@pytest.mark.parametrize(
    "target",
    [
        "/page/../server.py", "/page/..%2fserver.py", "/page/%2e%2e/server.py", "/server.py",
        "/page/..\\server.py", "/page/%252e%252e%252fserver.py", "/page/", "/page", "/page/.",
        "/page/index.html%00", "/../pyproject.toml", "//etc/passwd", "/scene/../server.js",
        "/scene/..%2f..%2fserver.js", "/scene/chess.js", "/scene/.js", "/scene/cluedo",
        "/scene/cluedo%00.js", "/api", "/api/", "/api/timeline/", "/api/games/x", "/docs",
    ],
)  # fmt: skip
def test_only_the_pages_own_files_are_served(server: WebViewer, target: str) -> None:
    answer = server.get(target)
    assert answer.status == 404 and set(answer.json) == {"error"}
    assert b"import" not in answer.body


@pytest.mark.parametrize(
    "target",
    ["/", "/page/main.js", "/scene/cluedo.js", "/api/games", "/nothing", "/api/timeline",
     "/api/timeline?path=log.jsonl", "/api/comments?path=clue.jsonl", "/favicon.ico"],
)  # fmt: skip
@pytest.mark.parametrize("host", [None, "evil.example"])
def test_every_answer_has_the_policy(server: WebViewer, target: str, host: str | None) -> None:
    answer = server.get(target, **({"Host": host} if host else {}))
    assert (answer.status == 403) == (host is not None)
    policy = answer.headers["content-security-policy"]
    assert policy.split("; ") == [
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:",
        "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    ]  # fmt: skip
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers and "access-control-allow-origin" not in answer.headers


def test_only_this_machines_names_and_pages_may_ask(server: WebViewer) -> None:
    def status(**headers: str) -> int:
        return server.get("/api/games", **headers).status

    port = server.port
    for host in (
        f"localhost:{port}",
        f"127.0.0.1:{port}",
        f"[::1]:{port}",
        "LOCALHOST",
        "a.localhost",
    ):
        assert status(Host=host) == 200
    for host in (
        "evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", "2130706433",
        "localhost.evil.example", "192.168.0.1", "0.0.0.0", "127.0.0.1@evil.example", "[::1", "a b",
        "evillocalhost",
    ):  # fmt: skip
        assert status(Host=host) in (400, 403), host
    assert status(Host="") == 400
    twice = "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert server.exchange(twice.encode()).status in (400, 403)
    assert status(Origin=f"http://127.0.0.1:{port}") == 200
    for origin in ("http://evil.example", "null", f"http://localhost:{port}", "http://127.0.0.1:1"):
        assert status(Origin=origin) == 403, origin
    assert status(Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors") == 403
    assert status(Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors") == 403
    assert status(Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors") == 200
    assert status(Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate") == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(server: WebViewer, method: str) -> None:
    for target in ("/", "/api/games", "/api/timeline?path=clue.jsonl", "/page/main.js"):
        answer = server.get(target, method)
        assert answer.status == 405 and set(answer.json) == {"error"}


def test_a_running_game_is_followed(server: WebViewer, base: Path) -> None:
    whole = (base / "root" / "clue.jsonl").read_bytes()
    running = base / "root" / "running.jsonl.part"
    lines = whole.splitlines(keepends=True)
    running.write_bytes(b"".join(lines[:20]))
    begun = server.ask("timeline", path="running.jsonl.part").json
    assert begun["outcome"] is None and "unfinished" in begun["notice"]
    position = len(begun["plies"])
    assert server.ask("timeline", path="running.jsonl.part", first=position).json["plies"] == []
    with running.open("ab") as file:
        file.write(b"".join(lines[20:40]) + lines[40][:7])
    more = server.ask("timeline", path="running.jsonl.part", first=position).json
    assert more["first"] == position and len(more["plies"]) > 0
    assert more["plies"][0]["ply"] == position
    running.write_bytes(whole)
    running.rename(running.with_suffix(""))
    ended = server.ask("timeline", path="running.jsonl.part", first=position).json
    assert ended["outcome"] is not None and ended["notice"] is None
    assert ended == server.ask("timeline", path="running.jsonl", first=position).json
    running.with_suffix("").unlink()
    assert server.ask("timeline", path="running.jsonl.part").status == 404


@pytest.mark.timed
def test_ctrl_c_does_not_wait_for_who_reads_slowly(base: Path) -> None:
    with (
        serving(base / "root") as server,
        socket.create_connection(("127.0.0.1", server.port)) as c,
    ):
        c.sendall(b"GET /api/comments?path=clue.jsonl HTTP/1.1\r\nHost: localhost\r\n")
        begun = time.monotonic()
        assert server.end() == 0
        assert time.monotonic() - begun < 5


def test_what_cannot_be_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="nothing: there is no such file"):
        serve(tmp_path / "nothing", 0)
    (tmp_path / "README.md").write_text("# Games\n")
    with pytest.raises(ReplayError, match=r"README\.md: line 1 is not JSON; this is not a replay"):
        serve(tmp_path / "README.md", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port}: Address already in use; .*--port"):
            serve(tmp_path, port)
        refused = arena(f"replay . --web --port {port}", cwd=tmp_path)
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) <= 2
    monkeypatch.setattr(
        "arena.plugins.catalog.find_spec", lambda name: None if name == "uvicorn" else name
    )
    with pytest.raises(MissingDependency, match=r"'uvicorn'.*\[web\]"):
        serve(tmp_path, 0)


def test_it_listens_on_this_machine_only(server: WebViewer) -> None:
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", server.port), timeout=2)
