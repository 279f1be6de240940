"""Replays: what is written can be read, verified, and distrusted."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import subprocess
import sys
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arena.core.errors import ArenaError, ReplayError
from arena.core.game import State
from arena.core.text import shorten
from arena.episodes.files import ReplayWriter, is_written
from arena.episodes.match import Match, play
from arena.episodes.record import LINE, SCHEMA_VERSION, Header
from arena.episodes.replay import Replay, read_replay, verify
from arena.evaluation.analysis import find_files
from arena.plugins.catalog import make_game

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "replay.schema.json"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished game of novices, who make mistakes."""
    game = make_game("cluedo", variant="classic", players=3)
    writer = ReplayWriter(tmp_path_factory.mktemp("replays"), "game")
    specs = ["bot:novice", "bot:random", "bot:detective"]
    asyncio.run(play(Match(game, specs, 5), Match(game, specs, 5).seat(), watchers=[writer]))
    return writer.path


def rewritten(recorded: Path, tmp_path: Path, number: int, **changes: object) -> Path:
    """The replay with fields of line `number` changed."""
    lines = recorded.read_text(encoding="utf-8").splitlines()
    lines[number] = json.dumps({**json.loads(lines[number]), **changes})
    path = tmp_path / "changed.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def line_of(recorded: Path, kind: str, **fields: object) -> int:
    for number, text in enumerate(recorded.read_text(encoding="utf-8").splitlines()):
        line = json.loads(text)
        if line["type"] == kind and all(line.get(k) == v for k, v in fields.items()):
            return number
    raise AssertionError(f"no such line: {kind} {fields}")


def test_the_published_schema_is_the_one_in_force(recorded: Path) -> None:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    assert schema == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"One line of an arena replay, schema version {SCHEMA_VERSION}",
        **LINE.json_schema(mode="serialization"),
    }
    validator = jsonschema.Draft202012Validator(schema)
    for text in recorded.read_text(encoding="utf-8").splitlines():
        validator.validate(json.loads(text))


