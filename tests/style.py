"""Style figures of the product code: `python tests/style.py`.

Information, not a gate: a figure points at places to look at. Circles and layers are tests.
"""

from __future__ import annotations

import ast
import re
import statistics
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("arena", "backends", "games", "replays", "trainers")
WH_START = re.compile(
    r"(what|who|whom|whose|whatever|whoever|where|whether|which|why|how|of|that|those)\b", re.I
)
VAGUE = re.compile(r"\b(nobody|somebody|told|stands|said)\b", re.I)
NUMERIC = (
    "trainers/algorithms",
    "arena/evaluation/statistics",
    "games/cluedo/inference",
    "backends/embedded",
)
"""Folders of numeric code, where 15 to 25 comments per 100 lines are the aim."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def comments_per_100(paths: list[Path]) -> float:
    """Return the number of `#` comments for 100 lines of code."""
    comments = code = 0
    for path in paths:
        lines = set[int]()
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type == tokenize.COMMENT:
                    comments += 1
                elif token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING):
                    lines.update(range(token.start[0], token.end[0] + 1))
        code += len(lines)
    return 100 * comments / max(code, 1)


def main() -> None:
    """Print the figures."""
    paths = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
    trees = {path: ast.parse(path.read_text("utf-8")) for path in paths}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    documented = ast.Module | ast.ClassDef | Function
    docstrings = [
        text for n in nodes if isinstance(n, documented) if (text := ast.get_docstring(n))
    ]
    sizes = sorted(
        (n.end_lineno or n.lineno) - n.lineno + 1 for n in nodes if isinstance(n, Function)
    )
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in paths}
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    vague = {path: len(VAGUE.findall(path.read_text("utf-8"))) for path in paths}
    wh_words = sum(bool(WH_START.match(text)) for text in docstrings)
    figures: dict[str, object] = {
        "lines of Python": sum(lengths.values()),
        "modules": len(paths),
        "modules over 300 lines": sum(length > 300 for length in lengths.values()),
        "function lines: median, 90 %, most": (
            f"{statistics.median(sizes):g}, {sizes[int(0.9 * len(sizes))]}, {sizes[-1]}"
        ),
        "comments per 100 lines of code": f"{comments_per_100(paths):.1f}",
        **{
            f"  in {folder}": f"{comments_per_100(sorted((ROOT / folder).rglob('*.py'))):.1f}"
            for folder in NUMERIC
        },
        "docstrings that start with a wh-word or 'of', %": round(
            100 * wh_words / len(docstrings), 1
        ),
        "nobody, somebody, told, stands, said": sum(vague.values()),
        "class names defined more than once": sum(count > 1 for count in classes.values()),
        "words in README.md": len((ROOT / "README.md").read_text("utf-8").split()),
    }
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name:{width}}  {value}")
    print("\nLongest modules:", *_longest(lengths), sep="\n  ")
    print("\nMost vague words:", *_longest({p: n for p, n in vague.items() if n}), sep="\n  ")
    print("\nClass names defined more than once:", *(n for n, k in classes.items() if k > 1))


def _longest(counts: dict[Path, int], most: int = 8) -> list[str]:
    ordered = sorted(counts.items(), key=lambda item: -item[1])[:most]
    return [f"{count:5} {path.relative_to(ROOT)}" for path, count in ordered]


if __name__ == "__main__":
    main()
