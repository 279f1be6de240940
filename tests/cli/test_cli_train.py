"""`arena train --dry-run` and stored runs, as a user meets them."""

from __future__ import annotations

import random
import shutil
import socket
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from command_line import last_json
from training_rows import row

from arena.cli import run
from arena.cli.train import result_json, result_lines
from arena.plugins.catalog import catalog
from trainers.config.config import TrainConfig
from trainers.runs.records import RunFiles, RunState
from trainers.runs.training_run import TrainingRun

if "rewards" not in catalog().names("trainer"):
    catalog().add("trainer", "rewards", "trainers.rewards:Rewards")

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def dry(flags: str, output: Output) -> Any:
    code = run(["train", *flags.split(), "--dry-run", "--json"])
    captured = output.readouterr()
    assert code == 0, captured.err
    return last_json(captured.out)


@pytest.mark.parametrize("flags", ["", "--dry-run", "--seed 5 --opponents bot:none"])
def test_a_wrong_base_model_is_refused_before_anything_else(flags: str, capsys: Output) -> None:
    folder = Path("runs/train/kuhn_poker-default")
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(TrainConfig(game="kuhn_poker").model_dump_json())
    Path("other").mkdir()
    Path("other/config.json").write_text('{"model_type": "gpt2"}')
    for model, fault in (("no-such", "nor a folder"), ("other", "model_type='gpt2'")):
        command = f"train kuhn_poker --host embedded --base-model {model} {flags}"
        assert run(command.split()) == 2
        captured = capsys.readouterr()
        (line,) = captured.err.splitlines()
        assert model in line and fault in line and not captured.out
    assert [path.name for path in folder.iterdir()] == ["config.json"]


def test_help_has_every_setting_and_its_default(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["train", "--help-all"]) == 0
    told = capsys.readouterr().out
    for name, setting in TrainConfig.settings().items():
        assert (setting.flag.split("/")[0] or f"\n  {name} ") in told, name
    words = " ".join(told.split())
    for text in (
        "Full games per deal. From 2 to 1024. Default: 8.",
        "Policy loss, as ART defines it. Choose cispo, ppo. Default: cispo.",
        "clue-tiny for Cluedo, else scratch.",
        "entropy_coef FLOAT",
        "Keys of --set KEY=VALUE",
    ):
        assert text in words
    flags = [line for line in told.splitlines() if line.startswith("  -")]
    assert len(flags) <= 45, "rare settings are keys"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--weight-sync none", "--weight-sync none: there is no --server; add --server vllm"),
        ("--set sync_every=2", "sync_every=2: there is no --server; add --server vllm"),
        ("--weight-sync none --server http://h:1", "only the run's own server is restarted"),
        ("--weight-sync shared_vllm --server arena", "only vLLM shares its memory"),
        ("--weight-sync shared_vllm --server vllm --set sync_every=2", "its weights exist once"),
        ("--set vllm_port=9001", "a server that runs already is --server http://127.0.0.1:9001"),
    ],
)
def test_transfers_that_are_not_possible_are_refused(flags: str, told: str, capsys: Output) -> None:
    assert run(["train", "kuhn_poker", *flags.split(), "--dry-run"]) == 2
    error = capsys.readouterr().err.strip()
    assert told in error and "\n" not in error


