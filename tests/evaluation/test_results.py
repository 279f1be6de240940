"""Folders of runs: whole games or none, one writer, readers meanwhile, hostile folders."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from preloaded import python_command

from arena.core.analysis import WeightedSum
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import redacted
from arena.core.version import __version__
from arena.evaluation.aggregation import report_results
from arena.evaluation.records import GameResult, Role, SeatResult, Slot
from arena.evaluation.store import Results, is_written_to

ROOT = Path(__file__).parents[2]
SPECS = ("bot:detective", "bot:novice", "http://host:1/v1#modèle 😀")


def slot(number: int) -> Slot:
    return Slot(number, 1000 + number, SPECS[number % 3 :] + SPECS[: number % 3], "player", 1)


def game(of: Slot, **changes: float) -> GameResult:
    """A game with three seats and two measures of each."""
    seats = tuple(
        SeatResult(
            redacted(spec),
            changes.get("returns", float(seat == 0)),
            seat == 0,
            seat,
            {
                "efficiency": WeightedSum(changes.get("total", 0.1 * of.number), seat + 1.0),
                "leaked/2": WeightedSum(-2.5, changes.get("weight", 3.0)),
            },
        )
        for seat, spec in enumerate(of.specs)
    )
    seconds = changes.get("seconds", 0.25)
    return GameResult(
        of, "terminated", "solved", 12, 30, seconds, seats, True, "a.jsonl", "0f" * 32
    )


def begin(folder: Path, number: int = 0) -> Results:
    """A new run with so many games in its schedule, none of them played."""
    results = Results.create(folder, "eval", "cluedo", {"players": 3}, {"games": number})
    results.extend(map(slot, range(number)))
    return results


def filled(folder: Path, number: int) -> Path:
    with begin(folder, number) as results:
        for each in range(number):
            results.add_all([game(slot(each))])
    return folder


def check_whole(folder: Path) -> list[int]:
    """That every game is as it was added; the numbers of the games."""
    with Results.read(folder) as results:
        games = list(results.games())
        assert games == [game(slot(each.slot.number)) for each in games]
        assert results.finished() == {each.slot.number for each in games}
    return [each.slot.number for each in games]


# What goes in comes out


def test_an_experiment_is_kept_with_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder ?#%é"
    options: Any = {"players": 3, "text": "ümläut\n", "deep": [1, {"a": None}]}
    with Results.create(path, "tournament", "cluedo", options, {"games": 10}) as results:
        made = results.experiment
        results.change(settings={**made.settings, "games": 20})
        assert results.add_look(4) == results.add_look(4) == 1
        assert results.add_look(6) == 2
        expected = made.model_copy(update={"settings": {"games": 20}, "looks": (4, 6)})
    with Results.read(path) as results:
        assert results.experiment == expected
    assert (made.kind, made.game, made.options) == ("tournament", "cluedo", options)
    assert made.arena == __version__
    assert made.created.utcoffset() is not None


@pytest.mark.parametrize(
    ("write", "column"),
    [
        (lambda r: r.change(settings={"a": float("nan")}), "settings"),
        (lambda r: r.change(settings={"a": "\ud800"}), "surrogates"),
        (lambda r: r.extend([replace(slot(9), number=-1)]), "game -1 of"),
        (lambda r: r.extend([replace(slot(2), seed=2**63)]), "schedule.2.0"),
        (lambda r: r.extend([replace(slot(2), role=cast(Role, "other"))]), "schedule.2.1"),
        (lambda r: r.extend([replace(slot(2), seat=3)]), "no such seat"),
        (lambda r: r.extend([replace(slot(2), specs=())]), "at least 1 item"),
        (lambda r: r.extend([replace(slot(2), specs=("a\x1b[2J", "b"))]), "players.3"),
        (lambda r: r.extend([replace(slot(2), specs=("a\ud800", "b"))]), "players.3"),
        (lambda r: r.add_all([game(slot(0), returns=float("nan"))]), "seats.0.returns"),
        (lambda r: r.add_all([game(slot(0), total=float("nan"))]), "efficiency.total"),
        (lambda r: r.add_all([game(slot(0), weight=1e16)]), "leaked/2"),
        (lambda r: r.add_all([game(slot(0), seconds=float("nan"))]), "seconds"),
        (lambda r: r.add_all([replace(game(slot(0)), reason="\x07")]), "reason"),
        (lambda r: r.add_all([replace(game(slot(0)), reason="\ud800")]), "surrogates"),
        (lambda r: r.add_all([replace(game(slot(0)), sha256="0")]), "sha256"),
        (lambda r: r.add_all([replace(game(slot(0)), seats=())]), "its players differ"),
        (lambda r: r.add_all([game(replace(slot(0), seed=5))]), "not in the schedule"),
        (lambda r: r.add_all([game(slot(1)), game(slot(7))]), "not in the schedule"),
        (lambda r: r.add_all([game(slot(1)), game(slot(1))]), "game 1 is already there"),
    ],
)
def test_what_does_not_fit_is_refused_whole(write, column, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    path = tmp_path / "r"
    with begin(path, 2) as results:
        with pytest.raises(ArenaError, match=column) as refused:
            write(results)
        assert str(path) in str(refused.value)
        assert results.slots == [slot(0), slot(1)]
        assert results.finished() == set()
        results.add_all([game(slot(0))])  # The run goes on.
    assert check_whole(path) == [0]


def test_a_schedule_grows_and_is_never_altered(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with begin(path, 3) as results:
        results.extend(map(slot, range(5)))
        assert results.slots == list(map(slot, range(5)))
        with pytest.raises(ArenaError, match=r"game 4 of .* differs from the schedule"):
            results.extend([slot(5), replace(slot(4), seed=1)])
        assert len(results.slots) == 5
        results.add_all([game(slot(2))])
        with pytest.raises(ArenaError, match="game 2 is already there"):
            results.add_all([game(slot(2), returns=9.0)])
    assert check_whole(path) == [2]


def test_games_come_in_order_and_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with begin(path, 9) as results:
        for number in (3, 0, 8, 5):
            results.add_all([game(slot(number))])
        going = results.games()
        assert next(going).slot.number == 0
        results.add_all([game(slot(4)), game(slot(1))])  # Reading leaves the writer free.
        assert [each.slot.number for each in going] == [3, 5, 8]
    assert check_whole(path) == [0, 1, 3, 4, 5, 8]


TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=12)
SLOTS = st.builds(
    Slot,
    number=st.just(0),
    seed=st.integers(-(2**63), 2**63 - 1),
    specs=st.lists(TEXT.map(redacted), min_size=1, max_size=4).map(tuple),
    role=st.sampled_from(("player", "baseline")),
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SANE = st.floats(-1e15, 1e15)
SHARES = st.dictionaries(TEXT, st.builds(WeightedSum, SANE, SANE), max_size=3)


@st.composite
def results_of(draw: st.DrawFn) -> GameResult:
    drawn = draw(SLOTS)
    scheduled = replace(drawn, seat=draw(st.integers(0, len(drawn.specs) - 1)))
    counts = st.integers(0, 2**63 - 1)
    return GameResult(
        scheduled,
        draw(st.sampled_from(("terminated", "truncated"))),
        draw(TEXT),
        draw(counts),
        draw(counts),
        draw(FINITE),
        tuple(
            SeatResult(spec, draw(FINITE), draw(st.booleans()), draw(counts), draw(SHARES))
            for spec in scheduled.specs
        ),
        draw(st.booleans()),
        draw(st.none() | TEXT),
        draw(st.none() | st.binary(min_size=32, max_size=32).map(bytes.hex)),
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(results_of(), max_size=4))
def test_whatever_goes_in_comes_out(drawn: list[GameResult]) -> None:
    played = [replace(r, slot=replace(r.slot, number=n)) for n, r in enumerate(drawn)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r"
        with Results.create(path, "eval", "g", {}, {}) as results:
            results.extend(result.slot for result in played)
            for result in played:
                results.add_all([result])
        with Results.read(path) as results:
            assert list(results.games()) == played
            assert results.slots == [result.slot for result in played]


def test_no_password_is_written(tmp_path: Path) -> None:
    secret = (*slot(0).specs[:2], "http://user:hunter2@host/v1#m")
    with Results.create(tmp_path / "r", "eval", "cluedo", {}, {}) as results:
        results.extend([replace(slot(0), specs=secret)])
        results.extend([replace(slot(0), specs=secret)])
        results.add_all([game(replace(slot(0), specs=secret))])
        assert results.slots[0].specs[2] == "http://host/v1#m"
    assert all(b"hunter2" not in each.read_bytes() for each in (tmp_path / "r").iterdir())


# One writer, and readers


WRITER = """
import sys, time
from pathlib import Path
sys.path[:0] = ["tests/evaluation", "tests/support"]
from test_results import Results, begin, game, slot
path = Path(sys.argv[1])
results = Results.open(path) if path.exists() else begin(path)
results.extend(map(slot, range(5000)))
print("open", flush=True)
played = results.finished()
for number in range(5000):
    if number not in played:
        results.add_all([game(slot(number))])
        print(number, flush=True)
        time.sleep(0.001)
