"""Cards and folders of repositories of the Hugging Face Hub."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import JsonValue

from arena.core.errors import ArenaError
from arena.episodes.files import check_new_folder


def card(header: dict[str, JsonValue], body: str, license_id: str) -> str:
    """Return a card: a YAML header, in which each value is JSON, and the text."""
    licensed: dict[str, JsonValue] = {"license": license_id} if license_id else {}
    lines = (
        f"{name}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in (licensed | header).items()
    )
    return "---\n" + "\n".join(lines) + f"\n---\n\n{body}"


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty place that becomes `folder` at the end, complete; deleted after an error.

    Raises UsageError if the folder has content, and ArenaError if it cannot be written.
    """
    check_new_folder(folder)
    draft = folder.with_name(f".{folder.name}.part")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        yield draft
        if folder.exists():
            folder.rmdir()
        draft.rename(folder)
    except OSError as error:
        raise ArenaError(f"cannot write {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
