"""A training run that is killed, interrupted or out of disk, at any moment: nothing is lost."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from preloaded import python_command
from small_runs import small_base

from trainers.config.config import TrainConfig
from trainers.runs.records import RunFiles, RunState, StepRecord, read_records
from trainers.runs.sentences import headline
from trainers.runs.training_run import TrainingRun, plan_run

ZYGOTE = Path(__file__).parents[1] / "support" / "train_zygote.py"
STEPS = 2


@dataclass(frozen=True)
class Ended:
    """What became of one run of the loop."""

    code: int
    """Of the process; minus the signal that ended it."""
    moment: str
    """At which it was killed."""
    error: str
    """What it has raised."""
    kind: str


class Zygote:
    """Runs `train` in a process of its own, which this one can kill."""

    def __init__(self, base: Path, errors: Path) -> None:
        self._base = base
        with errors.open("w") as file:
            self._process = subprocess.Popen(
                [*python_command(), str(ZYGOTE)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        small_base(base)

    def config(self, **changes: Any) -> TrainConfig:
        few: dict[str, Any] = {
            "game": "kuhn_poker",
            "trainer_host": "embedded",
            "base_model": str(self._base),
            "experiment_name": "x",
            "steps": STEPS,
            "groups_per_step": 2,
            "rollouts_per_group": 3,
            "opponents": "bot:random,past",
            "eval_every": 1,
            "eval_games": 2,
            "final_eval_games": 2,
            "guided": True,
            "reward": "win=1",
            "max_tokens": 8,
            "learning_rate": 0.01,
        }
        return TrainConfig(**few | changes)

    def run(
        self,
        folder: Path,
        at: str = "",
        kill: signal.Signals | None = signal.SIGKILL,
        largest: int = 10,
        batches: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Ended:
        """Train in this folder; at the first moment like `at` the process gets the signal.

        Instead of a signal (None), from that moment on no file can be larger than `largest`. With
        `batches` it takes the batches of a trajectory API.
        """
        config = self.config(**changes).model_dump(mode="json")
        order: dict[str, Any] = {"config": config, "folder": str(folder), "at": at}
        order |= {"batches": batches, "signal": kill, "largest": largest}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        told: dict[str, Any] = {"moment": "", "error": "", "kind": ""}
        while "ended" not in told:
            told |= json.loads(self._process.stdout.readline())
        return Ended(told["ended"], told["moment"], told["error"], told["kind"])

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    folder = tmp_path_factory.mktemp("zygote")
    zygote = Zygote(folder / "base", folder / "errors")
    yield zygote
    zygote.close()
    told = (folder / "errors").read_text()
    assert "Traceback" not in told, told


@pytest.fixture(scope="module")
def undisturbed(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody has disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed") / "x"
    ended = zygote.run(folder)
    assert ended.code == 0, ended.error
    return folder


def weights(folder: Path, step: int = STEPS) -> list[str]:
    """Hashes of the weights and of the optimizer's state."""
    checkpoint = folder / "checkpoints" / f"{step:04d}"
    # All weights, or an adapter in a folder of its own.
    files = [*checkpoint.rglob("*.safetensors"), *checkpoint.glob("optimizer*")]
    assert len(files) == 2
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]


def learned(row: StepRecord) -> StepRecord:
    """The row without what the clock says."""
    update = {name: value for name, value in row.update.items() if "seconds" not in name}
    return row.model_copy(update={"seconds": 0.0, "time": {}, "update": update, "warnings": ()})


def check_same(folder: Path, undisturbed: Path) -> None:
    """The run has ended as the other has: every step done, and done once."""
    rows, expected = (read_records(RunFiles(one).metrics) for one in (folder, undisturbed))
    assert [row.step for row in rows] == list(range(STEPS + 1))
    assert len(RunFiles(folder).metrics.read_text().splitlines()) == STEPS + 1
    assert list(map(learned, rows)) == list(map(learned, expected))
    assert weights(folder) == weights(undisturbed)
    states = [
        RunState.model_validate_json(RunFiles(one).state.read_text())
        for one in (folder, undisturbed)
    ]
    assert states[0] == states[1] and states[0].status == "finished"
    assert files(folder) == files(undisturbed)


