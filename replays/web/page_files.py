"""What the server and an exported file share: the files of the page, and documents as JSON."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from replays.analysis.sanitize import to_json_value

FOLDER = Path(__file__).parent / "page"
INDEX = "index.html"
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


def page_files() -> dict[str, Path]:
    """Return the files by name. Requests select from these, so they never form a path."""
    return {path.name: path for path in FOLDER.iterdir() if path.suffix in CONTENT_TYPES}


def digest(text: str) -> str:
    """Return the SHA-256 digest of a text, as a Content-Security-Policy writes it."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def encode(document: object) -> str:
    """Return JSON in one line of ASCII, with null for NaN and infinities."""
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":"))
    except ValueError:  # The slow path: a copy without these numbers.
        return json.dumps(to_json_value(document), allow_nan=False, separators=(",", ":"))


def encode_for_html(document: object) -> str:
    """Return JSON for a script element; no text in the document can end the element."""
    return encode(document).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
