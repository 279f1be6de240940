"""A match to watch: which folder is served, and what the page shows of it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from arena.core.errors import UsageError
from arena.evaluation.records import RESULTS
from arena.evaluation.store.database import is_locked
from replays.web.replay_directory import ReplayDirectory


def watched_folder(folder: Path, match: Path) -> tuple[Path, str]:
    """Return the folder to serve and the fragment that shows a match; print the match's state.

    The match is a path, or a name in `folder`, which is replaced by it if it does not hold the
    match. Raises UsageError if there is no such folder, or it has no games and no process writes
    there.
    """
    found = next((path for path in (match, folder / match) if path.is_dir()), None)
    if found is None:
        raise UsageError(
            f"--watch {match}: there is no such folder; name the --out of arena eval, tournament "
            "or train"
        )
    games = ReplayDirectory(found).scan()
    is_running = any(file.is_running() for file in games.replays)
    is_running |= any(is_locked(file.path) for file in games.others if file.path.name == RESULTS)
    if not games.replays and not is_running:
        raise UsageError(
            f"--watch {match}: no game is recorded in this folder, and none is running"
        )
    if not is_running:
        print(f"The match in {match} has ended: its games are shown one after another.")
    served = folder if found.resolve().is_relative_to(folder.resolve()) else found
    name = found.resolve().relative_to(served.resolve()).as_posix()
    return served, f"#watch={quote('' if name == '.' else name)}"
