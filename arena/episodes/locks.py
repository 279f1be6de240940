"""The lock of what one process writes to at a time, also on file systems that cannot lock files.

The kernel releases the lock of a process that is killed. Where files cannot be locked, as on some
network file systems, a marker with process and machine stands for the lock; one that a killed
process has left is removed by the next one on the same machine.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, SoftFileLock

from arena.episodes.files import is_written

PATIENCE = 0.2
"""Seconds for which a lock that is only looked at (`is_locked`) may be held."""
UNSUPPORTED = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL))
"""Errors of file systems that cannot lock files."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock, whose file remains. Raises filelock's Timeout if another process holds it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(FileLock(path, timeout=PATIENCE, fallback_to_soft=False))
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            stack.enter_context(SoftFileLock(_marker(path), timeout=PATIENCE))
        yield


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock. The lock itself is not taken."""
    return _marker(path).is_file() or (path.is_file() and bool(is_written(path)))


def _marker(path: Path) -> Path:
    return path.with_name(f"{path.name}.held")
