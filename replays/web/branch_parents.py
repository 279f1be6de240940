"""Search for the parents of branches among the served files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from arena.episodes.record import Branch
from replays.web.replay_cache import MAX_BYTES
from replays.web.replay_directory import ReplayDirectory, ServedFile


class BranchParents:
    """Finds the file with the recorded name and the recorded SHA-256 digest."""

    def __init__(self, directory: ReplayDirectory) -> None:
        self._directory = directory
        self._digests: dict[ServedFile, str] = {}

    def find(self, branches: Sequence[Branch]) -> list[str | None]:
        """Return the path of each branch's parent in the served folder; None if it is absent."""
        if not branches:
            return []
        names = {branch.parent for branch in branches}
        candidates = [file for file in self._directory.files() if _base_name(file) in names]
        return [self._find_one(candidates, branch) for branch in branches]

    def _find_one(self, candidates: Sequence[ServedFile], branch: Branch) -> str | None:
        for file in candidates:
            # The name is compared first, because computing a digest reads the whole file.
            has_name = _base_name(file) == branch.parent
            if has_name and self._digest(file) == branch.parent_sha256:
                return file.name
        return None

    def _digest(self, file: ServedFile) -> str:
        if file not in self._digests:
            self._digests[file] = _sha256(file)
        return self._digests[file]


def _base_name(file: ServedFile) -> str:
    return file.name.rpartition("/")[2]


def _sha256(file: ServedFile) -> str:
    """Return the digest of the file; empty for a file that the server would not open."""
    if file.version.bytes > MAX_BYTES:
        return ""
    try:
        with file.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""
