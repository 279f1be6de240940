"""Folders in the layout of the Hugging Face Hub, with their cards: replays as a dataset, a model.

    hf upload NAME FOLDER --repo-type dataset

A dataset holds the replays themselves, so what `hf download` fetches is read like any folder of
replays: `arena analyze FOLDER`, `arena replay FOLDER --web`. A model plays as `embedded:FOLDER`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from arena.core.errors import ArenaError, UsageError
from arena.core.text import pluralize
from arena.core.version import __version__
from arena.episodes.job import sha256
from arena.episodes.replay import read_replay, verify
from arena.evaluation.analysis import SkippedFile, find_files
from arena.plugins.catalog import require
from arena.plugins.loader import catalog
from trainers.export.exporter import export_replays
from trainers.export.hub_card import card, new_folder

require("arena hub dataset", ("pyarrow",), "train")

import pyarrow as pa  # noqa: E402 - after the check that names the extra.
import pyarrow.parquet as pq  # noqa: E402

CONFIGS = {name: f"data/{name}.parquet" for name in ("games", "replies", "chat")}
"""Tables of a dataset, by the name for `datasets.load_dataset(FOLDER, NAME)`, which reads only one
format in a folder."""
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))

DATASET = """\
# {title}

{games} of {names}, played with arena {version} (`pip install arena-games`). Every game is legal by
the rules: it was played again and gave the same events and returns.

| table | rows |
| --- | --- |
{tables}

```python
from datasets import load_dataset

games = load_dataset("{folder}", "games", split="train")
```

`replays/` holds the complete games, with all hidden information and with what each model read,
thought and answered: `arena analyze {folder}`, `arena replay {folder} --web`.
"""
ABOUT = {
    "games": "{rows}: players, returns and the file of the replay",
    "replies": "{rows}: each reply of a model, with tokens where they are known, and rewards",
    "chat": "{rows}: conversations in the format `messages`, for fine-tuning",
}


@dataclass(slots=True)
class HubDataset:
    """What was written."""

    games: int
    rows: dict[str, int] = field(default_factory=dict)
    """Of each table."""
    skipped: list[SkippedFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def write_dataset(
    paths: Sequence[Path],
    folder: Path,
    license_id: str = "",
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> HubDataset:
    """Write replays, files or folders, as a dataset into a new or empty folder.

    Raises:
        UsageError: No replay is finished and legal, or the folder is not empty.
        ArenaError: The folder cannot be written.
    """
    files = find_files(paths)
    with new_folder(folder) as draft:
        made, rows = HubDataset(0), dict[str, dict[str, JsonValue]]()
        (draft / "replays").mkdir()
        (draft / "data").mkdir()
        for number, path in enumerate(files, start=1):
            try:
                row = _game_row(path)
            except ArenaError as error:
                made.skipped.append(SkippedFile(path, str(error).removeprefix(f"{path}: ")))
            else:
                rows[str(row["file"])] = row
                shutil.copyfile(path, draft / str(row["file"]))
            on_progress(number, len(files))
        if not rows:
            reason = made.skipped[0]
            raise UsageError(f"no finished game in them; {reason.path}: {reason.reason}")
        made.games = made.rows["games"] = len(rows)
        _write_table(draft / CONFIGS["games"], rows.values())
        try:
            with chdir(draft):  # The tables name each replay by its path in the folder.
                made.rows |= _write_replies()
        except UsageError:
            made.notes.append("no tables of replies: no model has answered in these games")
        names = list(dict.fromkeys(str(row["game"]) for row in rows.values()))
        text = _dataset_card(folder.name, names, made.rows, license_id)
        (draft / "README.md").write_text(text, encoding="utf-8")
    return made


def _write_replies() -> dict[str, int]:
    """Write the tables of replies and chats into this folder. Raises UsageError without models."""
    replays, chats = [Path("replays")], Path("data/chat.jsonl")
    make = {name: catalog().load("export", name) for name in ("parquet", "chat")}
    replies = export_replays(replays, Path(CONFIGS["replies"]), make["parquet"])
    chat = export_replays(replays, chats, make["chat"])
    with chats.open(encoding="utf-8") as lines:
        _write_table(Path(CONFIGS["chat"]), map(json.loads, lines))
    chats.unlink()
    return {"replies": replies.rows, "chat": chat.rows}


def _write_table(path: Path, rows: Iterable[dict[str, JsonValue]]) -> None:
    pq.write_table(pa.Table.from_pylist(list(rows)), path)


def _game_row(path: Path) -> dict[str, JsonValue]:
    """Return the row of a game. Raises ArenaError if it is unfinished or not by the rules."""
    replay = read_replay(path)
    header, line = replay.header, replay.outcome
    if line is None:
        raise ArenaError(replay.notice or "the game is unfinished")
    if difference := verify(replay):
        raise ArenaError(f"not by the rules, at {difference}")
    outcome = line.outcome
    return {
        "game": header.game,
        "options": json.dumps(header.options, sort_keys=True),
        "seed": header.seed,
        "players": [*header.players],
        "text_level": header.text_level,
        "status": outcome.status,
        "reason": outcome.reason,
        "returns": [float(each) for each in outcome.returns],
        "turns": line.turns,
        "created": header.created.isoformat(),
        "file": f"replays/{sha256(path)[:32]}.jsonl",
    }


def _dataset_card(title: str, games: list[str], rows: Mapping[str, int], license_id: str) -> str:
    size = next((name for limit, name in SIZES if rows["games"] < limit), "n>1M")
    header: dict[str, JsonValue] = {
        "pretty_name": title,
        "task_categories": ["reinforcement-learning", "text-generation"],
        "tags": ["arena", "games", *games],
        "size_categories": [size],
        "configs": [
            {"config_name": name, "data_files": CONFIGS[name], "default": name == "games"}
            for name in rows
        ],
    }
    tables = [
        f"| `{name}` | {ABOUT[name].format(rows=pluralize(count, 'row'))} |"
        for name, count in rows.items()
    ]
    body = DATASET.format(
        title=title,
        games=pluralize(rows["games"], "game"),
        names=", ".join(games),
        version=__version__,
        tables="\n".join(tables),
        folder=title,
    )
    return card(header, body, license_id)
