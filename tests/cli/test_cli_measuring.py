"""`arena eval` and `arena tournament`, as a user meets them."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import ENVIRONMENT, arena, last_json, started

from arena.cli import run
from arena.evaluation.store import Results

TIMES = {"results"}


def evaluate(cwd: Path, more: str = "", games: int = 4) -> dict[str, Any]:
    done = arena(
        f"eval cluedo --players 3 --seed 5 --player bot:detective --games {games} --json {more}",
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    return last_json(done.stdout)


def count_games(folder: Path) -> int:
    return (folder / "games.jsonl").read_bytes().count(b"\n")


def wait_for_games(process: subprocess.Popen[str], folder: Path, games: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if (folder / "games.jsonl").exists() and count_games(folder) >= games:
            return
        time.sleep(0.05)
    raise AssertionError(f"{games} games did not come: {process.communicate()}")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which an evaluation with a baseline was run."""
    folder = tmp_path_factory.mktemp("evaluated")
    report = evaluate(folder, "--baseline bot:novice --set scored=2")
    (folder / "report.json").write_text(json.dumps(report))
    return folder


def report_of(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_text())


def test_an_evaluation_reports_rates_differences_and_measures(evaluated: Path) -> None:
    report = report_of(evaluated)
    player, baseline = report["players"]
    assert (player["player"], baseline["player"]) == ("bot:detective", "bot:novice")
    assert player["games"] == baseline["games"] == 4 and report["games"] == 8
    rate = player["win_rate"]
    assert rate["low"] < rate["value"] == player["wins"] / 4 < rate["high"] or player["wins"] == 4
    found = report["comparison"]
    assert found["deals"] == 4
    difference = (player["wins"] - baseline["wins"]) / 4
    assert found["difference"]["value"] == pytest.approx(difference, abs=1e-6)
    assert report["scored"] == 4, "two deals, each with player and baseline"
    assert 0 < player["measures"]["efficiency_early"]["value"] <= 1
    assert "Deals are independent" in report["design"]


def test_the_report_is_the_same_on_one_core_after_ctrl_c_and_after_a_kill(tmp_path: Path) -> None:
    whole = evaluate(tmp_path, "--out whole --set scored=4 --workers 1", games=40)
    command = "eval cluedo --players 3 --seed 5 --player bot:detective --games 40 --set scored=4"
    command += " --out parts"
    results = tmp_path / "parts"
    first = started(f"{command} --workers 2", tmp_path)
    wait_for_games(first, results, 3)
    first.send_signal(signal.SIGINT)
    _, stderr = first.communicate(timeout=60)
    assert first.returncode == 130
    assert re.search(r"Kept: \d+ finished games; the same command with --resume", stderr)
    assert "Traceback" not in stderr
    kept = count_games(results)
    assert 3 <= kept < 40
    second = started(f"{command} --workers 2 --resume", tmp_path)
    wait_for_games(second, results, kept + 3)
    second.kill()
    second.communicate()
    assert kept < count_games(results) < 40
    resumed = evaluate(tmp_path, "--out parts --set scored=4 --resume --workers 2", games=40)
    assert {k: v for k, v in resumed.items() if k not in TIMES} == {
        k: v for k, v in whole.items() if k not in TIMES
    }


