"""The page with one game, in one file: nothing is fetched, so it works from disk and offline."""

from __future__ import annotations

import base64
import hashlib
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rich.console import Console

from arena.core.errors import ArenaError, UsageError
from arena.core.json import Json
from arena.episodes.files import write_whole
from arena.episodes.replay import Replay
from replays.analysis.documents import StoryJson
from replays.analysis.study import Study
from replays.web.encoding import encode, encode_for_html
from replays.web.modules import join_modules
from replays.web.page_files import INDEX, page_files, scene_file

MOST_CHARACTERS = 200 * 10**6
"""Of all decisions: a chat's prompts are told again with each."""
SCENES = "scenes.js"
"""The module that fetches what draws a table; the file has another one in its place."""
SCENE = "@scene.js"
MOST_BYTES = 50 * 2**20
"""Of a replay. The documents of all its perspectives are several times as large."""

STYLE = re.compile(r'<link rel="stylesheet" href="/page/([\w.-]+)">')
SCRIPT = re.compile(r'<script type="module" src="/page/([\w.-]+)"></script>')
FETCHED = re.compile(r"""\b(?:src|href|srcset|action)\s*=\s*["']?(?!["']?(?:#|data:))[^\s>]+""")
FETCHED_BY_STYLE = re.compile(r"""@import\b|\burl\(\s*["']?(?!["']?(?:#|data:))[^)]*""")
HEAD = "<head>\n"


def write_bundle(replay: Replay, seat: int | None, out: Path) -> None:
    """Write the file at once. Raises ReplayError or ArenaError, and leaves `out` as it was."""
    if out.exists() and replay.path.exists() and out.samefile(replay.path):
        raise UsageError(f"--html {out}: that is the replay itself")
    with _progress(f"Studying {replay.path}"):
        data = documents(replay, seat)
    page = render(data, data["scene"])
    try:
        write_whole(out, page)
    except OSError as error:
        raise ArenaError(f"cannot write {out}: {error.strerror}") from error
    print(f"Page: {out} ({len(page) / 2**20:.1f} MiB); open it in any browser")


def _progress(doing: str) -> AbstractContextManager[object]:
    console = Console(stderr=True)
    return console.status(f"{doing} …") if console.is_terminal else nullcontext()


def documents(replay: Replay, seat: int | None) -> dict[str, Json]:
    """Everything that the page shows, of every perspective that it offers: `seat`, or all."""
    if replay.path.exists() and replay.path.stat().st_size > MOST_BYTES:
        raise _too_large(replay.path, f"over {MOST_BYTES / 2**20:.0f} MiB")
    study = Study(replay)
    seats = list(range(len(replay.header.players))) if seat is None else [seat]
    perspectives = [None, *seats] if seat is None else [seat]
    stories = {_key(who): study.story(who) for who in perspectives}
    return {
        "single": True,
        # Names of files hold the seed, which gives the deal away.
        "path": replay.path.name if seat is None else f"{replay.header.game}, seat {seat}",
        "scene": stories[_key(seat)]["game"]["scene"],
        "stories": stories,
        "knowledge": {str(of): study.knowledge(of) for of in seats},
        "comments": {_key(who): list(study.comments(who)) for who in perspectives},
        "summaries": {_key(who): study.summaries(who) for who in perspectives},
        "decisions": _decisions(study, replay.path, stories[_key(seat)], seat),
    }


def _too_large(path: Path, why: str) -> ArenaError:
    return ArenaError(
        f"{path} is too large for one file ({why}): arena replay {path} --web shows it"
    )


def _key(seat: int | None) -> str:
    return "open" if seat is None else str(seat)


def _decisions(study: Study, path: Path, story: StoryJson, seat: int | None) -> dict[str, Json]:
    found, characters = dict[str, Json](), 0
    for ply in (each["ply"] for each in story["plies"] if each["asked"]):
        decision = study.decision(ply, seat)
        if decision:
            found[str(ply)] = decision
            characters += len(encode(decision))
        if characters > MOST_CHARACTERS:
            raise _too_large(path, f"its prompts alone over {MOST_CHARACTERS / 1e6:.0f} MB")
    return found


def render(data: dict[str, Json], scene: str | None) -> str:
    """The page, with what it would fetch put into it, and a policy that allows nothing else."""
    files = page_files()
    page = _read(INDEX, files).replace("\r\n", "\n")
    styles: list[str] = []
    scripts: list[str] = []

    def inline_style(match: re.Match[str]) -> str:
        styles.append(_style(match[1], files))
        return f"<style>{styles[-1]}</style>"

    def inline_script(match: re.Match[str]) -> str:
        scripts.append(_script(match[1], files, scene))
        embedded = f'<script type="application/json" id="data">{encode_for_html(data)}</script>'
        return f'{embedded}\n<script type="module">{scripts[-1]}</script>'

    page = STYLE.sub(inline_style, page)
    fetched = FETCHED.search(SCRIPT.sub("", page))
    if fetched or not (styles and SCRIPT.search(page) and page.count(HEAD) == 1):
        raise ArenaError(f"{INDEX} cannot be put into one file: {fetched and fetched[0]}")
    page = SCRIPT.sub(inline_script, page)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_policy(styles, scripts)}">'
    return page.replace(HEAD, f"{HEAD}{policy}\n", 1)


def _policy(styles: list[str], scripts: list[str]) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {' '.join(map(_hash, styles))}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _style(name: str, files: dict[str, Path]) -> str:
    """Line ends are made the page's: a browser hashes what it has read, and reads them so."""
    text = _read(name, files).replace("\r\n", "\n")
    if fault := FETCHED_BY_STYLE.search(text) or re.search("</style", text, re.IGNORECASE):
        raise ArenaError(f"{name} cannot be put into one file: {fault[0]}")
    return text


def _script(entry: str, files: dict[str, Path], scene: str | None) -> str:
    def read(name: str) -> str:
        if name == SCENES:
            return _scenes(scene)
        if name == SCENE and scene is not None:
            return _read(name, {name: scene_file(scene)})
        return _read(name, files)

    return "\n" + join_modules(entry, read)


def _read(name: str, files: dict[str, Path]) -> str:
    if name not in files:
        raise ArenaError(f"the page has no file {name}")
    try:
        return files[name].read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArenaError(f"cannot read {files[name]}: {error}") from error


def _scenes(scene: str | None) -> str:
    """The module of that name, for a file: what draws the table is in it already."""
    if scene is None:
        return "export async function loadScene(name) {\n  return null;\n}\n"
    return (
        f'import * as scene from "./{SCENE}";\n'
        f"const NAME = {encode_for_html(scene)};\n"
        "export async function loadScene(name) {\n  return name === NAME ? scene : null;\n}\n"
    )
