"""Where the games lie that others have left."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from arena.episodes.record import Branch
from replays.web.replay_cache import MOST_BYTES
from replays.web.replay_directory import ReplayFile, Root


class Parents:
    """Finds the parents of branches: files of that name, of which one has the bytes."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._digests: dict[ReplayFile, str] = {}

    def find(self, branches: Sequence[Branch]) -> list[str | None]:
        """What each branch's parent is called here, relative to the root; None if it is not."""
        if not branches:
            return []
        names = {branch.parent for branch in branches}
        named = [f for f in self._root.files() if f.name.rpartition("/")[2] in names]
        return [self._one_of(named, branch) for branch in branches]

    def _one_of(self, files: Sequence[ReplayFile], branch: Branch) -> str | None:
        for file in files:
            is_named = file.name.rpartition("/")[2] == branch.parent
            if is_named and self._digest(file) == branch.parent_sha256:
                return file.name
        return None

    def _digest(self, file: ReplayFile) -> str:
        """Of the file's bytes; empty where it cannot be opened here either."""
        if file not in self._digests:
            self._digests[file] = _digest(file)
        return self._digests[file]


def _digest(file: ReplayFile) -> str:
    if file.stamp.bytes > MOST_BYTES:
        return ""
    try:
        with file.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""
