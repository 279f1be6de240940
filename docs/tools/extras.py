"""Check the table of extras that go together, in docs/guides/where-results-go.md, by a resolver.

    python docs/tools/extras.py             # every line
    python docs/tools/extras.py mcp openenv # lines that name one of these extras

uv reads pyproject.toml and looks for versions of all packages; nothing is installed. The exit code
is 1 if a line is wrong, and the resolver's last words are printed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "where-results-go.md"
LINE = re.compile(r"^\| (`[^|]+) \| (yes|no) \|", re.MULTILINE)


def stated(text: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the extras of each line, and whether they go together."""
    for extras, answer in LINE.findall(text):
        yield re.findall("`([^`]+)`", extras), answer == "yes"


def resolve(extras: Sequence[str]) -> str:
    """Return why there are no versions for these extras; "" if there are some."""
    named = [word for extra in extras for word in ("--extra", extra)]
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--quiet", *named]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def main(only: Sequence[str]) -> int:
    """Check the lines; return the exit code."""
    wrong = 0
    for extras, together in stated(GUIDE.read_text(encoding="utf-8")):
        if only and not {*only} & {*extras}:
            continue
        reason = resolve(extras)
        is_right = together == (not reason)
        wrong += not is_right
        result = "no" if reason else "yes"
        print(f"{' + '.join(extras)}: {result}{'' if is_right else ', the table is wrong'}")
        if reason and not is_right:
            print(reason[-600:])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