"""


@contextmanager
def running(program: str, *arguments: Path) -> Iterator[subprocess.Popen[str]]:
    """A child that has said that it is ready; it is killed in the end."""
    command = [*python_command(), "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "open\n"
            yield child
        finally:
            child.kill()


def killed_after(seconds: float, child: subprocess.Popen[str]) -> list[int]:
    """The games that it said it had written."""
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    assert child.stdout is not None
    said = child.stdout.read()
    assert child.wait() == -signal.SIGKILL
    return [int(line) for line in said.splitlines(keepends=True) if line.endswith("\n")]


def test_a_killed_writer_leaves_whole_games_and_the_next_goes_on(tmp_path: Path) -> None:
    path, rng, before = tmp_path / "r", random.Random(), 0
    for _ in range(5):
        with running(WRITER, path) as child:
            said = killed_after(rng.uniform(0, 0.15), child)
        numbers = check_whole(path)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= before
        assert set(said) <= set(numbers)
        assert len(numbers) <= before + len(said) + 1  # The last may not have been told.
        before = len(numbers)
    assert before > 0
    with (path / "games.jsonl").open("ab") as file:  # As a kill within a line leaves it.
        file.write((path / "games.jsonl").read_bytes()[:200])
    assert check_whole(path) == list(range(before))
    with Results.open(path) as results:
        assert results.slots == list(map(slot, range(5000)))
        results.add_all([game(slot(before))])
    assert {each.name for each in path.iterdir()} == {"run.json", "games.jsonl", "run.lock"}
    assert check_whole(path) == list(range(before + 1))


def test_one_writes_and_others_read_meanwhile(tmp_path: Path) -> None:
    path, link, seen = tmp_path / "r", tmp_path / "link", list[int]()
    link.symlink_to(path)
    with running(WRITER, path) as child:
        with Results.read(path) as results:
            while len(set(seen)) < 5:
                games = list(results.games())
                assert games == [game(slot(number)) for number in range(len(games))]
                seen.append(len(games))
                assert child.poll() is None
        assert seen == sorted(seen)
        for name in (path, link):
            with pytest.raises(ArenaError) as refused:
                Results.open(name)
            assert str(refused.value) == (
                f"another run writes to {name}; wait for it or choose another --out (if there is "
                "none, delete run.lock in it)"
            )
            with pytest.raises(ArenaError, match="another run writes"):
                begin(name)
        assert is_written_to(link)
        killed_after(0, child)
    assert not is_written_to(link)
    with Results.open(link), pytest.raises(ArenaError, match="another run writes"):
        Results.open(path)
    check_whole(path)


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    path, marker = filled(tmp_path / "r", 1), tmp_path / "r" / "run.lock.held"
    assert not marker.exists() and not is_written_to(path)
    with Results.open(path):
        assert is_written_to(path)
        with pytest.raises(ArenaError, match="another run writes.*delete run.lock.held"):
            Results.open(path)
        left = marker.read_text()
    # A process that was killed: its number belongs to another one now, or to none.
    for gone in (
        left.replace(str(os.getpid()), str(2**22 + 1)),
        left.replace(left.split()[2], "1"),
    ):
        marker.write_text(gone)
        Results.open(path).close()
    assert check_whole(path) == [0]


def test_looking_at_a_lock_refuses_no_run(tmp_path: Path) -> None:
    path = filled(tmp_path / "r", 1)
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            is_written_to(path)

    looking = [threading.Thread(target=look) for _ in range(3)]
    for thread in looking:
        thread.start()
    try:
        for _ in range(50):
            Results.open(path).close()
    finally:
        stop.set()
        for thread in looking:
            thread.join()


# Disks and folders


def test_a_full_disk_keeps_what_was_finished(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with begin(path, 400) as results:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limit[1]))
        try:
            with pytest.raises(ArenaError) as full:
                for number in range(400):
                    results.add_all([game(slot(number))])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
            signal.signal(signal.SIGXFSZ, handler)
        assert str(full.value) == f"cannot write {path}: File too large; finished games are kept"
        kept = len(results.finished())
        assert 0 < kept < 400
        results.add_all([game(slot(kept))])  # Somebody has made room.
    assert check_whole(path) == list(range(kept + 1))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that somebody other than root can reach and read."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody may write here; root may write anywhere, so it becomes somebody else."""
    folder.chmod(0o555)
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)
        folder.chmod(0o755)