def test_a_half_written_replay_opens_up_to_its_last_whole_line(
    recorded: Path, tmp_path: Path
) -> None:
    data = recorded.read_bytes()
    path = tmp_path / "half.jsonl"
    line = data.index(b"\n", len(data) // 2) + 1
    path.write_bytes(data[: line + 10])
    replay = read_replay(path)
    assert replay.notice is not None and "cut off" in replay.notice
    assert 0 < len(replay.moves) < len(read_replay(recorded).moves)
    assert verify(replay) is None


def test_what_editors_change_at_the_ends_of_a_file_costs_nothing(
    recorded: Path, tmp_path: Path
) -> None:
    whole, path = recorded.read_bytes(), tmp_path / "edited.jsonl"
    for edited in (BOM_UTF8 + whole, whole + b"\n", whole[:-1], whole.replace(b"\n", b"\r\n")):
        path.write_bytes(edited)
        replay = read_replay(path)
        assert replay.outcome == read_replay(recorded).outcome and replay.notice is None
        assert verify(replay) is None
    path.write_bytes(whole.replace(b"\n", b"\n\n", 2))
    with pytest.raises(ReplayError, match="line 2"):
        read_replay(path)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_whatever_is_broken_gives_a_clear_error_or_a_notice(
    recorded: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """Cut, overwrite or insert bytes anywhere: never another exception, never a silent pass."""
    whole = recorded.read_bytes()
    start = data.draw(st.integers(0, len(whole) - 1))
    length = data.draw(st.integers(0, 50))
    inserted = data.draw(st.binary(max_size=20))
    path = tmp_path / "broken.jsonl"
    path.write_bytes(whole[:start] + inserted + whole[start + length :])
    try:
        verify(read_replay(path))
    except ReplayError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("kind", "which", "changes", "said"),
    [
        ("event", {"event": "Unable"}, {"players": [0]}, "the rules give.*Unable"),
        ("header", {}, {"seed": 6}, "the seed draws"),
        ("decision", {"action": "end turn"}, {"action": "End"}, "written 'End' for 'end turn'"),
        ("decision", {"player": 0}, {"action": "show Rope"}, "ply 2: .* not allowed now"),
        ("chance", {}, {"action": "deal Rope | Rope"}, "is not a possible result of chance"),
        ("outcome", {}, {"winner": 1}, "^outcome: winner"),
        ("outcome", {}, {"returns": [0.5, 0.5, 0.5]}, "^outcome: returns"),
        ("outcome", {}, {"turns": 3}, "^outcome: turns"),
        ("outcome", {}, {"decisions": 1}, "^outcome: decisions"),
        ("outcome", {}, {"status": "truncated"}, "^outcome: status"),
        ("outcome", {}, {"reason": "luck"}, "^outcome: reason"),
    ],
)
def test_a_changed_line_is_named(
    recorded: Path,
    tmp_path: Path,
    kind: str,
    which: dict[str, object],
    changes: dict[str, object],
    said: str,
) -> None:
    path = rewritten(recorded, tmp_path, line_of(recorded, kind, **which), **changes)
    try:
        difference = verify(read_replay(path))
    except ReplayError as error:
        difference = str(error)
    assert difference is not None and re.search(said, difference)


def lines_of(recorded: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in recorded.read_text(encoding="utf-8").splitlines()]


def written(tmp_path: Path, lines: list[dict[str, Any]]) -> Replay:
    path = tmp_path / "forged.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return read_replay(path)


@pytest.mark.parametrize("at", ["last", "first"])
def test_a_surplus_event_is_noticed(recorded: Path, tmp_path: Path, at: str) -> None:
    """After the last ply as well as between two plies; also if it repeats a genuine one."""
    lines = lines_of(recorded)
    events = [number for number, line in enumerate(lines) if line["type"] == "event"]
    number = events[-1] if at == "last" else next(n for n in events if n + 1 not in events)
    lines.insert(number + 1, lines[number])
    difference = verify(written(tmp_path, lines))
    assert difference is not None
    if at == "last":
        assert f"an event '{lines[number]['event']}' that the rules do not give" in difference
    else:
        assert "the rules give" in difference


@pytest.mark.parametrize("limit", [None, 100])
def test_a_game_that_stopped_early_is_not_truncated(
    recorded: Path, tmp_path: Path, limit: int | None
) -> None:
    """Without a limit, or before it, only the rules end a game."""
    lines = lines_of(recorded)
    turns = [n for n, line in enumerate(lines) if line.get("event") == "TurnBegan"]
    kept = lines[: turns[3] + 1]
    decisions = sum(line["type"] == "decision" for line in kept)
    outcome = lines[-1] | {
        "status": "truncated",
        "reason": f"stopped after {limit} turns",
        "returns": [0.0, 0.0, 0.0],
        "winner": None,
        "turns": 4,
        "decisions": decisions,
    }
    kept[0]["max_turns"] = limit
    difference = verify(written(tmp_path, [*kept, outcome]))
    assert difference == "the replay ends at turn 4, where the game goes on"


@pytest.mark.parametrize("over", [0, 1])
def test_one_turn_over_the_limit_is_noticed(tmp_path: Path, over: int) -> None:
    """A genuine game with a limit of 4 turns, whose header is made to say one turn less."""
    match = Match(make_game("cluedo", players=3), ["bot:random"] * 3, 1, max_turns=4)
    writer = ReplayWriter(tmp_path, "game")
    asyncio.run(play(match, watchers=[writer]))
    lines, limit = lines_of(writer.path), 4 - over
    assert lines[-1]["status"] == "truncated" and lines[-1]["turns"] == 4
    lines[0]["max_turns"] = limit
    lines[-1] |= {"turns": limit, "reason": f"stopped after {limit} turns"}
    difference = verify(written(tmp_path, lines))
    if not over:
        assert difference is None
        return
    begins = next(line["ply"] for line in lines if line.get("turn") == 4)
    assert difference is not None and difference.startswith(f"ply {begins + 2} ")
    assert difference.endswith("a move after the limit of 3 turns")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty, not a replay"),
        ("hello\n", "line 1 is not JSON"),
        ('{"type":"event"}\n', "not a replay header"),
        ("[" * 100_000 + "\n", "this is not a replay"),
        ("[1,2]\n", "not a replay header"),
        ('{"type":"header","schema_version":99}\n', "schema 99; this arena .* reads schema 1"),
        ('{"type":"header","schema_version":1,"game":"cluedo"}\n', "line 1: options"),
    ],
)
def test_what_is_no_replay(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReplayError, match=message):
        read_replay(path)


@pytest.mark.parametrize("number", [2, 7])
def test_a_damaged_line_is_named_by_its_number(recorded: Path, tmp_path: Path, number: int) -> None:
    lines = recorded.read_text(encoding="utf-8").splitlines(keepends=True)
    path = tmp_path / "damaged.jsonl"
    path.write_text("".join([*lines[: number - 1], "{}\n", *lines[number:]]), encoding="utf-8")
    with pytest.raises(ReplayError, match=f"damaged.jsonl: line {number}: "):
        read_replay(path)


