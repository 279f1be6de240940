"""Results files: whole games or none, one writer, readers meanwhile, and files that are none."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.core.analysis import WeightedSum
from arena.core.errors import ArenaError
from arena.core.spec import redacted
from arena.core.version import __version__
from arena.evaluation.records import GameResult, Role, SeatResult, Slot
from arena.evaluation.store import BATCH_SIZE, Results
from arena.evaluation.store.schema import SCHEMA_VERSION

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


def begin(path: Path, number: int = 0) -> Results:
    """A new file with so many games in its schedule, none of them played."""
    results = Results.create(path, "eval", "cluedo", {"players": 3}, {"games": number})
    results.extend(map(slot, range(number)))
    return results


def filled(path: Path, number: int) -> Path:
    with begin(path, number) as results:
        for each in range(number):
            results.add_all([game(slot(each))])
    return path


def check_whole(path: Path) -> list[int]:
    """That the file is sound and every game is as it was added; the numbers of the games."""
    with Results.read(path) as results:
        games = list(results.games())
        assert games == [game(slot(each.slot.number)) for each in games]
        assert results.finished() == {each.slot.number for each in games}
    # By a reader, which leaves the log of a killed writer to the next one.
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    return [each.slot.number for each in games]


# What goes in comes out


def test_an_experiment_is_kept_with_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder ?#%é" / "results.sqlite"
    options: Any = {"players": 3, "text": "ümläut\n", "deep": [1, {"a": None}]}
    with Results.create(path, "tournament", "cluedo", options, {"games": 10}) as results:
        made = results.experiment
        results.set_settings({**made.settings, "games": 20})
        assert results.experiment == replace(made, settings={"games": 20})
    with Results.read(path) as results:
        assert results.experiment == replace(made, settings={"games": 20})
    assert (made.kind, made.game, made.options) == ("tournament", "cluedo", options)
    assert made.arena == __version__
    assert made.created.utcoffset() is not None


@pytest.mark.parametrize(
    ("write", "column"),
    [
        (lambda r: r.set_settings({"a": float("nan")}), "not JSON compliant"),
        (lambda r: r.set_settings({"a": "\ud800"}), "experiment.settings"),
        (lambda r: r.extend([replace(slot(9), number=-1)]), "schedule.number"),
        (lambda r: r.extend([replace(slot(9), seed=2**63)]), "schedule.seed"),
        (lambda r: r.extend([replace(slot(9), role=cast(Role, "other"))]), "schedule.role"),
        (lambda r: r.extend([replace(slot(9), seat=3)]), "no seat 3"),
        (lambda r: r.extend([replace(slot(9), specs=())]), "has no players"),
        (lambda r: r.extend([replace(slot(9), specs=("a\x1b[2J", "b"))]), "places.spec"),
        (lambda r: r.extend([replace(slot(9), specs=("a\ud800", "b"))]), "places.spec"),
        (lambda r: r.add_all([game(slot(0), returns=float("nan"))]), "seats.returns"),
        (lambda r: r.add_all([game(slot(0), total=float("nan"))]), "shares.total"),
        (lambda r: r.add_all([game(slot(0), weight=float("nan"))]), "shares.weight"),
        (lambda r: r.add_all([game(slot(0), seconds=float("nan"))]), "games.seconds"),
        (lambda r: r.add_all([replace(game(slot(0)), reason="\x07")]), "games.reason"),
        (lambda r: r.add_all([replace(game(slot(0)), sha256="0")]), "games.sha256"),
        (lambda r: r.add_all([replace(game(slot(0)), seats=())]), "its players differ"),
        (lambda r: r.add_all([game(replace(slot(0), seed=5))]), "not in the schedule"),
        (lambda r: r.add_all([game(slot(7))]), "not in the schedule"),
    ],
)
def test_what_does_not_fit_is_refused_whole(write, column, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    path = tmp_path / "r"
    with begin(path, 2) as results:
        with pytest.raises(ArenaError, match=column) as refused:
            write(results)
        assert str(path) in str(refused.value)
        assert results.schedule() == [slot(0), slot(1)]
        assert results.finished() == set()
        results.add_all([game(slot(0))])  # The file goes on being written.
    assert check_whole(path) == [0]


def test_a_schedule_grows_and_is_never_altered(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with begin(path, 3) as results:
        results.extend(map(slot, range(5)))
        assert results.schedule() == list(map(slot, range(5)))
        with pytest.raises(ArenaError, match=r"game 4 of .* differs from the schedule"):
            results.extend([slot(5), replace(slot(4), seed=1)])
        assert len(results.schedule()) == 5
        results.add_all([game(slot(2))])
        with pytest.raises(ArenaError, match=r"game 2 is already in .*"):
            results.add_all([game(slot(2), returns=9.0)])
    assert check_whole(path) == [2]


def test_games_are_added_together_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with begin(path, 4) as results:
        results.add_all([game(slot(2)), game(slot(0))])
        for more, fault in (
            ([game(slot(1)), game(slot(2))], "game 2 is already in"),
            ([game(slot(1)), game(slot(1))], "game 1 is already in"),
            ([game(slot(1)), game(slot(9))], "game 9 is not in the schedule"),
        ):
            with pytest.raises(ArenaError, match=fault):
                results.add_all(more)
        results.add_all([])
    assert check_whole(path) == [0, 2]


def test_games_come_in_order_and_in_batches(tmp_path: Path) -> None:
    path, count = tmp_path / "r", 2 * BATCH_SIZE + 1
    order = random.Random(1).sample(range(count), count)
    with begin(path, count) as results:
        for number in order[:-1]:
            results.add_all([game(slot(number))])
        going = results.games()
        first = next(going)
        results.add_all([game(slot(order[-1]))])  # Reading in batches leaves the writer free.
        numbers = [first.slot.number, *(each.slot.number for each in going)]
    assert all(one < two for one, two in pairwise(numbers))
    assert set(order[:-1]) <= set(numbers)
    assert check_whole(path) == list(range(count))
    with Results.read(path) as results:
        steps: list[str] = []
        results._database.set_trace_callback(steps.append)
        next(results.games())
        assert not any("LIMIT" not in step for step in steps if step.startswith("SELECT"))


TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=12)
SLOTS = st.builds(
    Slot,
    number=st.integers(0, 2**63 - 1),
    seed=st.integers(-(2**63), 2**63 - 1),
    specs=st.lists(TEXT.map(redacted), min_size=1, max_size=4).map(tuple),
    role=st.sampled_from(("player", "baseline", "table")),
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SANE = st.floats(-1e15, 1e15)
SHARES = st.dictionaries(TEXT, st.builds(WeightedSum, SANE, SANE), max_size=3)


@st.composite
def results_of(draw: st.DrawFn) -> GameResult:
    drawn = draw(SLOTS)
    scheduled = replace(drawn, seat=draw(st.none() | st.integers(0, len(drawn.specs) - 1)))
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
@given(st.lists(results_of(), max_size=4, unique_by=lambda result: result.slot.number))
def test_whatever_goes_in_comes_out(played: list[GameResult]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r"
        with Results.create(path, "eval", "g", {}, {}) as results:
            results.extend(result.slot for result in played)
            for result in played:
                results.add_all([result])
        played.sort(key=lambda result: result.slot.number)
        with Results.read(path) as results:
            assert list(results.games()) == played
            assert results.schedule() == [result.slot for result in played]


def test_no_password_is_written(tmp_path: Path) -> None:
    secret = (*slot(0).specs[:2], "http://user:hunter2@host/v1#m")
    with Results.create(tmp_path / "r", "eval", "cluedo", {}, {}) as results:
        results.extend([replace(slot(0), specs=secret)])
        results.extend([replace(slot(0), specs=secret)])
        results.add_all([game(replace(slot(0), specs=secret))])
        assert results.schedule()[0].specs[2] == "http://host/v1#m"
    assert all(b"hunter2" not in each.read_bytes() for each in tmp_path.iterdir())


# One writer, and readers


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, "tests/evaluation")
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
"""
CREATOR = """
import sys
from pathlib import Path
sys.path.insert(0, "tests/evaluation")
from test_results import filled
print("open", flush=True)
for number in range(5000):
    filled(Path(sys.argv[1]) / str(number), 1)
"""


