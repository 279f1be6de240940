"""What a publication takes from a leaderboard: tables, figures, archives and a citation."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from arena.core.spec import Spec
from arena.core.text import pluralize
from arena.evaluation.benchmark.standings import BenchEntry, Standings
from arena.evaluation.formatting import Grid, in_unit, number, p_text
from replays.leaderboard.pages import Citation, cost_chart, rating_chart, skill_charts

SUBMISSION_SUFFIXES = frozenset([".json", ".jsonl", ".sqlite"])
_SIGNS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_SIGNS |= {"−": "$-$", "≤": r"$\leq$", "≥": r"$\geq$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}
_SIGNS |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
_COLOUR = re.compile(r"(--[\w-]+): (#[0-9a-f]+)")
_VARIABLE = re.compile(r"var\((--[\w-]+)\)")


def cite(standings: Standings, numbers: Mapping[str, JsonValue]) -> Citation:
    """Return the citation of these numbers."""
    suite, entries = standings.suite, standings.entries
    date = max(entry.submission.card.created for entry in entries).date().isoformat()
    state = hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:12]
    title = (
        f"{suite.title}, version {suite.version}: leaderboard of {pluralize(len(entries), 'entry')}"
    )
    facts = f"Suite {suite.name}, SHA-256 {suite.sha256}; state {state} of {date}"
    bibtex = (
        f"@misc{{arena-{suite.name}-{state},\n"
        f"  title = {{{latex_text(title)}}},\n"
        f"  year = {{{date[:4]}}},\n"
        f"  note = {{{latex_text(facts)}}},\n}}"
    )
    return Citation(state, date, f"{title}. {facts}.", bibtex)


def publication_tables(standings: Standings) -> dict[str, Grid]:
    """Return the tables of the first page by the names of their files."""
    suite, entries = standings.suite, standings.entries
    ranked = [
        [entry.label, number(entry.rank, 0), number(entry.rating, 0), in_unit("share", entry.ahead)]
        for entry in entries
    ]
    skills = [
        [entry.label, *(in_unit("share", entry.skills[skill]) for skill in suite.skills)]
        for entry in entries
    ]
    tasks = [
        [entry.label, *(in_unit("", task.result) for task in entry.submission.card.tasks)]
        for entry in entries
    ]
    pairs = [
        [pair.first, pair.second, number(pair.difference, 0), p_text(pair.adjusted_p)]
        for pair in standings.pairs
    ]
    headings = ["player", "rank", "rating", "ahead of the baseline"]
    tables = {
        "leaderboard": Grid("Leaderboard", headings, ranked),
        "skills": Grid("Deals ahead of the baseline, by skill", ["player", *suite.skills], skills),
        "tasks": Grid("Mean return", ["player", *(task.id for task in suite.tasks)], tasks),
        "models": model_facts(entries),
        "pairs": Grid("Pairs", ["player", "ahead of", "rating difference", "adjusted p"], pairs),
    }
    return {name: grid for name, grid in tables.items() if grid.rows}


def model_facts(entries: Sequence[BenchEntry]) -> Grid:
    """Return what the cards say of models; nothing of it is proven by replaying."""
    rows = []
    for entry in entries:
        card = entry.submission.card
        if not card.uses_models:
            continue
        chat, usage = card.chat or {}, card.usage
        sampling = chat.get("sampling")
        settings = {**chat, **(sampling if isinstance(sampling, dict) else {})}
        thinking = settings.get("reasoning_effort") or settings.get("thinking_tokens") or "not set"
        price = "unknown"
        if usage.cost is not None and usage.tokens:
            price = f"${1e6 * usage.cost / usage.tokens:.2f}"
        scaffold = Spec.parse(card.player).rest.partition("+")[2] or "default"
        engines = ", ".join(usage.answered) or "no model"
        rows.append([entry.label, card.text_level, scaffold, str(thinking), price, engines])
    headings = ["player", "text level", "scaffold", "thinking", "price per million tokens", "model"]
    return Grid("Models", headings, rows)


def publication_figures(standings: Standings) -> dict[str, str]:
    """Return the figures of the first page as SVG, by the names of their files."""
    ratings, costs = rating_chart(standings), cost_chart(standings)
    found = {"ratings": ratings, "cost": costs and costs.chart}
    found |= {f"skill-{file_name(each.skill)}": each.chart for each in skill_charts(standings)}
    return {name: str(chart) for name, chart in found.items() if chart}


def standalone(svg: str, style: str) -> str:
    """Return a figure as a file of its own, in light colours without variables."""
    # The light colours come first, those of dark pages later.
    colours = dict(reversed(_COLOUR.findall(style)))
    rules = re.findall(r"^(?:svg|\.c\d).*$", style, re.MULTILINE)
    plain = _VARIABLE.sub(lambda name: colours[name[1]], "\n".join(rules))
    start = '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" '
    return svg.replace("<svg ", start, 1).replace(">", f"><style>{plain}</style>", 1) + "\n"


def csv_text(grid: Grid) -> str:
    """Return a table as CSV. A cell that a spreadsheet would compute is quoted by an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for line in (grid.headings, *grid.rows):
        writer.writerow([f"'{cell}" if cell[:1] in ("=", "+", "@") else cell for cell in line])
    return out.getvalue()


def latex_table(grid: Grid) -> str:
    """Return a table for LaTeX, which needs the package booktabs."""
    lines = [" & ".join(map(latex_text, line)) + r" \\" for line in (grid.headings, *grid.rows)]
    body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    columns = "l" + "r" * (len(grid.headings) - 1)
    return "\n".join([f"\\begin{{tabular}}{{{columns}}}", *body, "\\end{tabular}", ""])


def latex_text(text: str) -> str:
    """Return text for LaTeX: no character of it is a command."""
    return "".join(_SIGNS.get(sign, sign) for sign in text)


def zip_submission(folder: Path, out: Path) -> None:
    """Write the files of a submission as a ZIP; equal files give equal bytes.

    Links are left out: they may lead to files that were never submitted.
    """
    root = folder.resolve()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root)
            is_own = path.is_file() and path.resolve() == path
            if is_own and path.suffix in SUBMISSION_SUFFIXES:
                entry = zipfile.ZipInfo(name.as_posix())
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes())


def file_name(text: str) -> str:
    """Return a text as part of a file name: lower-case letters, digits and hyphens."""
    return re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")
