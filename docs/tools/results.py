"""Store measured results and write their tables into the documentation.

    python docs/tools/results.py store NAME -- COMMAND …   # run a command that takes --json
    python docs/tools/results.py again NAME                # the same with the stored command
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
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
MARKED = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- /results -->)", flags=re.S)
CHOOSING, REPORTING = 700_000_000, 900_000_000
"""Values of --seed: deals by which a model, a pass or a form is chosen, and deals that only measure
what is published, once for each model."""
PLAYERS = (3, 4, 6)
"""Table sizes of the ladder."""
REPORTED = {
    "oracle": "`bot:oracle`: exact probabilities",
    "detective": "`bot:detective`: exact logic",
    "clue-tiny": "`clue-tiny`, 0.9 M parameters, reads deductions",
    "demo": "the same after `make demo`",
    "notebook": "`clue-notebook`, as small, reads raw events",
}
"""Players of the README's table, by the ends of the names of their results."""
NOTEBOOK = (
    *("notebook-3", "notebook", "notebook-5", "notebook-6"),
    *("notebook-detectives", "notebook-notes"),
)
"""Tables of the model that keeps a notebook, by the ends of the names of their results."""
LEVELS = ("deductions", "notes", "events")
"""Text levels, from most help to least."""
SHOWN_SPEEDS = (
    *("`hanabi`, positions", "event and exact posterior, Cluedo, 3 players, median"),
    *("sampler, 32 chats", "training of `clue-tiny` on 16 games"),
)
"""Rows of `make bench` that the documentation shows."""
SHOWN_RUNS = ("`clue-notebook`", "full rate", "run C, 1,200 games", "run D, 600 games")
"""Rows of the continued notebook that the documentation shows."""


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
        "command": shlex.join([Path(command[0]).name, *command[1:]]),
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
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    return [path for path, text in texts.items() if rendered(text) != text]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], alignment: str = "---:") -> str:
    """Return a Markdown table; the first column is left-aligned."""
    lines = [header, ["---", *[alignment] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def percent(estimate: Mapping[str, float]) -> str:
    """Return a share and its 95 % interval in percent."""
    value, low, high = (f"{100 * estimate[key]:.0f}" for key in ("value", "low", "high"))
    return f"{value} % [{low}, {high}]".replace("-", "−")


def rating(estimate: Mapping[str, float]) -> str:
    """Return a rating and its 95 % interval."""
    value, low, high = (f"{estimate[key]:.0f}" for key in ("value", "low", "high"))
    return f"{value} [{low}, {high}]".replace("-", "−") if low != high else value


def ladder() -> str:
    """Return the ratings of Cluedo's bots at each table size, from the stored tournaments."""
    cells: dict[str, list[str]] = {}
    for players in PLAYERS:
        for row in load(f"ladder-{players}")["report"]["players"]:  # Ordered by rating.
            won = percent(row["win_rate"]).partition("[")[0]
            cells.setdefault(row["player"], []).append(f"{rating(row['rating'])}, {won.strip()}")
    rows = [[f"`{player}`", *row] for player, row in cells.items()]
    return table(["player", *(f"{players} players" for players in PLAYERS)], rows)


def clue_tiny() -> str:
    """Return the strength of the model that ships with arena, at each text level."""
    rows = []
    for level in LEVELS:
        report = load(f"strength-{level}")["report"]
        model, novice = report["players"]
        shares = [model["win_rate"], novice["win_rate"], report["comparison"]["difference"]]
        rows.append([f"`{level}`", *map(percent, shares)])
    return table(["text level", "won", "won by a novice in the same seats", "difference"], rows)


def notebook() -> str:
    """Return how the model that keeps a notebook deduces and wins at each kind of table."""
    rows = []
    for name in NOTEBOOK:
        report = load(f"reported-{name}")["report"]
        player, _ = report["players"]
        kinds = ("accusations_right", "deduced_precision", "recall_one_of_three")
        shares = [player["win_rate"], *(player["measures"][kind] for kind in kinds)]
        seats = f"{report['options']['players']} players, `{report['against'][0]}`"
        level = report["settings"]["text_level"]
        rows.append([seats, f"`{level}`", str(player["games"]), *map(percent, shares)])
    header = ["seats, opponents", "text", "deals", "won", "right accusations", "right conclusions"]
    return table([*header, "one-of-three written"], rows)


def players() -> str:
    """Return what players of different kinds do on the same deals, from the stored evaluations."""
    rows = []
    for name, label in REPORTED.items():
        player, baseline = load(f"reported-{name}")["report"]["players"]
        rows.append(reported(label, player))
    header = ["player", "won (par 25 %)", "question efficiency, late", "right accusations"]
    return table(header, [reported("`bot:novice`: seen cards only", baseline), *rows])


def reported(label: str, player: Mapping[str, Any]) -> list[str]:
    """Return a row of the README's table."""
    measures = player["measures"]
    shares = [player["win_rate"], measures["efficiency_late"], measures["accusations_right"]]
    return [label, *map(percent, shares)]


def stored(name: str, *shown: str) -> Callable[[], str]:
    """Return a renderer for a result that is stored as cells; `shown`: only rows that begin so."""

    def render() -> str:
        document = load(name)
        cells = [row["cells"] for row in document["rows"]]
        return table(document["header"], [row for row in cells if not shown or row[0] in shown])

    return render


def own_games() -> str:
    """Return the table of arena's own games, from the games themselves."""
    from arena.agents.seating import bot_names
    from arena.plugins.catalog import catalog, make_game

    rows = []
    for entry in catalog().entries("game"):
        if entry.plugin != "games":  # Another package's.
            continue
        game = make_game(entry.name)
        field = type(game).Options.model_json_schema().get("properties", {}).get("players", {})
        low, high = field.get("minimum"), field.get("maximum")
        seats = f"{low}–{high}" if low and high else str(game.num_players)
        exact = "exact knowledge" if game.analysis.knowledge(0) is not None else ""
        bots = ", ".join(f"`{name}`" for name in bot_names(entry.name))
        rows.append([f"`{entry.name}`", game.summary, seats, exact, bots])
    return table(["game", "what it is", "seats", "arena knows", "bots"], rows, "---")


TABLES: dict[str, Callable[[], str]] = {
    "ladder": ladder,
    "clue-tiny": clue_tiny,
    "players": players,
    "notebook": notebook,
    "notebook-continued": stored("notebook-continued", *SHOWN_RUNS),
    "demo-seeds": stored("demo-seeds", "`clue-tiny`", "seed 1", "seed 2", "seed 3"),
    "smollm2": stored("smollm2"),
    "self-play": stored("self-play", "`kuhn_poker`", "`leduc_poker`"),
    "coverage": stored("coverage"),
    "speed": stored("speed", *SHOWN_SPEEDS),
    "own-games": own_games,
}


def main(words: Sequence[str]) -> int:
    """Run one of the four commands; return the exit code."""
    match list(words):
        case ["store", name, "--", *command] if command:
            print(f"Wrote {store(name, command)}")
        case ["again", name]:
            print(f"Wrote {store(name, shlex.split(load(name)['command']))}")
        case ["render"]:
            for path in outdated(documents()):
                path.write_text(rendered(path.read_text("utf-8")), encoding="utf-8")
                print(f"Wrote {path.relative_to(ROOT)}")
        case ["check"]:
            for path in (stale := outdated(documents())):
                text = f"{path.relative_to(ROOT)}: run `python docs/tools/results.py render`"
                print(text, file=sys.stderr)
            return 1 if stale else 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
