"""Store measured results and write their tables into the documentation.

    python docs/tools/results.py store NAME -- COMMAND …   # run a command that takes --json
    python docs/tools/results.py render                    # rewrite the tables in README and docs
    python docs/tools/results.py check                     # fail if a table is out of date

A result is one file `results/NAME.json`: the commit, the command, the date, the machine and the
report that the command printed. In Markdown a table is enclosed by two comments:

    <!-- results: ladder -->
    …
    <!-- /results -->
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

# Also when a test loads this file by its path.
sys.path.append(str(Path(__file__).parent))
import game_tables

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
MARKED = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- /results -->)", flags=re.S)
PLAYERS = (3, 4, 6)
"""Table sizes of the ladder."""
SUITES = ("mini", "mini-plus", "clue-bench", "hidden-info-8", "hidden-info-8-plus")
POWERED = ("mini-plus", "hidden-info-8-plus")
"""Suites that name known orders of bots."""
REPRODUCTIONS = (
    *("avalonbench", "werewolf-random", "hanabi", "poker"),
    *("spiral", "clue-study", "dudo", "goofspiel"),
)
LEVELS = ("deductions", "notes", "events")
"""Text levels, from most help to least."""


def store(name: str, command: Sequence[str], root: Path = ROOT) -> Path:
    """Run `command`, wrap the JSON object in its last line of output and write it to `results/`.

    Raises CalledProcessError if the command fails; the stored file then stays as it was.
    """
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=root)
    report = json.loads(run.stdout.splitlines()[-1])
    for key in ("results", "measures"):  # A path of that machine; definitions, which the site has.
        report.pop(key, None)
    python = platform.python_version()
    document = {
        "commit": commit(root),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": " ".join(["arena", *command[1:]]),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {python}",
        "report": report,
    }
    path = root / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def commit(root: Path) -> str:
    """Return the short hash of HEAD, with `+changes` if product code differs from it."""

    def git(*words: str) -> str:
        run = subprocess.run(["git", *words], check=True, capture_output=True, text=True, cwd=root)
        return run.stdout.strip()

    code = ("arena", "backends", "games", "replays", "trainers")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *code)
    return git("rev-parse", "--short=7", "HEAD") + ("+changes" if changed else "")


def load(name: str) -> dict[str, Any]:
    """Return one stored result."""
    document = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def documents() -> Iterator[Path]:
    """Yield the Markdown files that may hold tables of results."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def rendered(text: str) -> str:
    """Return `text` with the table between each pair of comments replaced."""
    return MARKED.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}{match[3]}", text)


def outdated(paths: Iterable[Path]) -> list[Path]:
    """Return the documents whose tables differ from the stored results."""
    return [path for path in paths if rendered(_read(path)) != _read(path)]


def render(paths: Iterable[Path]) -> None:
    """Rewrite the tables of these documents, where they differ from the stored results."""
    for path in outdated(paths):
        path.write_text(rendered(_read(path)), encoding="utf-8")
        print(f"Wrote {path.relative_to(ROOT)}")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


