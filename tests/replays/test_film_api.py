"""Films that the server makes: the buttons of the page, and requests that are refused."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from browsing import address, browsing, tab
from served_games import open_game, wait_for_view
from web_viewer import WebViewer, being_written, record, serving

from replays.film import film_api
from replays.web.app import make_app
from replays.web.replay_directory import ReplayDirectory

pytest.importorskip("imageio_ffmpeg", reason="the extra film is not installed")
pytest.importorskip("PIL", reason="the extra film is not installed")
SEED = 918273645


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("replays")
    record(folder, f"kuhn-{SEED}", seed=SEED)
    running = Path(shutil.copy(folder / f"kuhn-{SEED}.jsonl", folder / "running.jsonl.part"))
    with being_written(running):
        yield folder


@pytest.fixture(scope="module")
def viewer(folder: Path) -> Iterator[WebViewer]:
    with serving(folder) as served:
        yield served


class Server:
    """Sends requests to the application, without a socket."""

    def __init__(self, folder: Path) -> None:
        self._app = make_app(ReplayDirectory(folder))

    def post(self, body: dict[str, Any]) -> httpx.Response:
        return asyncio.run(self._send("POST", "/api/film", json=body))

    def timeline(self, path: str) -> dict[str, Any]:
        answer = asyncio.run(self._send("GET", "/api/timeline", params={"path": path}))
        document: dict[str, Any] = answer.json()
        return document

    async def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self._app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, **more)


@pytest.mark.browser
def test_the_page_saves_the_film_of_its_perspective(viewer: WebViewer, tmp_path: Path) -> None:
    with browsing() as browser, tab(browser) as opened:
        open_game(opened, address(viewer.port, f"kuhn-{SEED}.jsonl"))
        opened.page.keyboard.press("1")
        wait_for_view(opened, 1)
        asked: list[str] = []
        opened.page.on("request", lambda each: asked.append(each.post_data or ""))
        with opened.page.expect_download(timeout=120_000) as saving:
            opened.page.get_by_role("button", name="GIF", exact=True).click()
        saving.value.save_as(tmp_path / "film")
        assert (tmp_path / "film").read_bytes().startswith(b"GIF89a")
        assert saving.value.suggested_filename == "kuhn_poker-seat1.gif"
        (body,) = (json.loads(text) for text in asked if '"format"' in text)
        assert body["seat"] == 1
        opened.page.get_by_text("Film saved").first.wait_for()
        assert not opened.faults


@pytest.mark.parametrize(
    "body, status, message",
    [
        ({"path": "nothing.jsonl", "format": "gif"}, 404, "no such replay"),
        ({"path": "../x.jsonl", "format": "gif"}, 404, "no such replay"),
        ({"path": "running.jsonl.part", "format": "gif"}, 403, "not over"),
        ({"path": f"kuhn-{SEED}.jsonl", "format": "gif", "seat": 2}, 404, "no seat 2"),
        ({"path": f"kuhn-{SEED}.jsonl", "format": "avi"}, 400, "format"),
        ({"path": f"kuhn-{SEED}.jsonl", "format": "gif", "out": "/x"}, 400, "out"),
        ({"format": "gif"}, 404, "no such replay"),
    ],
)
def test_wrong_requests_are_refused(
    folder: Path, body: dict[str, Any], status: int, message: str
) -> None:
    answer = Server(folder).post(body)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"]


def test_one_film_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"path": f"kuhn-{SEED}.jsonl", "format": "gif"}
    server = Server(folder)

    def write(*args: Any) -> None:
        busy = server.post(wanted)
        assert busy.status_code == 409 and "another film" in busy.json()["error"]
        Path(args[4]).write_bytes(b"film")

    monkeypatch.setattr(film_api, "write_film", write)
    for _ in range(2):
        answer = server.post(wanted)
        assert (answer.status_code, answer.content) == (200, b"film")
        assert answer.headers["content-type"] == "image/gif"


def test_a_server_without_the_extra_offers_no_film(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(folder)
    assert server.timeline(f"kuhn-{SEED}.jsonl")["can_film"] is True
    assert "can_film" not in server.timeline("running.jsonl.part")
    monkeypatch.setattr(film_api, "find_spec", lambda name: None)
    server = Server(folder)
    assert "can_film" not in server.timeline(f"kuhn-{SEED}.jsonl")
    assert server.post({}).status_code == 404


@pytest.mark.browser
def test_ctrl_c_does_not_wait_for_a_film(tmp_path: Path) -> None:
    name = record(tmp_path, "cards", seed=SEED, game="cluedo", variant="cards", players=3).name
    with serving(tmp_path) as viewer:
        url = f"http://127.0.0.1:{viewer.port}/api/film"
        answers: list[int] = []

        def ask() -> None:
            body = {"path": name, "format": "mp4"}
            answers.append(httpx.post(url, json=body, timeout=120).status_code)

        asking = threading.Thread(target=ask)
        asking.start()
        # The process of `viewer` passes signals on to the server that listens.
        server = next(
            psutil.Process(connection.pid)
            for connection in psutil.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (viewer.port,)
        )
        while not server.children():  # The driver of the browser.
            assert asking.is_alive(), answers
            time.sleep(0.01)
        viewer.process.send_signal(signal.SIGINT)
        assert viewer.process.wait(60) == 0
        asking.join(60)
        assert answers == [503]