def test_a_read_only_folder_is_read_and_not_written(folder: Path) -> None:
    path = filled(folder / "r", 2)
    (path / "run.lock").unlink()
    path.chmod(0o555)
    with read_only(folder):
        with Results.read(path) as results:
            assert len(list(results.games())) == 2
        with pytest.raises(ArenaError, match="cannot write .*: Permission denied"):
            Results.open(path)
        with pytest.raises(ArenaError, match="cannot write .*: Permission denied"):
            begin(folder / "new")
    assert check_whole(path) == [0, 1]


# Folders that are no runs, or not sound ones


MANY = "".join(f'"m{number}":{{"total":1,"weight":1}},' for number in range(2000))


def refusals(path: Path) -> list[str]:
    """What is said by whoever opens the run, to write and to read."""
    said = []
    for way in (Results.open, Results.read):
        with pytest.raises(ArenaError) as refused, way(path) as results:
            list(results.games())
        assert str(path) in str(refused.value)
        assert str(refused.value).isprintable()
        said.append(str(refused.value))
    return said


def altered(path: Path, name: str, old: str, new: str) -> Path:
    """A run of two games that a stranger has altered."""
    file = filled(path, 2) / name
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return path


def test_no_such_folder_and_those_of_others(tmp_path: Path) -> None:
    path = tmp_path / "r"
    assert all("No such file" in said for said in refusals(path))
    assert all("No such file" in said for said in refusals(tmp_path))
    assert list(tmp_path.iterdir()) == []
    path.mkdir()
    for theirs, told in (("x\n" * 999, "run.json: "), ("", "run.json: "), ("[]", "format None"),
                         ('{"step": 3}', "format None"), ('{"format":9}', "format 9")):  # fmt: skip
        (path / "run.json").write_text(theirs)
        assert all(told in said for said in refusals(path))
        with pytest.raises(ArenaError, match="exists"):
            begin(path)
        assert [each.name for each in path.iterdir() if each.name != "run.lock"] == ["run.json"]


