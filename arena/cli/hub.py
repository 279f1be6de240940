"""`arena hub`: replays and models as folders for the Hugging Face Hub."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from arena.cli.flags import Flag, JsonFlag
from arena.cli.help import ArenaCommand
from arena.cli.terminal import counter, echo, print_result
from arena.core.text import pluralize, printable

app = typer.Typer(
    help="Write replays or a model in the layout of the Hugging Face Hub.", no_args_is_help=True
)
OutFlag = Annotated[Path, Flag(help="New folder; its name is the title of the card.")]
LicenseFlag = Annotated[
    str, Flag("--license", help="For the card, as the Hub names it: cc-by-4.0.")
]


@app.command("dataset", cls=ArenaCommand)
def dataset_command(
    paths: Annotated[list[Path], typer.Argument(help="Replays (.jsonl), or folders of them.")],
    out: OutFlag,
    license_id: LicenseFlag = "",
    as_json: JsonFlag = False,
) -> int:
    """Write replays with tables of games, replies and chats, and a dataset card.

    arena hub dataset runs/eval --out my-games --license cc-by-4.0

    hf upload NAME/my-games my-games --repo-type dataset

    A folder that `hf download` has fetched is a folder of replays: arena analyze my-games
    """
    from trainers.export.exporter import summarise_reasons
    from trainers.export.hub import write_dataset

    with counter("replays") as count:
        made = write_dataset(paths, out, license_id, count)
    for line in [*made.notes, *(f"skipped {why}" for why in summarise_reasons(made.skipped))]:
        echo(printable(line), file=sys.stderr)
    skipped = [{"path": str(each.path), "reason": each.reason} for each in made.skipped]
    fields = {"games": made.games, "rows": made.rows, "skipped": skipped, "folder": str(out)}
    text = f"wrote {pluralize(made.games, 'game')} to {out}"
    print_result(as_json, fields, f"{printable(text)}\n{_upload(out)} --repo-type dataset")
    return 0


def _upload(folder: Path) -> str:
    return printable(f"Upload it: hf upload NAME/{folder.name} {folder}")


@app.command("model", cls=ArenaCommand)
def model_command(
    model: Annotated[
        str, typer.Argument(help="A run's folder, a checkpoint, or a name of `arena models`.")
    ],
    out: OutFlag,
    license_id: LicenseFlag = "",
    as_json: JsonFlag = False,
) -> int:
    """Write a checkpoint that transformers loads, and a model card with the run's results.

    arena hub model runs/train/cluedo-demo --out my-model

    hf upload NAME/my-model my-model
    """
    from trainers.export.hub_model import write_model

    checkpoint = write_model(model, out, license_id)
    fields = {"checkpoint": str(checkpoint), "folder": str(out)}
    text = printable(f"wrote {checkpoint} to {out}")
    print_result(as_json, fields, f"{text}\n{_upload(out)}")
    return 0