def test_other_faults(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="No such file"):
        read_replay(tmp_path / "missing.jsonl")
    with pytest.raises(ReplayError, match="there is no game 'chess'"):
        verify(read_replay(rewritten(recorded, tmp_path, 0, game="chess")))
    with pytest.raises(ReplayError, match="9 players in a game for 3"):
        verify(read_replay(rewritten(recorded, tmp_path, 0, players=["bot:novice"] * 9)))
    with pytest.raises(ReplayError, match=r"players\.0"):
        verify(read_replay(rewritten(recorded, tmp_path, 0, players=["\x1b[2J", "a", "b"])))
    for option in ("name", "self"):
        with pytest.raises(ReplayError, match=f"has no option '{option}'"):
            verify(read_replay(rewritten(recorded, tmp_path, 0, options={option: 1})))
    with pytest.raises(ReplayError, match="players=99"):
        verify(read_replay(rewritten(recorded, tmp_path, 0, options={"players": 99})))
    whole = recorded.read_bytes()
    (tmp_path / "more.jsonl").write_bytes(whole + whole.splitlines(keepends=True)[-1])
    with pytest.raises(ReplayError, match="a line after the outcome"):
        read_replay(tmp_path / "more.jsonl")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ({"type": "x" * 10**6}, "line"),
        ({"type": "chance", "ply": 0, "action": "x" * 10**6}, "is not a possible result of chance"),
        (
            {"type": "chance", "ply": 0, "action": "deal", "\x1b[2J" + "x" * 10**6: 1},
            "no such field",
        ),
    ],
)
def test_what_is_quoted_is_short_and_clean(
    recorded: Path, tmp_path: Path, line: dict[str, object], fault: str
) -> None:
    lines = recorded.read_text(encoding="utf-8").splitlines()
    path = tmp_path / "long.jsonl"
    path.write_text(f"{lines[0]}\n{json.dumps(line)}\n", encoding="utf-8")
    with pytest.raises(ReplayError, match=fault) as raised:
        verify(read_replay(path))
    assert len(str(raised.value)) < len(str(path)) + 400 and "\x1b" not in str(raised.value)


@given(st.text(), st.integers(10, 300))
def test_text_from_outside_is_made_fit_to_show(text: str, most: int) -> None:
    shown = shorten(text, most)
    assert shown.isprintable() and len(shown) == min(len(text), most)
    assert shorten(shown, most) == shown
    if text.isprintable() and len(text) <= most:
        assert shown == text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_never_opened(recorded: Path, tmp_path: Path) -> None:
    """It would be waited for until somebody writes into it."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "pipe.jsonl")
    (tmp_path / "game.jsonl").write_bytes(recorded.read_bytes())
    assert find_files([tmp_path]) == [tmp_path / "game.jsonl"]
    for name in ("pipe.jsonl", "link.jsonl"):
        with pytest.raises(ReplayError, match="not a regular file"):
            read_replay(tmp_path / name)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    class OnFullDisk(ReplayWriter):
        def begin(self, header: Header, state: State) -> None:
            super().begin(header, state)
            self.close()
            self._file = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115

        def close(self) -> None:
            with contextlib.suppress(OSError):
                super().close()

    game = make_game("tictactoe")
    writer = OnFullDisk(tmp_path, "game")
    agents = Match(game, ["bot:random"] * 2, 1).seat()
    with pytest.raises(ArenaError, match="No space left on device; what was written so far"):
        asyncio.run(play(Match(game, (), 1), agents, watchers=[writer]))
    writer.close()
    assert read_replay(writer.path).header.seed == 1


def test_writers_in_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Two that begin at once get names of their own, also if one of them never ends."""
    game = make_game("tictactoe")
    abandoned = ReplayWriter(tmp_path, "game")
    abandoned.begin(Header.of(game, 1, ("a", "b"), None), game.initial_state())
    writer = ReplayWriter(tmp_path, "game")
    asyncio.run(play(Match(game, ["bot:random"] * 2, 1), watchers=[writer]))
    abandoned.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["game-2.jsonl", "game.jsonl.part"]


def test_whether_a_game_is_still_being_written(tmp_path: Path) -> None:
    game = make_game("tictactoe")
    writer = ReplayWriter(tmp_path, "game")
    writer.begin(Header.of(game, 1, ("a", "b"), None), game.initial_state())
    assert is_written(writer.path) is True
    writer.close()
    assert is_written(writer.path) is False
    assert is_written(tmp_path / "gone") is None
    with writer.path.open("rb") as another:  # Who asks at the same moment.
        fcntl.flock(another, fcntl.LOCK_SH)
        assert is_written(writer.path) is False
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, writer.path], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "holding\n"
        assert is_written(writer.path) is True
        holder.kill()
    assert is_written(writer.path) is False


HOLDS = """
import sys, time
from arena.episodes.files import mark_as_written
file = open(sys.argv[1], "a")
mark_as_written(file)
print("holding", flush=True)
time.sleep(60)
"""
