"""Folders for the Hugging Face Hub, read by its own libraries and by arena."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import arena, last_json
from pyarrow import parquet

from arena.cli import run
from arena.core.errors import UsageError
from arena.evaluation.analysis import find_files
from backends.embedded import find_checkpoint
from backends.embedded.layers import read_state_dict
from trainers.algorithms.learner import Learner
from trainers.algorithms.lora import Lora
from trainers.export.hub import CONFIGS, write_dataset
from trainers.export.hub_model import write_model

REASON = "is not installed: make test-trackers"
STORED_RUN = Path(__file__).parent / "data" / "stored_run"


@pytest.fixture(scope="module")
def replays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three games of a scripted model, two of bots, a broken and an unfinished file."""
    folder = tmp_path_factory.mktemp("replays")
    (folder / "replies.json").write_text(json.dumps(["Action: pass", "nothing"] * 99))
    for seat, games, out in ((f"scripted:{folder}/replies.json", 3, "m"), ("bot:random", 2, "b")):
        words = f"play kuhn_poker --seat 0={seat} --seat 1=bot:random --seed 1 --games {games}"
        assert run([*words.split(), "--out", str(folder / out)]) == 0
    whole = next((folder / "m").glob("*.jsonl")).read_text().splitlines()
    (folder / "m" / "part.jsonl").write_text("\n".join(whole[:-1]) + "\n")
    (folder / "m" / "forged.jsonl").write_text("\n".join([*whole[:-2], whole[-1]]) + "\n")
    return folder


def card(folder: Path, kind: str) -> Any:
    """Return the card as the library of the Hub reads it."""
    hub = pytest.importorskip("huggingface_hub")
    return getattr(hub, kind).load(folder / "README.md")


def test_replays_are_a_dataset_and_the_folder_is_one_of_replays(
    replays: Path, tmp_path: Path
) -> None:
    words = f"hub dataset {replays}/m {replays}/b --out games --license cc-by-4.0 --json"
    done = arena(words, cwd=tmp_path)
    made: Any = last_json(done.stdout)
    assert made["games"] == made["rows"]["games"] == 5, done.stderr
    assert {Path(each["path"]).name for each in made["skipped"]} == {"part.jsonl", "forged.jsonl"}
    folder = tmp_path / "games"
    data = card(folder, "DatasetCard").data.to_dict()
    assert (data["license"], data["size_categories"]) == ("cc-by-4.0", ["n<1K"])
    assert {each["config_name"]: each["data_files"] for each in data["configs"]} == CONFIGS
    rows = parquet.read_table(folder / CONFIGS["games"]).to_pylist()
    again = find_files([folder])
    assert {path.relative_to(folder).as_posix() for path in again} == {r["file"] for r in rows}
    before = {path.read_bytes() for name in "mb" for path in (replays / name).glob("*.jsonl")}
    assert {path.read_bytes() for path in again} < before, "the replays are unchanged"
    report: Any = last_json(arena("analyze games --json", cwd=tmp_path).stdout)
    assert sum(each["games"] for each in report["reports"]) == 5
    replies = parquet.read_table(folder / CONFIGS["replies"]).to_pylist()
    assert {each["replay"] for each in replies} < {each["file"] for each in rows}
    for path in folder.rglob("*"):
        assert path.is_dir() or str(tmp_path).encode() not in path.read_bytes(), path


def test_games_of_bots_have_no_table_of_replies(replays: Path, tmp_path: Path) -> None:
    made = write_dataset([replays / "b"], tmp_path / "games")
    assert made.rows == {"games": 2} and len(made.notes) == 1
    configs = card(tmp_path / "games", "DatasetCard").data.to_dict()["configs"]
    assert [each["config_name"] for each in configs] == ["games"]


def test_nothing_is_overwritten_and_nothing_is_left_after_an_error(
    replays: Path, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(UsageError, match="--out .*full: there is something already"):
        write_dataset([replays / "b"], tmp_path / "full")
    with pytest.raises(UsageError, match=r"no finished game in them; .*part\.jsonl"):
        write_dataset([replays / "m" / "part.jsonl"], tmp_path / "new")
    with pytest.raises(UsageError, match="nowhere: neither a folder"):
        write_model("nowhere", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_the_card_of_a_model_has_the_result_of_its_run(tmp_path: Path) -> None:
    stored = tmp_path / "run"
    shutil.copytree(STORED_RUN, stored)
    with pytest.raises(UsageError, match="this run has no checkpoint"):
        write_model(str(stored), tmp_path / "model")
    shutil.copytree(find_checkpoint("clue-tiny"), stored / "checkpoints" / "0002")
    (stored / "checkpoints" / "0002" / "optimizer.state").touch()
    write_model(str(stored), tmp_path / "model", "mit")
    loaded = card(tmp_path / "model", "ModelCard")
    assert (loaded.data.license, loaded.data.library_name) == ("mit", "transformers")
    [result] = loaded.data.eval_results
    assert (result.metric_type, result.metric_value) == ("win_rate", 0.4)
    assert result.dataset_name == "10 held-out deals of kuhn_poker"
    assert "on held-out deals went from 40 % to 40 %" in loaded.text
    assert not list((tmp_path / "model").glob("optimizer*"))


def test_an_adapter_becomes_whole_weights_that_play(tmp_path: Path) -> None:
    learner = Learner(find_checkpoint("clue-tiny"), lora=Lora(2, 4.0))
    learner.save(tmp_path / "adapter", {})
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    done = arena(f"hub model {tmp_path}/adapter --out model", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "Upload it: hf upload NAME/model model", done.stderr
    ours, theirs = read_state_dict(tmp_path / "model"), read_state_dict(tmp_path / "adapter")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert not (tmp_path / "model" / "base.json").exists(), "it names a folder of this machine"


@pytest.mark.trackers
def test_datasets_and_transformers_load_the_folders(
    replays: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    datasets = pytest.importorskip("datasets", reason=f"datasets {REASON}")
    transformers = pytest.importorskip("transformers", reason=f"transformers {REASON}")
    made = write_dataset([replays / "m", replays / "b"], tmp_path / "games")
    for name, rows in made.rows.items():
        cache = str(tmp_path / "cache")
        table = datasets.load_dataset(str(tmp_path / "games"), name, split="train", cache_dir=cache)
        assert table.num_rows == rows
    assert table[0]["messages"][-1]["role"] == "assistant"
    write_model("clue-tiny", tmp_path / "model")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    asked = [{"role": "user", "content": "?"}]
    ids = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt")
    prompt = ids if isinstance(ids, torch.Tensor) else ids["input_ids"]
    assert model(prompt).logits.shape[:2] == prompt.shape
