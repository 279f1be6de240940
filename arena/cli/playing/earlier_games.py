"""Games of an earlier run of `arena play` that `--resume` keeps, and those it plays again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.playing.table import PlayedGame
from arena.core.errors import UsageError
from arena.core.spec import redacted
from arena.episodes.files import game_stem

if TYPE_CHECKING:
    from arena.cli.playing.table import Table
    from arena.core.game import Game
    from arena.episodes.record import Header


def earlier_seed(out: Path, game: Game) -> int:
    """Return the first seed of a game's replays in a folder. Raises UsageError if it has none."""
    stem = game_stem(game, 0).removesuffix("0")
    names = (path.name.partition(".")[0] for path in out.glob(f"{stem}*.jsonl*"))
    seeds = [int(digits) for name in names if (digits := name.removeprefix(stem)).isdigit()]
    if not seeds:
        raise UsageError(f"--resume: {out} has no replay {stem}N.jsonl; name its folder with --out")
    return min(seeds)


def keep_finished(table: Table, dry_run: bool = False) -> None:
    """Add the finished games in `out` to the results; remove the unfinished ones.

    A dry run removes nothing.

    An unfinished game is played again from its start: the random numbers that its bots have drawn
    are not stored. Raises UsageError for a replay of another set-up.
    """
    from arena.episodes.files import is_written
    from arena.episodes.replay import read_replay

    for seed in table.seeds:
        path = table.out / f"{table.stem(seed)}.jsonl"
        if path.exists():
            replay = read_replay(path)
            _check_same(table, seed, replay.header, path)
            if replay.outcome is not None:
                table.results.append(PlayedGame.of(table.match, seed, replay.outcome, path))
                continue
        part = path.with_name(f"{path.name}.part")
        # Another process may be playing this game now.
        if not dry_run and part.exists() and not is_written(part):
            part.unlink()


def _check_same(table: Table, seed: int, found: Header, path: Path) -> None:
    """Raise UsageError if a replay was made with other flags."""
    from arena.episodes.record import Header

    match = table.match
    # A game may have options that it did not have when the replay was written.
    found = found.model_copy(update={"options": match.game.completed(found.options)})
    present = Header.of(
        match.game,
        seed,
        [redacted(spec) for spec in match.specs],
        match.turn_limit,
        match.text_level,
        match.chat if table.llm else None,
    )
    for name in Header.model_fields.keys() - {"arena", "created", "schema_version"}:
        if (stored := getattr(found, name)) != getattr(present, name):
            raise UsageError(
                f"--resume: {path} was made with {name} = {stored}; use the same flags, or another "
                "--out"
            )