def test_ctrl_c_while_the_workers_start_is_one_line(tmp_path: Path) -> None:
    command = "eval cluedo --player bot:novice --games 40 --seed 1 --workers 2 --out parts"
    process = subprocess.Popen(
        [sys.executable, "-m", "arena", *command.split()],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not (worker := started_worker(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert worker, "no worker has started"
    # A terminal sends Ctrl-C to the whole group. Here it reaches a worker before the driver.
    os.kill(worker, signal.SIGINT)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    rest = "Kept: 0 finished games; the same command with --resume --out parts continues\n"
    assert (process.returncode, stderr) == (130, rest)


def started_worker(parent: int) -> int:
    """Return the PID of a worker whose Python has set its action for SIGINT, or blocks it; or 0."""
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            status = Path(f"/proc/{pid}/status").read_text()
            masks = re.findall(r"^Sig(?:Blk|Ign|Cgt):\s*(\w+)$", status, re.MULTILINE)
            if any(int(mask, 16) >> signal.SIGINT - 1 & 1 for mask in masks):
                return int(pid)
    return 0


def test_resuming_with_other_settings_is_refused(evaluated: Path) -> None:
    folder = next(evaluated.glob("runs/eval/*"))
    done = arena(
        "eval cluedo --players 3 --player bot:oracle --baseline bot:novice --resume --out",
        str(folder),
        cwd=evaluated,
    )
    assert done.returncode == 2
    assert "was made with player = bot:detective" in done.stderr


def test_until_ci_stops_when_the_interval_is_narrow_enough(tmp_path: Path) -> None:
    report = evaluate(tmp_path, "--until-ci 0.2 --set scored=0", games=500)
    found = report["sequential"]
    assert found["reached"] is True
    estimate = found["estimate"]
    assert (estimate["high"] - estimate["low"]) / 2 <= 0.2
    assert estimate["n"] == report["players"][0]["games"] < 500


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("eval cluedo", "--player"),
        ("eval cluedo --player bot:nobody", "has no bot 'nobody'"),
        ("eval cluedo --player human", "people are not measured"),
        ("eval cluedo --player bot:novice --baseline bot:novice", "it is the player itself"),
        ("eval cluedo --player bot:novice --against bot:novice,,", "commas between them"),
        ("eval cluedo --player bot:oracle --player bot:novice", "compare two with --baseline"),
        ("eval cluedo --player bot:novice --games 2 --html .", "no file can be written there"),
        (
            "eval cluedo --player bot:novice --resume",
            "--resume: name the folder of the run with --out",
        ),
        ("eval cluedo --player bot:novice --html no/such/x.html", "no file can be written there"),
        ("eval cluedo --player bot:novice --until-ci 0.7", "lies in 0 to 1, so give a number"),
        ("eval cluedo --player bot:novice --until-ci 0", "--until-ci"),
        ("tournament cluedo --player bot:novice", "at least two players"),
        ("tournament cluedo --player bot:novice --player bot:novice", "named twice: bot:novice"),
        ("eval --from nothing.here", "no such file or folder"),
        ("eval --from .", "no replays"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(command: str, said: str, tmp_path: Path) -> None:
    done = arena(command, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_model_is_evaluated_with_an_html_report_and_with_its_beliefs(tmp_path: Path) -> None:
    done = arena(
        "eval cluedo --players 3 --player embedded:clue-tiny --text-level deductions --games 2 "
        "--seed 3 --set beliefs=true --max-tokens 64 --json --html report.html",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    report: Any = last_json(done.stdout)
    row = report["players"][0]
    ledger = next(tmp_path.rglob("*.ledger.json"))
    total = json.loads(ledger.read_text())["total"]
    for name in ("prompt_tokens", "completion_tokens"):
        assert row["measures"][name]["value"] * 2 == pytest.approx(total[name])
    assert row["measures"]["belief_failures"]["value"] is not None
    assert "embedded:clue-tiny" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(("flag", "expected"), [("", 3), ("--max-concurrent 5", 5)])
def test_no_more_games_at_once_than_the_model_keeps_chats(
    flag: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arena.evaluation import schedule
    from backends.embedded import CHECKPOINTS, architecture

    model = architecture.read_architecture(CHECKPOINTS / "clue-tiny")
    room = 3 * model.chat_tokens() * model.cache_bytes_per_token
    for name in ("KV_CACHE_BYTES", "LARGE_KV_CACHE_BYTES"):
        monkeypatch.setattr(architecture, name, room)
    found, play = list[int](), schedule.run_schedule

    def noted(slots: Any, play_one: Any, store: Any, at_once: int, *more: Any) -> Any:
        found.append(at_once)
        return play(slots, play_one, store, at_once, *more)

    monkeypatch.setattr(schedule, "run_schedule", noted)
    words = f"eval kuhn_poker --player embedded:clue-tiny --games 6 --out {tmp_path / 'x'} {flag}"
    assert run([*words.split(), "--guided", "--max-tokens", "16"]) == 0
    assert found == [expected]


def tournament(cwd: Path, players: str, more: str = "", scored: int = 0) -> Any:
    flags = " ".join(f"--player bot:{player}" for player in players.split())
    done = arena(
        f"tournament cluedo --players 3 --seed 2 --set scored={scored} --json {flags} {more}",
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    return last_json(done.stdout)


def test_a_player_that_is_added_later_needs_only_its_own_games(tmp_path: Path) -> None:
    first = tournament(tmp_path, "random novice detective", "--games 6")
    assert first["games"] == 6
    assert [row["player"] for row in first["players"]][-1] == "bot:random"
    folder = next(tmp_path.glob("runs/tournament/*"))
    resume = f"--resume --out {folder} --games"
    both = tournament(tmp_path, "random novice detective oracle", f"{resume} 6")
    assert both["games"] == 12
    with Results.read(folder) as results:
        assert sum("bot:oracle" in slot.specs for slot in results.slots[6:]) == 6
    more = tournament(tmp_path, "random novice detective oracle", f"{resume} 7", 30)
    assert more["scored"] < more["games"]
    later = last_json(arena("eval --json --from", f"{folder}/replays", cwd=tmp_path).stdout)
    reports: Any = later["reports"]
    (scored,) = reports
    assert scored["scored"] == scored["games"] == more["games"]
    assert all("efficiency_early" in row["measures"] for row in scored["players"])
    missing = arena(
        "tournament cluedo --players 3 --player bot:novice --player bot:oracle --resume --out",
        str(folder),
        cwd=tmp_path,
    )
    assert missing.returncode == 2 and "name it with --player too" in missing.stderr


def test_analysis_of_replays_equals_what_was_measured_when_they_were_played(
    evaluated: Path,
) -> None:
    replays = arena("eval --from runs --json", cwd=evaluated)
    assert replays.returncode == 0, replays.stderr
    report = last_json(replays.stdout)["reports"][0]  # type: ignore[index]
    assert report["games"] == 8
    whole = evaluate(evaluated, "--baseline bot:novice --out again")
    shutil.rmtree(evaluated / "again")
    rows = {(row["player"], row["role"]): row for row in report["players"]}
    again = rows["bot:detective", "tested"]
    assert {role for player, role in rows if player == "bot:novice"} >= {"tested"}
    assert rows["bot:novice", "tested"]["games"] == 4, "its games as an opponent are not among them"
    assert again["measures"] == whole["players"][0]["measures"]
    stored = next(evaluated.glob("runs/eval/*"))
    # The evaluation scored 4 games.
    of_run: Any = last_json(arena("eval --json --from", str(stored), cwd=evaluated).stdout)
    assert [(r["games"], r["scored"]) for r in of_run["reports"]] == [(8, 4)]


def test_broken_files_are_named_and_skipped(evaluated: Path, tmp_path: Path) -> None:
    good = sorted(evaluated.rglob("game0*.jsonl"))[:3]
    for path in good:
        shutil.copy(path, tmp_path)
        shutil.copy(path, tmp_path / f"copy-of-{path.name}")
    lines = good[0].read_text().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_text("".join(lines[:20]))
    (tmp_path / "odd.jsonl").write_text("no replay\n")
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "lies.jsonl").write_text("".join(lines).replace('"suggest ', '"propose '))
    (tmp_path / "formula.jsonl").write_text("".join(lines).replace('"bot:', '"=bot:', 1))
    done = arena("eval --from . --json --csv out.csv --set scored=0", cwd=tmp_path)
    assert done.returncode == 0
    found: Any = last_json(done.stdout)
    assert found["reports"][0]["games"] == 4, "copies count once"
    assert "3 files are copies of others" in done.stderr
    assert {Path(each["path"]).name for each in found["skipped"]} == {
        "cut.jsonl",
        "odd.jsonl",
        "empty.jsonl",
        "lies.jsonl",
    }
    assert done.stderr.count("skipped ") == 4 and "Traceback" not in done.stderr
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert "'=bot" in {row["player"][:5] for row in rows}
    shares = {"drawn", "lost", "truncated", "fallback"}
    assert {row["measure"] for row in rows} == {"win_rate", "par", "mean_return", *shares}
    assert {row["unit"] for row in rows} == {""}
    assert {row["role"] for row in rows} == {"unknown"}, "the results file is not beside them"
    only_bad = arena("eval --from odd.jsonl --from cut.jsonl", cwd=tmp_path)
    assert only_bad.returncode == 1 and "none of the 2 files" in only_bad.stderr


def test_a_hostile_file_is_skipped_and_the_others_are_measured(
    evaluated: Path, tmp_path: Path
) -> None:
    good = min(evaluated.rglob("game0*.jsonl"))
    shutil.copy(good, tmp_path)
    lines = good.read_text().splitlines()
    seed = str(json.loads(lines[0])["seed"])
    (tmp_path / "seed.jsonl").write_text(
        "\n".join([lines[0].replace(f'"seed":{seed}', f'"seed":{2**70}'), *lines[1:]]) + "\n"
    )
    decision = next(i for i, line in enumerate(lines) if '"type":"decision"' in line)
    for name, cost in (("huge", "1" + "0" * 400), ("much", "1e308"), ("nan", "NaN")):
        forged = lines[decision].replace(
            '"details":{}', f'"details":{{"beliefs":{{"cost":{cost}}}}}'
        )
        text = "\n".join([*lines[:decision], forged, *lines[decision + 1 :]]) + "\n"
        (tmp_path / f"{name}.jsonl").write_text(text)
    stored = tmp_path / "stored"
    stored.mkdir()
    for path in next(evaluated.glob("runs/eval/*")).glob("*.json*"):
        text = path.read_text().replace('"fallbacks":0', '"fallbacks":9e999', 1)
        (stored / path.name).write_text(text)
    done = arena("eval --json --from . --from stored/games.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    found: Any = last_json(done.stdout)
    skipped = {Path(each["path"]).name for each in found["skipped"]}
    assert {"seed.jsonl", "games.jsonl"} <= skipped
    assert found["reports"][0]["games"] >= 1


def in_process(capsys: pytest.CaptureFixture[str], command: str) -> Any:
    capsys.readouterr()
    assert run(command.split()) == 0
    return last_json(capsys.readouterr().out)


def test_a_run_that_grows_is_judged_by_its_confidence_sequence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = (
        "eval cluedo --players 3 --player bot:novice --baseline bot:random "
        "--set scored=0 --set replays=false --seed 1 --workers 1 --json "
        f"--out {tmp_path}/run --games"
    )
    whole = in_process(capsys, f"{command.replace('/run', '/whole')} 9")
    first = in_process(capsys, f"{command} 6")
    assert first["sequential"] is None and not first["notes"]
    again = in_process(capsys, f"{command} 6 --resume")
    assert again["sequential"] is None, "the same games are no further look"
    more = in_process(capsys, f"{command} 9 --resume")
    assert more["players"] == whole["players"]
    assert more["sequential"]["estimate"]["n"] == 9 and more["sequential"]["target"] is None
    assert more["notes"][0].startswith("This is look 2 at a run whose number of games was raised")
    with Results.read(tmp_path / "run") as results:
        assert results.experiment.looks == (12, 18)
