"""Numbers as text for people: one style in all commands, pages and reports.

- The minus sign is a real one ("−"), what is unknown is a dash ("–"), and 0 has no sign.
- A share is a whole percentage, `54 %`. Only below 1 % it has a decimal, `0.4 %`, and so has one
  that is known to less than 1 %. One that is nearly but not quite everything is `>99 %`.
- Information has two decimals: `7.90 bits`.

Texts that models read have wordings of their own, which checkpoints depend on.
"""

from __future__ import annotations

import re

MINUS, UNKNOWN = "−", "–"
COMMAS_FROM = 10_000
"""Size of a number from which thousands have commas."""


def decimal(value: float | None, digits: int = 2, signed: bool = False) -> str:
    """Return `12,345.6`, `−0.50` or `–`; 0 never has a sign."""
    if value is None:
        return UNKNOWN
    if not round(value, digits):
        return f"{0:.{digits}f}"
    comma = "," if abs(value) >= COMMAS_FROM else ""
    return f"{value:{'+' if signed else ''}{comma}.{digits}f}".replace("-", MINUS)


def share_digits(share: float | None) -> int:
    """Return the decimals of a share in per cent: one below 1 %, else none."""
    return int(share is not None and 0 < abs(share) < 0.00995)


def percentage(share: float | None) -> str:
    """Return a share from 0 to 1 as text: `14 %`, `0.4 %`, `<0.1 %`, `>99 %`."""
    if share is None:
        return UNKNOWN
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0.995 <= share < 1:
        return ">99 %"
    return f"{decimal(100 * share, share_digits(share))} %"


def bits_text(bits: float | None) -> str:
    """Return an amount of information: `7.90 bits`."""
    return UNKNOWN if bits is None else f"{decimal(bits)} bits"


def real_minus(text: str) -> str:
    """Replace the hyphens before negative numbers in a text by minus signs."""
    return re.sub(r"(?<![\w\-.])-(?=\d)", MINUS, text)
