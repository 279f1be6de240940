"""SPEC strings, which name agents."""

from __future__ import annotations

import re


def shown(spec: str) -> str:
    """The SPEC as it may be shown and written: a password in a URL is left out."""
    return re.sub(r"//[^/@#]*@", "//", spec)