NUMBERS, WORDS = "---:", "---"
"""Alignment of the columns after the first: to the right or to the left."""


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], alignment: str = NUMBERS) -> str:
    """Return a Markdown table; the first column is left-aligned."""
    lines = [header, ["---", *[alignment] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _measured(entry: Mapping[str, Any]) -> str:
    """Return the command, the commit and the date of a stored report or row."""
    # Older figures name the commit that published them; the measuring commit was not recorded.
    place = f"commit `{entry['commit']}`" if "commit" in entry else ""
    place = place or f"published in commit `{entry['published_in']}`"
    return f"`{entry['command']}`, {place}, {entry['date']}"


def _origins(lines: Iterable[str]) -> str:
    """Return the list below a table that names where its figures are from."""
    return "\nMeasured by:\n\n" + "".join(f"- {line}\n" for line in lines)


def _percent(estimate: Mapping[str, float]) -> str:
    """Return a share and its 95 % interval in percent."""
    value, low, high = (f"{100 * estimate[key]:.0f}" for key in ("value", "low", "high"))
    return f"{value} % [{low}, {high}]".replace("-", "−")


def _rating(estimate: Mapping[str, float]) -> str:
    """Return a rating and its 95 % interval."""
    value, low, high = (f"{estimate[key]:.0f}" for key in ("value", "low", "high"))
    return f"{value} [{low}, {high}]".replace("-", "−")


def ladder() -> str:
    """Return the ratings of Cluedo's bots at each table size, from the stored tournaments."""
    stored = {players: load(f"ladder-{players}") for players in PLAYERS}
    rows = [
        [
            f"{players} players",
            f"`{row['player']}`",
            _rating(row["rating"]),
            _percent(row["win_rate"]),
            str(row["games"]),
        ]
        for players, document in stored.items()
        for row in document["report"]["players"]  # Ordered by rating.
    ]
    header = ["table", "player", "rating", "games won", "games"]
    return _table(header, rows) + _origins(map(_measured, stored.values()))


def clue_tiny() -> str:
    """Return the strength of the model that ships with arena, at each text level."""
    stored = {level: load(f"strength-{level}") for level in LEVELS}
    header = ["text level", "games won", "won by a novice in the same seats", "difference"]
    header += ["right accusations", "legal replies"]
    rows = []
    for level, document in stored.items():
        model, novice = document["report"]["players"]
        replies, right = model["replies"], model["measures"].get("accusations_right")
        rows.append(
            [
                f"`{level}`",
                _percent(model["win_rate"]),
                _percent(novice["win_rate"]),
                _percent(document["report"]["comparison"]["difference"]),
                _percent(right) if right else "",
                f"{100 * replies['legal'] / replies['attempts']:.1f} %",
            ]
        )
    return _table(header, rows) + _origins(map(_measured, stored.values()))


def benchmark(suite: str) -> str:
    """Return the leaderboard of the reference entries of a suite."""
    document = load(f"benchmark-{suite}")
    entries = document["report"]["entries"]
    # A table has room for the tasks of the small suite, and for the skills of a large one.
    skills = [] if len(entries[0]["skills"]) == 1 else list(entries[0]["skills"])
    tasks = list(entries[0]["tasks"]) if suite == "mini" else []
    rows = []
    for entry in entries:  # Ordered by rating.
        level = f", `{entry['text_level']}`" if entry["text_level"] else ""
        # The baseline has no share ahead of itself.
        ahead = "" if entry["ahead"]["value"] is None else _percent(entry["ahead"])
        ahead_in = [entry["skills"][skill] for skill in skills]
        results = ["" if share["value"] is None else _percent(share) for share in ahead_in]
        results += [_percent(entry["tasks"][task]) for task in tasks]
        name = f"`{entry['name']}`{level}"
        # The anchor has its rating by definition.
        is_anchor = entry["rating"]["low"] == entry["rating"]["high"]
        rating = f"{entry['rating']['value']:.0f}" if is_anchor else _rating(entry["rating"])
        rows.append([name, rating, ahead, *results])
    header = ["player", "rating", "deals ahead of the baseline"]
    header += [f"ahead in {skill}" for skill in skills]
    header += [f"won, {task.replace('-', ' ')}" for task in tasks]
    return _table(header, rows) + _origins([_measured(document)])


def power(suite: str) -> str:
    """Return how surely each task of a suite shows the bots ahead that are known to be better."""
    document = load(f"power-{suite}")
    rows = [
        [
            order["task"],
            f"`{order['better']}` over `{order['worse']}`",
            _percent(order["ahead"]),
            str(order["deals"]),
            f"{100 * order['power']:.1f} %",
            str(order["needed"]),
            f"{order['decisions']:.0f}",
        ]
        for order in document["report"]["orders"]
    ]
    header = ["task", "known order", "better one ahead", "deals", "shown"]
    header += ["deals for 95 %", "decisions per game, all seats"]
    return _table(header, rows) + _origins([_measured(document)])


def reproduction(name: str) -> str:
    """Return the rows of a reproduction: published numbers, ours, and why they differ."""
    document = load(f"reproduce-{name}")
    rows = []
    for row in document["report"]["rows"]:
        published = "; ".join(filter(None, (row["published"], row["source"])))
        rows.append([row["quantity"], published, row["text"], row["note"]])
    header = ["quantity", "published; source", "arena [95 %]", "what differs, and why"]
    return _table(header, rows, WORDS) + _origins([_measured(document)])


def _stored_table(name: str, alignment: str = NUMBERS) -> Callable[[], str]:
    """Return a renderer for a result that is stored as a table of text cells."""

    def render() -> str:
        document = load(name)
        rows = document["rows"]
        origins = dict.fromkeys(map(_measured, rows))  # Each once, in the order of the rows.
        cells = [row["cells"] for row in rows]
        return _table(document["header"], cells, alignment) + _origins(origins)

    return render


def own_games() -> str:
    """Return the table of arena's own games."""
    return _table(*game_tables.own_rows(), WORDS)


def _family(name: str) -> Callable[[], str]:
    """Return a renderer for the stored survey of a family of games."""

    def render() -> str:
        document = load(f"games-{name}")
        table = _table(*game_tables.family_rows(document), WORDS)
        return game_tables.summary_line(document) + table + _origins([_measured(document)])

    return render


TABLES: dict[str, Callable[[], str]] = {
    "ladder": ladder,
    "clue-tiny": clue_tiny,
    **{f"benchmark-{suite}": partial(benchmark, suite) for suite in SUITES},
    **{f"power-{suite}": partial(power, suite) for suite in POWERED},
    **{f"reproduce-{name}": partial(reproduction, name) for name in REPRODUCTIONS},
    "training": _stored_table("training"),
    "coverage": _stored_table("coverage"),
    "coverage-cases": _stored_table("coverage-cases"),
    "speed": _stored_table("speed"),
    "kuhn-poker": _stored_table("kuhn-poker"),
    "exploit": _stored_table("exploit"),
    "credit": _stored_table("credit"),
    "compatibility": _stored_table("compatibility", WORDS),
    "extras": _stored_table("extras", WORDS),
    "soak": _stored_table("soak", WORDS),
    "own-games": own_games,
    "games-open_spiel": _family("open_spiel"),
    "games-pettingzoo": _family("pettingzoo"),
    "games-textarena": _family("textarena"),
}


def main(words: Sequence[str]) -> int:
    """Run one of the three commands; return the exit code."""
    match list(words):
        case ["store", name, "--", *command] if command:
            print(f"Wrote {store(name, command)}")
        case ["render"]:
            render(documents())
        case ["check"]:
            for path in (stale := outdated(documents())):
                print(f"{path.relative_to(ROOT)}: run `make results`", file=sys.stderr)
            return 1 if stale else 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
