"""The page in one file: what is inlined, what is refused, and what the file holds of a game."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from command_line import arena
from hypothesis import given, settings
from hypothesis import strategies as st
from web_viewer import record

from arena.core.errors import ArenaError, UsageError
from arena.episodes.replay import read_replay
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.analysis.scenes import scene_module
from replays.web import bundle
from replays.web.bundle import write_bundle
from replays.web.page_files import encode, encode_for_html, page_files

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(JSON)
def test_documents_are_json_whatever_they_hold(document: object) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    text = encode(document)
    found = json.loads(text, parse_constant=refuse)
    if encode(found) == text and "null" not in text:
        assert found == json.loads(json.dumps(document))
    embedded = encode_for_html(document)
    assert not set("<>&\u2028\u2029\n") & set(embedded)
    assert json.loads(embedded) == found


@dataclass
class Seen(html.parser.HTMLParser):
    """What a browser would find in a file."""

    elements: list[tuple[str, dict[str, str | None], str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}", {}, ""))

    def handle_data(self, data: str) -> None:
        if self.elements:
            tag, attrs, text = self.elements[-1]
            self.elements[-1] = (tag, attrs, text + data)

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, text) for name, attrs, text in self.elements if name == tag]


def parsed(page: str) -> Seen:
    seen = Seen()
    seen.feed(page)
    seen.close()
    return seen


def data_of(page: str) -> Any:
    (text,) = [text for attrs, text in parsed(page).all("script") if attrs.get("id") == "data"]
    return json.loads(text)


def modules_of(page: str) -> dict[str, str]:
    """The sources of the modules in a file, by their names."""
    (text,) = [text for attrs, text in parsed(page).all("script") if attrs["type"] == "importmap"]
    encoded = {name: address.split(",") for name, address in json.loads(text)["imports"].items()}
    assert {kind for kind, _ in encoded.values()} == {"data:text/javascript;base64"}
    return {name: base64.b64decode(code).decode() for name, (_, code) in encoded.items()}


def check_offline(page: str) -> None:
    """Styles, the modules and the data, allowed by hash and nonce; nothing else is asked for."""
    seen = parsed(page)
    data, table, module = seen.all("script")
    styles = [style for _, style in seen.all("style")]
    assert 1 <= len(styles) <= 2
    assert data[0] == {"type": "application/json", "id": "data"}
    nonce = module[0]["nonce"]
    assert nonce and len(nonce) == 44 and nonce not in data[1] and nonce not in table[1]
    assert table[0] == {"type": "importmap", "nonce": nonce}
    assert module == ({"type": "module", "nonce": nonce}, 'import "page/main.js";')
    for attrs in (attrs for _, attrs, _ in seen.elements):
        assert not {"src", "srcset", "style", "onload", "onerror", "onclick"} & attrs.keys()
        assert (attrs.get("href") or "#").startswith(("#", "data:"))
    policies = [
        attrs["content"]
        for attrs, _ in seen.all("meta")
        if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    digests = [
        base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() for style in styles
    ]
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    assert policies == [
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src {hashes}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    ]
    modules = modules_of(page)
    imported = [
        re.findall(r"""\b(?:from|import)\s+["']([^"'\s]+)["']""", m) for m in modules.values()
    ]
    assert {name for names in imported for name in names} | {"page/main.js"} == {*modules}
    assert not [text for text in modules.values() if re.search(r"\bimport\s*\(", text)]
    page += "".join(modules.values())
    code = page.replace(data[1], "")
    namespaces = r"https?://www\.w3\.org/[\w/]+"  # Names of SVG and HTML, which nobody fetches.
    assert re.findall(r"\w+://[^\s\"']+", re.sub(namespaces, "", code)) == []


@pytest.fixture(scope="module")
def clue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    return record(folder, "cluedo-seed3", 3, "cluedo", variant="cards", players=3)


def through_json(document: object) -> Any:
    return json.loads(json.dumps(document))


def test_a_game_in_one_file(clue: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    write_bundle(read_replay(clue), None, out)
    page = out.read_text(encoding="utf-8")
    check_offline(page)
    data, analysis = data_of(page), ReplayAnalysis(read_replay(clue))
    assert data["single"] is True and data["path"] == "cluedo-seed3.jsonl"
    perspectives: dict[str, int | None] = {"open": None, "0": 0, "1": 1, "2": 2}
    assert data["timelines"] == {
        k: through_json(analysis.timeline(s)) for k, s in perspectives.items()
    }
    assert set(data["comments"]) == set(data["summaries"]) == set(perspectives)
    assert data["comments"]["1"] == through_json(list(analysis.comments(1)))
    assert data["summaries"]["open"] == through_json(analysis.summaries())
    assert data["posteriors"] == {str(of): through_json(analysis.posterior(of)) for of in range(3)}
    assert data["decisions"] == {}  # Nobody asked a model.
    positions = range(len(analysis.timeline()["plies"]))
    moves = {str(each): analysis.moves(each) for each in positions if analysis.moves(each)}
    assert moves and data["moves"] == through_json(moves)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_file_for_one_seat_holds_nothing_else(clue: Path, tmp_path: Path) -> None:
    out = tmp_path / "seat.html"
    write_bundle(read_replay(clue), 1, out)
    page = out.read_text(encoding="utf-8")
    check_offline(page)
    data, analysis = data_of(page), ReplayAnalysis(read_replay(clue))
    assert data["path"] == "cluedo, seat 1"
    for part in ("timelines", "comments", "summaries", "posteriors"):
        assert set(data[part]) == {"1"}
    assert data["timelines"]["1"] == through_json(analysis.timeline(1))
    assert data["moves"] and {each["player"] for each in data["moves"].values()} == {1}
    deal = json.loads(clue.read_text().splitlines()[1])["action"]
    assert deal.startswith("deal ") and deal not in page
    # An option of the game may have such a name; it is public.
    assert not re.search("(?<!names_)seed", json.dumps(data))


def test_decisions_of_a_model_are_in_the_file_of_who_made_them(tmp_path: Path) -> None:
    path = record(tmp_path, "game", 3)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    decisions = [line for line in lines if line["type"] == "decision"]
    for line in decisions:
        line["details"] = {"attempts": [], "note": f"of seat {line['player']}"}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    replay = read_replay(path)
    analysis = ReplayAnalysis(replay)
    asked = {p["ply"] for p in analysis.timeline()["plies"] if p["has_requests"]}
    everything, own = bundle.collect_documents(replay, None), bundle.collect_documents(replay, 0)
    assert set(everything["decisions"]) == {str(ply) for ply in asked}
    mine = {str(line["ply"]) for line in decisions if line["player"] == 0}
    assert set(own["decisions"]) == mine & set(everything["decisions"])
    assert "of seat 1" not in json.dumps(own)


HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\u2028]]>&lt;"


def test_hostile_texts_stay_data(tmp_path: Path) -> None:
    path = record(tmp_path, "game", 3)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["players"] = [HOSTILE, HOSTILE]
    for line in lines:
        if line["type"] == "decision":
            line["failure"] = HOSTILE
            line["details"] = {"note": HOSTILE, HOSTILE: [HOSTILE, float("nan")]}
        if line["type"] == "outcome":
            line["reason"] = HOSTILE
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    hostile = path.rename(tmp_path / "<script>alert(3)<!--.jsonl")
    out = tmp_path / "hostile.html"
    write_bundle(read_replay(hostile), None, out)
    page = out.read_text(encoding="utf-8")
    check_offline(page)
    data = data_of(page)
    assert data["path"] == hostile.name
    assert data["timelines"]["open"]["game"]["specs"] == [HOSTILE, HOSTILE]
    assert not re.search(r"alert\(\d\)", page.replace(encode_for_html(data), ""))


def test_a_scene_is_in_the_file_that_needs_it(clue: Path, tmp_path: Path) -> None:
    lines = scene_module("cluedo").read_text(encoding="utf-8").splitlines()
    scene = max((line for line in lines if "export" not in line), key=len)
    with_scene = bundle.render(bundle.collect_documents(read_replay(clue), 0), "cluedo")
    assert scene in "".join(modules_of(with_scene).values())
    assert scene not in "".join(modules_of(bundle.render({}, None)).values())
    with pytest.raises(UsageError, match="there is no scene 'chess'"):
        bundle.render({}, "chess")


def page_with(monkeypatch: pytest.MonkeyPatch, folder: Path, **texts: str) -> None:
    """Another page, of which some files are other ones."""
    folder.mkdir()
    index = (
        '<!doctype html>\n<html>\n<head>\n<link rel="stylesheet" href="/page/style.css">\n</head>\n'
        '<body><script type="module" src="/page/main.js"></script></body>\n</html>\n'
    )
    files = {"index.html": index, "style.css": "p { color: red }\r\n", "main.js": "start();\r\n"}
    for name, text in (files | {k.replace("_", "."): v for k, v in texts.items()}).items():
        (folder / name).write_bytes(text.encode())
    monkeypatch.setattr("replays.web.page_files.FOLDER", folder)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("style_css", "p { background: url(https://evil.example/a.png) }", "url"),
        ("style_css", "p { background: url( 'a.png' ) }", "url"),
        ("style_css", '@import "other.css";', "@import"),
        ("style_css", "/* </style> */", "</style"),
        ("index_html", "<head>\n</head>", "index.html"),
        ("index_html", '<head>\n<link rel="icon" href="/icon.svg">\n', "/icon.svg"),
        ("index_html", "<head>\n<img src=x>\n", "src=x"),
        ("main_js", 'import { a } from "./nothing.js";', "nothing.js"),
    ],
)
def test_a_page_that_would_fetch_something_is_not_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str, fault: str
) -> None:
    page_with(monkeypatch, tmp_path / "page", **{name: text})
    with pytest.raises(ArenaError, match=re.escape(fault)):
        bundle.render({}, None)


def test_a_replay_that_is_too_large(
    clue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "MAX_REPLAY_BYTES", 1000)
    with pytest.raises(ArenaError, match="too large for one file.*--web instead"):
        write_bundle(read_replay(clue), None, tmp_path / "page.html")


def test_the_command(clue: Path, tmp_path: Path) -> None:
    done = arena(f"replay {clue} --html page.html --seat 0", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Page: page.html (")
    assert set(data_of((tmp_path / "page.html").read_text(encoding="utf-8"))["timelines"]) == {"0"}
    refused = arena(f"replay {clue} --html missing/page.html", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--html missing/page.html: no file can be written there" in refused.stderr
    assert "Traceback" not in refused.stderr


STARTS = ("main.js", "play.js")


def test_every_module_of_the_page_is_used() -> None:
    """What nothing imports would be missing from an exported file without a word."""
    used = {name for start in STARTS for name in bundle._modules(start, page_files(), None)}
    assert {name for name in page_files() if name.endswith(".js")} == used