@contextmanager
def running(program: str, *arguments: Path) -> Iterator[subprocess.Popen[str]]:
    """A child that has said that it is ready; it is killed in the end."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
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
    with Results.open(path) as results:
        assert results.schedule() == list(map(slot, range(5000)))
        results.add_all([game(slot(before))])
    assert {each.name for each in tmp_path.iterdir()} == {"r", "r.lock"}
    assert check_whole(path) == list(range(before + 1))


def test_a_creation_that_is_killed_leaves_nothing_or_a_file(tmp_path: Path) -> None:
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()  # On a busy machine the child may be killed before it does anything.
        with running(CREATOR, folder) as child:
            killed_after(random.uniform(0.02, 0.1), child)
        last = max((int(each.name) for each in folder.iterdir() if each.name.isdigit()), default=0)
        for number in range(last):
            assert check_whole(folder / str(number)) == [0]
        path = folder / str(last)
        try:
            Results.create(path, "eval", "cluedo", {}, {}).close()
        except ArenaError as error:
            assert "exists" in str(error)
            assert check_whole(path) in ([], [0])


def test_a_second_writer_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    path, link = tmp_path / "r", tmp_path / "link"
    link.symlink_to(path)
    with running(WRITER, path) as child:
        for name in (path, link):
            with pytest.raises(ArenaError) as refused:
                Results.open(name)
            assert str(refused.value) == (
                f"another run writes to {name}; wait for it or choose another --out"
            )
            with pytest.raises(ArenaError, match="another run writes"):
                begin(name)
        killed_after(0, child)
    with Results.open(link), pytest.raises(ArenaError, match="another run writes"):
        Results.open(path)
    check_whole(path)


def test_a_file_is_read_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "r"
    seen: list[int] = []
    with running(WRITER, path) as child:
        with Results.read(path) as results:
            while len(set(seen)) < 5:
                games = list(results.games())
                assert games == [game(slot(number)) for number in range(len(games))]
                seen.append(len(games))
                assert child.poll() is None
        killed_after(0, child)
    assert seen == sorted(seen)


def test_a_writer_that_closes_while_somebody_reads_loses_nothing(tmp_path: Path) -> None:
    with begin(tmp_path / "r", 2) as results, Results.read(tmp_path / "r") as reader:
        results.add_all([game(slot(0))])
        results.close()
        assert reader.finished() == {0}
        with Results.open(tmp_path / "r") as again:
            again.add_all([game(slot(1))])
        assert reader.finished() == {0, 1}
        with pytest.raises(ArenaError, match="cannot write .*readonly"):
            reader.extend([slot(2)])
    assert check_whole(tmp_path / "r") == [0, 1]


# Disks and folders


def test_a_full_disk_keeps_what_was_finished(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with begin(path, 400) as results:
        pages = results._database.execute("PRAGMA page_count").fetchone()[0]
        results._database.execute(f"PRAGMA max_page_count = {pages + 5}")
        with pytest.raises(ArenaError) as full:
            for number in range(400):
                results.add_all([game(slot(number))])
        assert str(full.value) == (
            f"cannot write {path}: database or disk is full; finished games are kept"
        )
        kept = len(results.finished())
        assert 0 < kept < 400
        results._database.execute("PRAGMA max_page_count = 100000")  # Somebody has made room.
        results.add_all([game(slot(kept))])
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
    (folder / "r.lock").unlink()
    with closing(sqlite3.connect(path)) as database:  # As a copy without its log would be.
        database.execute("PRAGMA journal_mode = WAL")
    with read_only(folder):
        with Results.read(path) as results:
            assert len(list(results.games())) == 2
        with pytest.raises(ArenaError, match="cannot write .*: Permission denied"):
            Results.open(path)
        with pytest.raises(ArenaError, match="cannot write .*: Permission denied"):
            begin(folder / "new")
    assert check_whole(path) == [0, 1]


def test_a_log_that_cannot_be_read_is_not_left_out(folder: Path) -> None:
    with running(WRITER, folder / "r") as child:
        assert child.stdout is not None
        child.stdout.readline()  # The first game is written.
        killed_after(0, child)
    (folder / "r-shm").unlink()
    with read_only(folder), pytest.raises(ArenaError, match="copy it, with its -wal file"):
        Results.read(folder / "r")
    assert check_whole(folder / "r")


# Files that are no results files, or not sound ones


def refusals(path: Path) -> list[str]:
    """What is said by whoever opens the file, to write and to read."""
    said = []
    for way in (Results.open, Results.read):
        with pytest.raises(ArenaError) as refused, way(path) as results:
            results.schedule()
            list(results.games())
        assert str(path) in str(refused.value)
        assert str(refused.value).isprintable()
        said.append(str(refused.value))
    return said


def altered(path: Path, *statements: str) -> Path:
    """A file of two games that a stranger has altered."""
    with closing(sqlite3.connect(filled(path, 2))) as database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        database.execute("PRAGMA writable_schema = ON")
        database.executescript(";".join(statements))
    return path


def test_no_such_file_and_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "r"
    assert all("No such file" in said for said in refusals(path))
    assert all("is not a file" in said for said in refusals(tmp_path))
    assert list(tmp_path.iterdir()) == []
    path.write_text("number,seed\n" * 1000)
    assert all("file is not a database" in said for said in refusals(path))
    path.write_bytes(b"")
    assert all("is empty" in said for said in refusals(path))
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE games (number)")
    theirs = path.read_bytes()
    assert all("of another application" in said for said in refusals(path))
    with pytest.raises(ArenaError, match="exists"):
        begin(path)
    assert path.read_bytes() == theirs


def test_a_newer_schema(tmp_path: Path) -> None:
    newer = SCHEMA_VERSION + 1
    for said in refusals(altered(tmp_path / "r", f"PRAGMA user_version = {newer}")):
        assert said.endswith(
            f"written with results schema {newer}; this arena ({__version__}) reads "
            f"{SCHEMA_VERSION}; use the version of arena that wrote it"
        )


def test_a_truncated_file(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole", 100).read_bytes()
    path = tmp_path / "r"
    for size in (50, 1000, 4096, len(whole) // 2, len(whole) - 4096, len(whole) - 1):
        path.write_bytes(whole[:size])
        for said in refusals(path):
            assert "is damaged" in said or "file is not a database" in said


def test_flipped_bytes_raise_nothing_else(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole", 20).read_bytes()
    path, rng, refused = tmp_path / "r", random.Random(3), 0
    for _ in range(40):
        spoilt = bytearray(whole)
        for _ in range(20):
            spoilt[rng.randrange(len(whole))] = rng.randrange(256)
        path.write_bytes(spoilt)
        for way in (Results.open, Results.read):
            try:
                with way(path) as results:
                    list(results.games())
            except ArenaError as error:
                refused += str(path) in str(error) and str(error).isprintable()
            Path(f"{path}-wal").unlink(missing_ok=True)
            Path(f"{path}-shm").unlink(missing_ok=True)
    assert refused > 20


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE players SET spec = 'bot' || char(27) || '[2J' WHERE id = 1", "places.spec"),
        ("UPDATE players SET spec = CAST(x'ff' AS TEXT) WHERE id = 1", "damaged"),
        ("UPDATE schedule SET role = 'king'", "schedule"),
        ("UPDATE schedule SET seat = 3", "no seat 3"),
        ("UPDATE schedule SET seed = 'x'", "schedule.seed"),
        ("DELETE FROM schedule WHERE number = 1", "are missing"),
        ("DELETE FROM places WHERE seat = 1", "lacks seat 1"),
        ("DELETE FROM places WHERE number = 0", "has no players"),
        ("DELETE FROM seats WHERE seat = 2", "are missing"),
        ("UPDATE seats SET returns = 9e999", "seats.returns"),
        ("UPDATE games SET turns = -1", "games.turns"),
        ("UPDATE games SET reason = x'00'", "games.reason"),
        ("DROP TABLE shares", "no such table"),
        ("ALTER TABLE games RENAME COLUMN turns TO t", "no such column"),
        ("DROP TABLE seats; CREATE VIEW seats AS SELECT 1", "more than tables"),
        (
            "CREATE TRIGGER t AFTER INSERT ON games BEGIN DELETE FROM schedule; END",
            "more than tables",
        ),
    ],
)
def test_what_a_stranger_wrote_is_checked(statement: str, told: str, tmp_path: Path) -> None:
    for said in refusals(altered(tmp_path / "r", statement)):
        assert told in said


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE experiment SET options = '[1]'", "experiment.options"),
        ("UPDATE experiment SET settings = '" + "[" * 9999 + "'", "experiment.settings"),
        ("UPDATE experiment SET created = 'now'", "experiment.created"),
        ("DELETE FROM experiment", "0 rows"),
    ],
)
def test_a_strangers_experiment_is_checked(statement: str, told: str, tmp_path: Path) -> None:
    path = altered(tmp_path / "r", statement)
    with Results.read(path) as results, pytest.raises(ArenaError, match=told):
        _ = results.experiment
