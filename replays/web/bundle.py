"""The page with one game in one HTML file: it loads nothing, so it works offline.

The modules of the page are `data:` addresses in an import map, by names of the form `page/NAME.js`:
a module at such an address cannot import `./NAME.js`, for it is in no folder. The policy allows
those scripts that have the nonce of the file, and the modules that they import. The nonce is a hash
of the content, so no text of a replay can hold it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Literal, TypedDict

from rich.console import Console

from arena.core.errors import ArenaError, UsageError
from arena.episodes.files import open_draft
from arena.episodes.replay import Replay
from replays.analysis.documents import (
    CommentJson,
    DecisionJson,
    MoveAnalysisJson,
    PosteriorJson,
    SeatSummaryJson,
    TimelineJson,
)
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.analysis.scenes import scene_module
from replays.web.page_files import INDEX, digest, encode, encode_for_html, page_files

MAX_DECISION_CHARACTERS = 200 * 10**6
"""Limit for all decisions: a chat's prompts are repeated with each of them."""
MAX_LEGAL_MOVES = 40_000
"""Legal moves of a game, over all plies, whose values are computed: some seconds of work."""
SCENE_LOADER = "scenes.js"
"""Module that loads a game's drawing module; the file contains a replacement for it."""
SCENE_MODULE = "@scene.js"
FOLDER_STYLE = "home.css"
MAX_REPLAY_BYTES = 50 * 2**20
"""The documents of all perspectives are several times as large as the replay."""

STYLE = re.compile(r'<link rel="stylesheet" href="/page/([\w.-]+)">')
IMPORTED = re.compile(r"""\b(from|import)\s*["']\./([@\w.-]+)["']""")
"""An import of another module of the page."""
SCRIPT = re.compile(r'<script type="module" src="/page/([\w.-]+)"></script>')
HTML_REFERENCE = re.compile(
    r"""\b(?:src|href|srcset|action)\s*=\s*["']?(?!["']?(?:#|data:))[^\s>]+"""
)
CSS_REFERENCE = re.compile(r"""@import\b|\burl\(\s*["']?(?!["']?(?:#|data:))[^)]*""")
HEAD = "<head>\n"


class BundleJson(TypedDict):
    """Documents of one game. Keys of perspectives are "open" or the number of a seat."""

    single: Literal[True]
    path: str
    scene: str | None
    timelines: dict[str, TimelineJson]
    posteriors: dict[str, PosteriorJson | None]
    comments: dict[str, list[CommentJson]]
    summaries: dict[str, list[SeatSummaryJson]]
    decisions: dict[str, DecisionJson]
    """Decisions by ply."""
    moves: dict[str, MoveAnalysisJson] | None
    """Moves by position; None if the game is too long."""


def write_bundle(replay: Replay, seat: int | None, out: Path) -> None:
    """Write the HTML file atomically; after an error, `out` is unchanged.

    Raises:
        ReplayError: The replay cannot be played.
        UsageError: `out` is the replay itself.
        ArenaError: The replay is too large, or the file cannot be written.
    """
    if out.exists() and replay.path.exists() and out.samefile(replay.path):
        raise UsageError(f"--html {out}: this is the replay itself; choose another file")
    console = Console(stderr=True)
    with console.status(f"Analysing {replay.path} …") if console.is_terminal else nullcontext():
        data = collect_documents(replay, seat)
    page = render(data, data["scene"])
    with open_draft(out) as file:
        file.write(page.encode())
    print(f"Page: {out} ({len(page) / 2**20:.1f} MiB); open it in any browser")


def collect_documents(replay: Replay, seat: int | None) -> BundleJson:
    """Return the documents of all perspectives that the file offers: `seat` alone, or all."""
    if replay.path.exists() and replay.path.stat().st_size > MAX_REPLAY_BYTES:
        raise _too_large(replay.path, f"over {MAX_REPLAY_BYTES / 2**20:.0f} MiB")
    analysis = ReplayAnalysis(replay)
    seats = list(range(len(replay.header.players))) if seat is None else [seat]
    perspectives = [None, *seats] if seat is None else [seat]
    timelines = {_key(view): analysis.timeline(view) for view in perspectives}
    main = timelines[_key(seat)]
    return {
        "single": True,
        # File names contain the seed, which determines the deal.
        "path": replay.path.name if seat is None else f"{replay.header.game}, seat {seat}",
        "scene": main["game"]["scene"],
        "timelines": timelines,
        "posteriors": {str(player): analysis.posterior(player) for player in seats},
        "comments": {_key(view): list(analysis.comments(view)) for view in perspectives},
        "summaries": {_key(view): analysis.summaries(view) for view in perspectives},
        "decisions": _collect_decisions(analysis, replay.path, main, seat),
        "moves": _collect_moves(analysis, len(main["plies"]), seat),
    }


def _too_large(path: Path, reason: str) -> ArenaError:
    return ArenaError(
        f"{path} is too large for one file ({reason}); use arena replay {path} --web instead"
    )


