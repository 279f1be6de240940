"""The list of replays: what is in it, what is not, and how little is read for it."""

from __future__ import annotations

import json
import os
import shutil
from codecs import BOM_UTF8
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from web_viewer import being_written, record

from replays.analysis.documents import ListedReplayJson
from replays.web.http_errors import HttpError
from replays.web.listing import Listing
from replays.web.replay_directory import ReplayDirectory


def rows(folder: Path) -> dict[str, ListedReplayJson]:
    return {row["path"]: row for row in Listing(ReplayDirectory(folder)).read().games}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two games, in folders, and what else may lie about."""
    record(tmp_path, "one")
    record(tmp_path / "deeper" / "still", "two", game="tictactoe")
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
    (tmp_path / "numbers.jsonl").write_text("1\n2\n")
    (tmp_path / "one.ledger.json").write_text("{}")
    return tmp_path


def test_games_are_found_in_all_folders(folder: Path) -> None:
    found = rows(folder)
    assert set(found) == {"one.jsonl", "deeper/still/two.jsonl"}
    one = found["one.jsonl"]
    last = json.loads((folder / "one.jsonl").read_text().splitlines()[-1])
    assert one["game"] == "kuhn_poker"
    assert one["players"] == ["bot:random", "bot:random"]
    assert one["status"] == "terminated" and one["error"] is None
    assert one["winners"] == [last["winner"]] and one["returns"] == last["returns"]
    assert not one["is_draw"]
    assert (one["turns"], one["decisions"]) == (last["turns"], last["decisions"])
    assert one["bytes"] == (folder / "one.jsonl").stat().st_size
    assert one["branch"] is None and one["variant"] is None


@pytest.mark.parametrize(
    ("name", "status"), [("game.jsonl.part", "running"), ("game.jsonl", "unfinished")]
)
def test_a_running_game_and_one_that_was_cut_off(tmp_path: Path, name: str, status: str) -> None:
    data = record(tmp_path, "whole").read_bytes()
    end = data.rindex(b"\n", 0, -1) + 1
    for cut in (end, end + 5, len(data) - 2):
        with being_written(tmp_path / name) as path:
            path.write_bytes(data[:cut])
            row = rows(tmp_path)[name]
            assert (row["status"], row["winners"], row["turns"]) == (status, [], None)
        assert rows(tmp_path)[name]["status"] == "unfinished"
    assert rows(tmp_path)["whole.jsonl"]["status"] == "terminated"
    for edited in (data[:-1], BOM_UTF8 + data + b"\n \r\n"):
        (tmp_path / "whole.jsonl").write_bytes(edited)
        assert rows(tmp_path)["whole.jsonl"]["status"] == "terminated"


HEADER = {"type": "header", "schema_version": 1}


def test_what_is_hidden_or_leads_elsewhere_is_not_listed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    secret = record(outside, "secret")
    inner = record(root / "in", "inner")
    record(root / ".hidden", "hidden")
    shutil.copy(inner, root / ".draft.jsonl")
    (root / "out.jsonl").symlink_to(secret)
    (root / "folder").symlink_to(outside)
    (root / "circle").symlink_to(root)
    (root / "self.jsonl").symlink_to("self.jsonl")
    (root / "within.jsonl").symlink_to(inner)
    (root / "folder.jsonl").mkdir()
    os.mkfifo(root / "pipe.jsonl")
    (root / "back\\slash.jsonl").write_bytes(inner.read_bytes())
    (root / "line\nbreak.jsonl").write_bytes(inner.read_bytes())
    Path(os.fsdecode(os.fsencode(root) + b"/\xff.jsonl")).write_bytes(inner.read_bytes())
    assert set(rows(root)) == {"in/inner.jsonl", "within.jsonl"}


def test_a_game_that_ends_is_found_under_its_new_name(tmp_path: Path) -> None:
    record(tmp_path, "game")
    assert ReplayDirectory(tmp_path).find("game.jsonl.part").name == "game.jsonl"
    running = tmp_path / "other.jsonl.part"
    shutil.copy(tmp_path / "game.jsonl", running)
    alone = ReplayDirectory(running)
    assert alone.find("other.jsonl.part").name == "other.jsonl.part"
    running.rename(tmp_path / "other.jsonl")
    assert alone.find("other.jsonl.part").name == "other.jsonl"
    assert [row["path"] for row in Listing(alone).read().games] == ["other.jsonl"]


PIECES = st.sampled_from(
    ["..", ".", "", "~", "in", "out", "secret.jsonl", "inner.jsonl", "\\", "..\\", "%2e%2e", "\0",
     "%00", "C:", "//", "\u2024\u2024", "\uff0e\uff0e", "\udc80", ".jsonl", ".jsonl.part"]
)  # fmt: skip


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one replay; what lies beside it has its names, and links lead there."""
    base = tmp_path_factory.mktemp("beside")
    for name in ("in/inner.jsonl", "secret.jsonl", "root/in/inner.jsonl", "rooting/secret.jsonl"):
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text("{}\n")
    (base / "root" / "out").symlink_to(base)
    return base


@given(st.lists(PIECES | st.text(max_size=3), max_size=6), st.sampled_from(["/", ""]))
def test_no_name_leads_out_of_the_root(beside: Path, pieces: list[str], between: str) -> None:
    name = between.join(pieces)
    for asked in (name, f"{beside}/{name}", f"in/../{name}", f"{name}/in/inner.jsonl"):
        try:
            found = ReplayDirectory(beside / "root").find(asked)
        except HttpError as refused:
            assert refused.status == 404 and str(beside) not in str(refused)
        else:
            assert found.path == beside / "root" / "in" / "inner.jsonl"
            assert found.name == "in/inner.jsonl"
