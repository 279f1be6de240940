"""A checkpoint as a model of the Hugging Face Hub: its files, and a card with a run's results."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from pydantic import JsonValue

from arena.core.errors import UsageError
from arena.core.version import __version__
from backends.embedded import find_checkpoint
from backends.embedded.architecture import ADAPTER, BASE, adapter_base
from backends.models import newest_checkpoints
from trainers.algorithms.checkpoint_files import merge_checkpoint
from trainers.export.hub_card import card, new_folder
from trainers.runs.sentences import facts, headline
from trainers.runs.training_run import CheckpointEvaluation, TrainingRun

FILES = (
    *(
        "config.json",
        "generation_config.json",
        "model*.safetensors",
        "model.safetensors.index.json",
    ),
    *("tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json", "added_tokens.json"),
    *("chat_template*", "LICENSE*"),
)
"""What transformers and arena read of a checkpoint. The state of an optimizer is not among it."""
REPOSITORY = r"[\w.-]+/[\w.-]+"
"""Name of a model at the Hub."""

MODEL = """\
# {title}

{about}

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("{title}")
tokenizer = AutoTokenizer.from_pretrained("{title}")
```

In a game of arena {version} (`pip install 'arena-games[embedded]'`):
`arena play {game} --seat 0=embedded:{title}`
"""


def write_model(model: str, folder: Path, license_id: str = "") -> Path:
    """Write a checkpoint into a new or empty folder; return the checkpoint.

    The model is what `embedded:` takes, or a run's folder, whose newest checkpoint is meant.

    Raises:
        UsageError: There is no such model, or the folder is not empty.
        ArenaError: The folder cannot be written.
    """
    checkpoint = _checkpoint(model)
    run = _run_of(checkpoint)
    with new_folder(folder) as draft:
        for pattern in FILES:
            for path in checkpoint.glob(pattern):
                shutil.copy2(path, draft / path.name)
        if adapter_base(checkpoint) is not None:
            _merge(checkpoint, draft)
        text = _model_card(folder.name, checkpoint, run, license_id)
        (draft / "README.md").write_text(text, encoding="utf-8")
    return checkpoint


def _checkpoint(model: str) -> Path:
    run = Path(model).expanduser()
    if not (run / "run.json").is_file():
        return find_checkpoint(model, "")
    found = newest_checkpoints([run]).get(run.name)
    if found is None:
        raise UsageError(f"{model}: this run has no checkpoint on this machine")
    return found


def _run_of(checkpoint: Path) -> TrainingRun | None:
    """Return the run that wrote a checkpoint, `RUN/checkpoints/0008`; None for other models."""
    folder = checkpoint.parents[1]
    return TrainingRun.read(folder) if (folder / "run.json").is_file() else None


def _merge(checkpoint: Path, draft: Path) -> None:
    """Write the whole weights of a checkpoint that has only an adapter."""
    shutil.copytree(checkpoint / ADAPTER, draft / ADAPTER)
    shutil.copy2(checkpoint / BASE, draft / BASE)
    merge_checkpoint(draft)
    shutil.rmtree(draft / ADAPTER)
    (draft / BASE).unlink()  # It names a folder of this machine.


def _model_card(title: str, checkpoint: Path, run: TrainingRun | None, license_id: str) -> str:
    header: dict[str, JsonValue] = {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["arena", "games"],
    }
    game, about = "cluedo", "A model that plays games of arena."
    config = run.config if run else None
    if run is not None and config is not None:
        game, about = config.game, "\n\n".join([*headline(run), f"{', '.join(facts(run))}."])
        header["tags"] = ["arena", "games", game, "grpo"]
        if re.fullmatch(REPOSITORY, config.base_model) and not Path(config.base_model).exists():
            header["base_model"] = config.base_model
        results = [*run.final_evaluations(), *run.learning_curve()]
        step = checkpoint.name.lstrip("0")
        found = next((each for each in results if str(each.step) == step), None)
        if found is not None:
            header["model-index"] = [{"name": title, "results": [_result(found, game)]}]
    body = MODEL.format(title=title, about=about, version=__version__, game=game)
    return card(header, body, license_id)


def _result(evaluation: CheckpointEvaluation, game: str) -> dict[str, JsonValue]:
    """Return a result in the form of the Hub's model index."""
    scale, result = evaluation.scale, evaluation.result
    return {
        "task": {"type": "reinforcement-learning", "name": game},
        "dataset": {"type": game, "name": f"{evaluation.games} held-out deals of {game}"},
        "metrics": [
            {
                "type": "win_rate" if scale.is_win_rate else "mean_return",
                "name": f"{scale.name}, 95 % interval {result.low} to {result.high}",
                "value": result.value,
            }
        ],
    }
