"""The README is short, its example runs and its links lead somewhere."""

from __future__ import annotations

import doctest
import re

import pytest
from code_blocks import ROOT, blocks

README = ROOT / "README.md"
LINKS = sorted(set(re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))))
LONGEST = 650
"""Words; everything else belongs on the site."""


def test_it_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").split()) <= LONGEST


def test_the_example_prints_what_it_shows() -> None:
    (example,) = [block.code for block in blocks(README) if block.language == "python"]
    test = doctest.DocTestParser().get_doctest(example, {}, "README", str(README), 0)
    assert doctest.DocTestRunner().run(test) == (0, len(test.examples))


@pytest.mark.parametrize("link", LINKS)
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()