@pytest.mark.parametrize("name", ["run.json", "games.jsonl"])
def test_pipes_and_links_are_not_opened(name: str, tmp_path: Path) -> None:
    path = filled(tmp_path / "r", 2)
    secret = (path / name).rename(tmp_path / "secret")
    (path / name).symlink_to(secret)
    assert all("it is a link" in said for said in refusals(path))
    (path / name).unlink()
    os.mkfifo(path / name)
    assert all("regular file" in said or "No such device" in said for said in refusals(path))


def test_bytes_that_are_lost_or_changed_raise_nothing_else(tmp_path: Path) -> None:
    whole, rng, refused = filled(tmp_path / "r", 20), random.Random(3), 0
    for name in ("run.json", "games.jsonl"):
        sound = (whole / name).read_bytes()
        for attempt in range(40):
            spoilt = bytearray(sound if attempt % 2 else sound[: rng.randrange(len(sound))])
            for _ in range(attempt % 2 * 20):
                spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
            for way in (Results.read, Results.open):
                (whole / name).write_bytes(spoilt)
                try:
                    with way(whole) as results:
                        list(results.games())
                except ArenaError as error:
                    refused += str(whole) in str(error) and str(error).isprintable()
        (whole / name).write_bytes(sound)
    assert refused > 80


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("run.json", '"bot:novice"', r'"bot\u001b[2J"', "players.1"),
        ("run.json", '"player",1,', '"king",1,', "schedule.0.1"),
        ("run.json", '"player",1,', '"player",3,', "no such seat"),
        ("run.json", "[0,1,2]", "[0,1,3]", "no such seat or player"),
        ("run.json", "[1000,", "[1001,", "games.jsonl, game 0: game 0 is not in the schedule"),
        ("run.json", '"options":{"players":3}', '"options":[1]', "options"),
        ("run.json", '"settings":{"games":2}', '"settings":' + "[" * 9999, "run.json: "),
        ("run.json", '"games":2', '"games":[' + "0," * 5 * 10**6 + "0]", "it is too large"),
        ("run.json", '"games":2', '"games":[' + "1e999," * 10**6 + "0]", "Out of range float"),
        ("run.json", '"schedule":[', '"schedule":[' + "[]," * 10**6, "schedule.0"),
        ("run.json", '"kind":"eval"', '"kind":"tournament"', "not one of tournament"),
        ("run.json", '"created":"', '"created":"now', "created"),
        ("run.json", '"kind":"eval"', '"kind":"eval","kind":"eval"', "'kind' occurs twice"),
        ("run.json", "{", "{" + " " * (33 << 20), "it is too large"),
        ("games.jsonl", '"seed":1000', '"seed":1001', "not in the schedule"),
        ("games.jsonl", '"player":"bot:novice"', '"player":"bot:oracle"', "its players differ"),
        ("games.jsonl", '"turns":12', '"turns":-1', "game 0: turns"),
        ("games.jsonl", '"turns":12', '"turns":13,"turns":12', "'turns' occurs twice"),
        ("games.jsonl", '"returns":1.0', '"returns":9e999', "returns"),
        ("games.jsonl", '"total":', '"total":1e16,"_":', "no measurement"),
        ("games.jsonl", '"solved"', r'"\u0000"', "reason"),
        ("games.jsonl", '"leaked/2":', f'{MANY}"leaked/2":', "more than 2000 measures"),
        ("games.jsonl", '"solved"', "[" * 99999 + "1", "games.jsonl, game 0"),
        ("games.jsonl", '"number":1,', '"number":2,', "game 2 is not to come here"),
        ("games.jsonl", '"number":1,', '"number":0,', "game 0 is not to come here"),
        ("games.jsonl", "{", "\n{", "damaged at byte 0: this is no game"),
        ("games.jsonl", '"solved"', '"' + "x" * 2**20, "the line is too long"),
    ],
)
def test_what_a_stranger_wrote_is_checked(
    name: str, old: str, new: str, told: str, tmp_path: Path
) -> None:
    for said in refusals(altered(tmp_path / "r", name, old, new)):
        assert told in said


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"options":{"players":3}', '"options":{"players":4}', "has 4 seats here"),
        ('"player",1,', '"baseline",1,', "its games are not those of its settings"),
        ('"settings":{', '"settings":{"other":1,', "not those of its settings"),
        ('"game":"cluedo"', '"game":"nothing"', "nothing"),
    ],
)
def test_a_report_of_a_strangers_games_is_refused_in_one_line(
    old: str, new: str, told: str, tmp_path: Path
) -> None:
    path = altered(tmp_path / "r", "run.json", old, new)
    if "baseline" in new:
        games = (path / "games.jsonl").read_text()
        (path / "games.jsonl").write_text(games.replace('"player","seat"', '"baseline","seat"'))
    with Results.read(path) as results, pytest.raises((ArenaError, UsageError), match=told):
        report_results(results)