def files(folder: Path) -> set[str]:
    """All there is; drafts of what a kill has interrupted must be gone, too."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if not re.search(r"/\.\w+\.\w+\.part$", f"/{name}")}


MOMENTS = (
    "-1: rename config.json",
    "-1: phase evaluation of the starting policy 1",
    "-1: rename start-500000000-2.json",
    "-1: open metrics.jsonl",
    "0: rename checkpoints/0001",
    "0: rename run.json",
    "1: open replays/.*",
    "1: phase rollouts [1-5]",
    "1: phase update 0",
    "1: open checkpoints/.0002.part/training.json",
    "1: rename checkpoints/0002",
    "1: phase evaluation 1",
    "1: open metrics.jsonl",
    "1: open .run.json.part",
    "1: rename run.json",
    "2: phase last evaluation 1",
    "2: rename run.json",
    "2: rename report.html",
)
"""Each just before what it names; those of step 2 are also just after the one above."""


def test_a_run_may_be_killed_at_any_moment(
    zygote: Zygote, undisturbed: Path, tmp_path: Path
) -> None:
    """One run is killed at one moment after the other, each time a little later."""
    folder = tmp_path / "x"
    for moment in MOMENTS:
        ended = zygote.run(folder, moment)
        assert ended.code == -signal.SIGKILL, (moment, ended)
        assert re.fullmatch(moment, ended.moment)
    assert zygote.run(folder).code == 0
    check_same(folder, undisturbed)


def test_a_run_that_is_killed_while_its_model_is_made_goes_on(
    zygote: Zygote, tmp_path: Path
) -> None:
    moment = "-1: phase model: training, part 1 of 4 20"
    ended = zygote.run(tmp_path / "x", moment, base_model="scratch")
    assert ended.code == -signal.SIGKILL
    run = TrainingRun.read(tmp_path / "x")
    # The viewers show what the run does before its first step.
    part = r"making the base model \(training, part 1 of 4: (\d+) of \d+\)"
    found = re.fullmatch(part, run.state.phase)
    assert found and 6 < int(found[1]) <= 20
    assert headline(run)[0] == f"Now {run.state.phase}; the first step follows."
    config = zygote.config(base_model="scratch", log_dir=str(tmp_path))
    assert plan_run(config).continues and not (tmp_path / "x" / "base").exists()


def test_ctrl_c_drops_the_step_and_the_run_goes_on(
    zygote: Zygote, undisturbed: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "x"
    for moment in (
        "-1: phase evaluation of the starting policy 1",
        "1: phase rollouts 3",
        "1: phase update 0",
        "2: phase last evaluation 1",
    ):
        assert zygote.run(folder, moment, signal.SIGINT).code == 130
        state = RunState.model_validate_json(RunFiles(folder).state.read_text())
        assert (state.status, state.step) == ("interrupted", max(0, int(moment.partition(":")[0])))
    assert zygote.run(folder).code == 0
    check_same(folder, undisturbed)


def test_a_full_disk_ends_the_run_in_one_line_and_what_is_finished_is_kept(
    zygote: Zygote, undisturbed: Path, tmp_path: Path
) -> None:
    """A limit on the size of files, which fails as a full disk does."""
    folder = tmp_path / "x"
    for part in (
        "phase update 0",
        "phase evaluation 1",
        "open metrics.jsonl",
        "open .run.json.part",
    ):
        moment = f"1: {part}"
        ended = zygote.run(folder, moment, None)
        assert ended.code == 1 and ended.error and "\n" not in ended.error, (moment, ended)
        assert ended.kind in ("ArenaError", "OSError"), ended
        state = RunState.model_validate_json(RunFiles(folder).state.read_text())
        assert (state.status, state.step) == ("running", 1)
    assert zygote.run(folder).code == 0
    check_same(folder, undisturbed)


def test_a_disk_that_is_full_when_the_weights_are_saved_ends_the_run_in_one_line(
    zygote: Zygote, tmp_path: Path
) -> None:
    """The limit is more than a tokenizer, and less than the weights."""
    ended = zygote.run(tmp_path / "x", "0: rmtree .*", None, 60_000)
    assert ended.code == 1 and ended.error and "\n" not in ended.error, ended


WAITING = "-1: phase waiting for groups 0"


def test_a_trainer_of_batches_may_be_killed_at_any_moment(
    zygote: Zygote, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The resumed run repeats its step, with the batch that comes next."""
    import httpx
    from sampled_groups import sampled_groups
    from test_adapter_server import ModelServer
    from trajectory_servers import queue_api

    server = ModelServer(zygote._base, tmp_path)
    request.addfinalizer(server.stop)
    groups = sampled_groups(server.url, 4)
    first, second = groups[:2], groups[2:]
    # A moment of a kill, and the groups that come before: a kill loses the batch of its step.
    disturbed = [
        ("-1: phase update 0", first),
        ("-1: open metrics.jsonl", first),
        ("1: phase update 0", groups),
        ("", second),
    ]
    few: dict[str, Any] = {
        "game": "atropos", "server": server.url, "loss": "ppo", "guided": False,
    }  # fmt: skip
    # Settings of games and evaluations would have no effect, and are refused.
    others = "groups_per_step rollouts_per_group max_tokens eval_every eval_games final_eval_games"
    for name in (*others.split(), "reward", "opponents"):
        few[name] = TrainConfig.model_fields[name].default
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    for folder, starts in ((undisturbed, [("", groups)]), (killed, disturbed)):
        with queue_api() as url, httpx.Client(timeout=60) as client:
            batches = {"url": url, "batch_size": 4, "accumulation": 1, "seq_len": 768}
            # Killed after its registration: only then may groups come.
            registered = zygote.run(folder, WAITING, batches=batches, **few)
            assert registered.code == -signal.SIGKILL, registered
            for moment, pushed in starts:
                answer = client.post(f"{url}/scored_data_list", json=pushed)
                assert answer.status_code == 200
                ended = zygote.run(folder, moment, batches=batches, **few)
                assert ended.code == (-signal.SIGKILL if moment else 0), (moment, ended)
            assert client.get(f"{url}/status").json()["queue_size"] == 0
    rows, expected = (read_records(RunFiles(one).metrics) for one in (killed, undisturbed))
    assert list(map(learned, rows)) == list(map(learned, expected))
    assert [row.step for row in rows] == [1, 2] and weights(killed) == weights(undisturbed)
    assert files(killed) == files(undisturbed)
