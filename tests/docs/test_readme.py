"""The README is short, its example runs and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from code_blocks import ROOT, blocks

README = ROOT / "README.md"
LINKS = sorted(set(re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))))
LONGEST = 650
"""Words; everything else belongs on the site."""


def test_it_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").split()) <= LONGEST


def test_the_example_prints_what_a_seat_could_know() -> None:
    (example,) = [block.code for block in blocks(README) if block.language == "python"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    bits = [float(line.split()[0]) for line in done.stdout.splitlines()]
    assert bits[0] > 6 and bits[-1] == 0.0


@pytest.mark.parametrize("link", LINKS)
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()
