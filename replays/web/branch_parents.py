"""Search for the parents of branches among the served files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from arena.episodes.record import Branch
from replays.web.replay_cache import MAX_BYTES
from replays.web.replay_directory import ReplayDirectory, ServedFile


def find_parents(directory: ReplayDirectory, branches: Sequence[Branch]) -> list[str | None]:
    """Return the path of each branch's parent in the served folder; None if it is absent.

    The parent has the recorded name and the recorded SHA-256 digest.
    """
    files = directory.files() if branches else []

    def is_parent(file: ServedFile, branch: Branch) -> bool:
        # The name is compared first, because computing a digest reads the whole file.
        has_name = file.name.rpartition("/")[2] == branch.parent
        return has_name and _sha256(file) == branch.parent_sha256

    return [
        next((file.name for file in files if is_parent(file, branch)), None) for branch in branches
    ]


@lru_cache(maxsize=1000)
def _sha256(file: ServedFile) -> str:
    """Return the digest of the file; empty for a file that the server would not open."""
    if file.version.bytes > MAX_BYTES:
        return ""
    try:
        with file.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""