def _key(seat: int | None) -> str:
    return "open" if seat is None else str(seat)


def _collect_decisions(
    analysis: ReplayAnalysis, path: Path, timeline: TimelineJson, seat: int | None
) -> dict[str, DecisionJson]:
    decisions, characters = dict[str, DecisionJson](), 0
    # Bots have no prompts; their decisions would only enlarge the file.
    for ply in (entry["ply"] for entry in timeline["plies"] if entry["has_requests"]):
        decision = analysis.decision(ply, seat)
        if decision:
            decisions[str(ply)] = decision
            characters += len(encode(decision))
        if characters > MAX_DECISION_CHARACTERS:
            limit = f"{MAX_DECISION_CHARACTERS / 1e6:.0f} MB"
            raise _too_large(path, f"its prompts alone are over {limit}")
    return decisions


def _collect_moves(
    analysis: ReplayAnalysis, positions: int, seat: int | None
) -> dict[str, MoveAnalysisJson] | None:
    if analysis.count_legal_moves(seat) > MAX_LEGAL_MOVES:
        return None
    documents = (analysis.moves(position, seat) for position in range(positions))
    return {str(each["position"]): each for each in documents if each}


def render(data: BundleJson | Mapping[str, object], scene: str | None) -> str:
    """Return the page with all files inlined, and a policy that allows nothing else.

    `scene` is the name of the module that draws the game's table.

    Raises:
        ArenaError: The page contains a reference that cannot be inlined.
        UsageError: No scene has this name.
    """
    files = page_files()
    page = _read(INDEX, files)
    styles: list[str] = []
    nonce = digest(encode(data) + page)

    def inline_style(match: re.Match[str]) -> str:
        if match[1] == FOLDER_STYLE:
            return ""  # A file with one game has no home page.
        styles.append(_style(match[1], files))
        return f"<style>{styles[-1]}</style>"

    def inline_script(match: re.Match[str]) -> str:
        modules = _modules(match[1], files, scene)
        addresses = {f"page/{name}": _data_address(text) for name, text in modules.items()}
        return "\n".join(
            f"<script {attributes}>{text}</script>"
            for attributes, text in (
                ('type="application/json" id="data"', encode_for_html(data)),
                (f'type="importmap" nonce="{nonce}"', encode_for_html({"imports": addresses})),
                (f'type="module" nonce="{nonce}"', f'import "page/{match[1]}";'),
            )
        )

    # After inlining, no other reference may be left: the file must not load anything.
    page = STYLE.sub(inline_style, page)
    reference = HTML_REFERENCE.search(SCRIPT.sub("", page))
    if reference or not (styles and SCRIPT.search(page) and page.count(HEAD) == 1):
        raise ArenaError(f"{INDEX} cannot be inlined: {reference and reference[0]}")
    # Scripts come last, because the embedded data may contain text that looks like a reference.
    page = SCRIPT.sub(inline_script, page)
    hashes = " ".join(f"'sha256-{digest(style)}'" for style in styles)
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; "
        f"style-src {hashes}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    # The policy is the first element of the head, so that it applies to all others.
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return page.replace(HEAD, f"{HEAD}{meta}\n", 1)


def _style(name: str, files: dict[str, Path]) -> str:
    text = _read(name, files)
    if match := CSS_REFERENCE.search(text) or re.search("</style", text, re.IGNORECASE):
        raise ArenaError(f"{name} cannot be inlined: {match[0]}")
    return text


def _modules(entry: str, files: dict[str, Path], scene: str | None) -> dict[str, str]:
    """Return the modules that `entry` needs, by their names. Raises ArenaError for a missing one.

    They import each other by the names of the import map.
    """
    modules: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name in modules:
            continue
        if name == SCENE_LOADER:
            text = _scene_loader(scene)
        elif name == SCENE_MODULE and scene is not None:
            text = _read(name, {name: scene_module(scene)})
        else:
            text = _read(name, files)
        waiting += [imported for _, imported in IMPORTED.findall(text)]
        modules[name] = IMPORTED.sub(r'\1 "page/\2"', text)
    return modules


def _data_address(module: str) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(module.encode()).decode()}"


def _read(name: str, files: dict[str, Path]) -> str:
    """Return a file with Unix line ends: a browser hashes the text of a style in this form."""
    if name not in files:
        raise ArenaError(f"the page has no file {name}")
    try:
        return files[name].read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArenaError(f"cannot read {files[name]}: {error}") from error


def _scene_loader(scene: str | None) -> str:
    """Return the replacement for `SCENE_LOADER`: the drawing module is part of the file."""
    if scene is None:
        return "export async function loadScene(name) {\n  return null;\n}\n"
    return (
        f'import * as scene from "./{SCENE_MODULE}";\n'
        f"const NAME = {encode_for_html(scene)};\n"
        "export async function loadScene(name) {\n  return name === NAME ? scene : null;\n}\n"
    )
