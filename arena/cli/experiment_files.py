"""The files of an evaluation or a tournament: a new folder, or the run that is to be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.terminal import unused_path
from arena.core.errors import ArenaError, UsageError
from arena.episodes.files import game_stem
from arena.evaluation.records import RESULTS

if TYPE_CHECKING:
    from pydantic import JsonValue

    from arena.core.game import Game
    from arena.evaluation.store import Results
    from arena.evaluation.store.schema import Experiment, Kind


@dataclass(frozen=True, slots=True)
class ExperimentFiles:
    """The results files of one kind of experiment with one set-up."""

    kind: Kind
    game: Game
    settings: Mapping[str, JsonValue]
    """Settings that must be equal for a run to be resumed, without the seed."""
    out: Path | None
    """Folder that the user names; None for one in `runs/`."""

    def create(self, seed: int) -> Results:
        """Create a results file in `out`, or in a new folder."""
        from arena.evaluation.store import Results

        options = self.game.options.model_dump(mode="json")
        folder = self.out or unused_path(self._home, game_stem(self.game, seed))
        settings = {"seed": seed, "deals": "hashed", **self.settings}
        return Results.create(folder / RESULTS, self.kind, self.game.name, options, settings)

    def resume(self, seed: int | None, dry_run: bool = False) -> Results:
        """Open the file of `out`, or the last one with these settings, to add games to it.

        A dry run opens it for reading. Raises UsageError if there is none, or if its settings
        differ.
        """
        from arena.evaluation.store import Results

        path = self._last_file(seed) if self.out is None else self.out / RESULTS
        results = Results.read(path) if dry_run else Results.open(path)
        for name, value in self._differences(results.experiment, seed).items():
            results.close()
            raise UsageError(
                f"--resume: {path} was made with {name} = {value}; use the same flags, or another "
                "--out without --resume"
            )
        stored = results.experiment.settings
        # A tournament of bots may be joined by a model; from then on its options are fixed.
        if self.settings["models"] and not stored["models"] and not dry_run:
            results.set_settings({**stored, "models": self.settings["models"]})
        return results

    @property
    def _home(self) -> Path:
        return Path("runs") / self.kind

    def _last_file(self, seed: int | None) -> Path:
        """Return the file with these settings that was written to last."""
        from arena.evaluation.store import Results

        paths = sorted(self._home.glob(f"*/{RESULTS}"), key=lambda path: -path.stat().st_mtime)
        for path in paths:
            # A file that cannot be read is not the one that is looked for.
            with suppress(ArenaError), Results.read(path) as results:
                if not self._differences(results.experiment, seed):
                    return path
        raise UsageError(
            f"--resume: no run in {self._home} had these flags; name its folder with --out"
        )

    def _differences(self, experiment: Experiment, seed: int | None) -> dict[str, JsonValue]:
        """Return the stored values that differ from the present ones, by name.

        A seed that the user does not give makes no difference, nor does the rule of the deals: a
        run goes on by its own. Nor do the options of models if only bots have played, or only bots
        play now.
        """
        present: dict[str, JsonValue] = {"kind": self.kind, "game": self.game.name, "seed": seed}
        present |= {**self.game.options.model_dump(mode="json"), **self.settings}
        stored: dict[str, JsonValue] = {"kind": experiment.kind, "game": experiment.game}
        # A game may have options that it did not have when the run began.
        stored |= {**self.game.options.completed(experiment.options), **experiment.settings}
        present["deals"] = stored.get("deals")
        if seed is None:
            present["seed"] = stored.get("seed")
        if None in (present["models"], stored.get("models")):
            stored["models"] = present["models"]
        return {name: value for name, value in stored.items() if present.get(name) != value}