def test_every_source_of_a_setting_in_its_order(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("arena.toml").write_text(
        "[train]\npreset = 'demo'\nsteps = 5\nseed = 5\nproject = 'from-file'\n"
        "learning_rate = 1e-5\n[train.kuhn_poker]\nloss = 'ppo'\n",
        encoding="utf-8",
    )
    Path(".env").write_text("ART_MODEL_NAME=from-dotenv\n", encoding="utf-8")
    monkeypatch.setenv("ARENA_TRAIN_SEED", "6")
    monkeypatch.setenv("ARENA_TRAIN_STEPS", "6")
    monkeypatch.setenv("ARENA_TRAIN_OPTION", "players=5 theme=us")
    monkeypatch.setenv("ARENA_TRAIN_PROJECT", "ours")
    monkeypatch.setenv("ART_PROJECT", "theirs")
    monkeypatch.setenv("ART_BASE_MODEL", "clue-tiny")
    found = dry("cluedo --steps 7 --players 3 --set max_tokens=30", capsys)
    config, origins = found["config"], found["origins"]
    expected = {
        "steps": (7, "flag"),
        "max_tokens": (30, "flag"),
        "seed": (6, "environment"),
        "project": ("ours", "environment"),
        "base_model": ("clue-tiny", "environment"),
        "experiment_name": ("from-dotenv", "environment"),
        "learning_rate": (1e-5, "arena.toml"),
        "text_level": ("deductions", "preset demo"),
        "groups_per_step": (8, "preset demo"),
        "loss": ("cispo", "default"),
        "trainer_host": ("embedded", "default"),
    }
    assert {name: (config[name], origins[name]) for name in expected} == expected
    options = config["options"]
    assert (options["players"], options["theme"], options["variant"]) == (3, "us", "cards")
    assert origins["options.players"] == "flag" and origins["options.theme"] == "environment"
    assert origins["options.variant"] == "default"
    assert found["folder"] == "runs/train/from-dotenv"
    assert found["work"]["games"] == 7 * 8 * 8
    assert found["reward"]["win"]["weight"] == 1.0
    assert found["reward"]["decision:illegal"]["weight"] == 1.0
    assert sorted(path.name for path in Path().iterdir()) == [".env", "arena.toml"]


@pytest.mark.parametrize("place", ["environment", ".env"])
def test_art_s_variables_name_the_server(
    place: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for `arena play`: without --server, LLM_BACKEND=ART selects ART_WRAPPER_URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    variables = {"LLM_BACKEND": "ART", "ART_WRAPPER_URL": url}
    for name, value in variables.items():
        if place == "environment":
            monkeypatch.setenv(name, value)
    if place == ".env":
        Path(".env").write_text("".join(f"{n}={v}\n" for n, v in variables.items()))

    def server(flags: str) -> tuple[str, str, str]:
        """Return the server of a dry run, its origin, and the error."""
        run(["train", *flags.split(), "--dry-run", "--json"])
        captured = capsys.readouterr()
        shown: Any = last_json(captured.out)
        return shown["config"]["server"], shown["origins"]["server"], captured.err

    value, origin, error = server("cluedo")
    assert (value, origin) == (url, "LLM_BACKEND=ART")
    # Nothing listens there, and the error says why the server is asked at all.
    assert f"--server {url} (from LLM_BACKEND and ART_WRAPPER_URL)" in error
    assert "nothing answers" in error and error.count("\n") == 1
    assert dry("cluedo --server=", capsys)["origins"]["server"] == "flag"
    value, origin, error = server("cluedo --server http://127.0.0.1:9")
    assert (value, origin) == ("http://127.0.0.1:9", "flag") and "LLM_BACKEND" not in error
    # It outweighs the file, as every variable does.
    Path("arena.toml").write_text("[train]\nserver = 'http://127.0.0.1:8'\n")
    assert server("cluedo")[:2] == (url, "LLM_BACKEND=ART")
    monkeypatch.setenv("ARENA_TRAIN_SERVER", "http://127.0.0.1:7")
    assert server("cluedo")[:2] == ("http://127.0.0.1:7", "environment")
    monkeypatch.delenv("ARENA_TRAIN_SERVER")
    # Another backend is for playing only.
    monkeypatch.setenv("LLM_BACKEND", "openrouter:some/model")
    assert server("cluedo")[:2] == ("http://127.0.0.1:8", "arena.toml")


def test_a_key_in_the_url_of_a_server_is_not_repeated(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_BACKEND", "ART")
    monkeypatch.setenv("ART_WRAPPER_URL", "http://me:sk-planted-51ab@127.0.0.1:9")
    for flags in ("", "--server http://me:sk-planted-51ab@127.0.0.1:9"):
        assert run(["train", "cluedo", *flags.split(), "--dry-run"]) == 2
        captured = capsys.readouterr()
        assert not captured.out and captured.err.count("\n") == 1
        assert "sk-planted" not in captured.err and "key" in captured.err


def test_a_dry_run_for_people(capsys: Output) -> None:
    flags = "cluedo --text-level events --host embedded --self-play --steps 12"
    assert run(["train", *flags.split(), "--dry-run"]) == 0
    told = capsys.readouterr().out
    lines = {line.split()[0]: line.split()[1:] for line in told.splitlines() if line.split()}
    assert lines["text_level"] == ["events", "flag"]
    assert lines["learning_rate"] == ["0.0003", "default"]
    assert lines["eval_every"] == ["8", "default"]
    assert lines["options.players"] == ["4", "default"]
    assert lines["win"][0] == "1"
    assert lines["decision:suggestion"][0] == "1" and lines["decision:game"][0] == "0.5"
    assert lines["Host:"][0] == "embedded"
    assert lines["Experiment:"] == ["starts", "in", "runs/train/cluedo-default"]
    assert "12 steps, 1,536 training games" in told
    assert not list(Path().iterdir())


@pytest.mark.skipif(find_spec("art") is not None, reason="ART is installed")
def test_a_dry_run_shows_settings_whose_packages_are_missing(capsys: Output) -> None:
    assert run(["train", "cluedo", "--preset", "gpu", "--dry-run"]) == 1
    captured = capsys.readouterr()
    assert "Host: local" in captured.out and "needs the package 'art'" in captured.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("cluedo --backend openrouter", "--backend openrouter: training needs art"),
        ("cluedo --preset huge", "--preset huge: choose default, deduce, demo, gpu, or name a"),
        ("cluedo --preset no.toml", "--preset no.toml: the file cannot be read"),
        ("cluedo --steps -1", "--steps -1: give at least 0"),
        ("cluedo --learning-rate 0", "--learning-rate 0: give more than 0"),
        ("cluedo --kl-coef inf", "--kl-coef inf: give a finite"),
        ("cluedo --host cloud", "--trainer-host cloud: choose embedded"),
        ("cluedo --set promt=1", "no key 'promt'; did you mean 'prompt'"),
        ("cluedo --set prompt", "--set 'prompt' is not KEY=VALUE"),
        ("cluedo --experiment-name a/b", "--experiment-name 'a/b'"),
        ("cluedo --players 9", "option players=9"),
        ("cluedo --players 3 -o players=3", "are mutually exclusive"),
        ("cluedo --reward win", "--reward win: 'win' is not of the form NAME=WEIGHT"),
        ("cluedo --reward charm=1", "there is no reward term 'charm'"),
        ("cluedo --base-model no-such", "no-such"),
        ("cluedo --set project=../../x", "project '../../x': this names a folder in the run's"),
        ("cluedo --opponents human", "--opponents human: a person cannot play that many games"),
        ("cluedo --opponents bot:nobody", "cluedo has no bot 'nobody'"),
        ("cluedo --reward win=0", "--reward win=0: all weights are 0"),
        ("cluedo --device mps", "--device mps: choose auto, cpu, cuda or cuda:NUMBER"),
        ("cluedo --seed 100000000001", "--seed 100000000001: give "),
        ("kuhn_poker --players 3", "kuhn_poker has no option 'players'"),
        ("", "Missing argument 'game'"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(flags: str, said: str, capsys: Output) -> None:
    assert run(["train", *flags.split(), "--dry-run"]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1
    assert not list(Path().iterdir())


def write_run(name: str, steps: int, of: int, state: RunState | None = None, **values: Any) -> Path:
    """A run that never was: `steps` of `of` are there."""
    files = RunFiles(Path("runs/train") / name)
    files.folder.mkdir(parents=True)
    given = {"experiment_name": name, "text_level": "deductions", "options": {"players": 4}}
    config = TrainConfig(**{"steps": of, "trainer_host": "embedded", **given, **values})
    files.config.write_text(config.model_dump_json(), encoding="utf-8")
    rng = random.Random(1)
    rows = [row(step, rng, of, every=4).model_dump_json() for step in range(steps + 1)]
    files.metrics.write_text("\n".join(rows) + "\n", encoding="utf-8")
    state = state or RunState(step=steps)
    files.state.write_text(state.model_dump_json(), encoding="utf-8")
    return files.folder


def finished() -> RunState:
    last = row(8, random.Random(1), 8, every=4).evaluation
    assert last is not None
    return RunState(step=8, best_step=4, status="finished", final={"newest": last, "best": last})


def test_runs_are_read_whatever_their_files_are() -> None:
    write_run("done", 8, 8, finished())
    killed = write_run("killed", 5, 8)
    with (killed / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 6, "conf')
    shutil.copytree(killed, "runs/train/begun")
    for name in ("run.json", "metrics.jsonl"):
        Path("runs/train/begun", name).unlink()
    for name, path, content in (
        ("no-config", "config.json", b"{"),
        ("no-text", "metrics.jsonl", b"\xff\xfe"),
        ("no-state", "run.json", b'{"step": "x"}'),
        ("odd", "config.json", b'{"game": "chess"}'),
        ("infinite", "metrics.jsonl", b'{"step":1,"config_hash":"x","seconds":Infinity,'
         b'"win_rate":{"value":NaN},"time":{"update":NaN},"terms":{"win":{"mean":NaN}}}\n'),
    ):  # fmt: skip
        shutil.copytree(killed, f"runs/train/{name}")
        Path("runs/train", name, path).write_bytes(content)
    runs = {path.name: TrainingRun.read(path) for path in Path("runs/train").iterdir()}
    assert {name: each.status for name, each in runs.items()} == {
        "done": "finished",
        "killed": "interrupted",
        "begun": "interrupted",
        "infinite": "interrupted",
        "odd": "interrupted",
        "no-config": "broken",
        "no-text": "broken",
        "no-state": "broken",
    }
    assert (runs["killed"].state.step, runs["killed"].total_steps) == (5, 8)
    assert runs["done"].delta == finished().final["best"].delta
    assert (runs["killed"].delta.value or 0) > 0.2
    assert runs["killed"].delta_selected and not runs["done"].delta_selected
    assert runs["done"].seconds == pytest.approx(6 * 7.4 + 2 * 11.5)


def test_the_result_of_a_run(capsys: Output) -> None:
    folder = write_run("done", 8, 8, finished(), options={"players": 3})
    run_of_disk, files = TrainingRun.read(folder), RunFiles(folder)
    assert result_json(run_of_disk)["checkpoint"] is None
    weights = files.checkpoints / "0004"
    weights.mkdir(parents=True)
    files.report.touch()
    told = "\n".join(result_lines(run_of_disk))
    assert "Best checkpoint, step 4: +32 points [+24, +40] on 100 deals, from 41 % to 73 %" in told
    assert f"Report:  {files.report}" in told
    command = f"--players 3 --text-level deductions --seat 0=embedded:{weights}"
    assert f"arena play cluedo {command}" in told
    found: Any = result_json(run_of_disk)
    assert (found["status"], found["report"]) == ("finished", str(files.report))
    assert found["final"]["best"]["win_rate_delta"]["n"] == 100
    assert found["checkpoint"] == str(weights)
    without_best = {"newest": finished().final["newest"]}
    none_better = finished().model_copy(update={"best_step": None, "final": without_best})
    assert "Best checkpoint" not in "\n".join(result_lines(replace(run_of_disk, state=none_better)))
    capsys.readouterr()
