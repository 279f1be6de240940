"""Benchmark suites and submissions: what is fixed, what is checked, what forgeries meet."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from small_benchmark import SECRET, a_suite, bench, submit, suite_json, task, write_suite

from arena.core.analysis import WeightedSum
from arena.core.errors import ArenaError, UsageError
from arena.core.seeds import stream
from arena.episodes.files import replay_text
from arena.episodes.job import sha256
from arena.episodes.match import Match, play
from arena.episodes.replay import read_replay
from arena.evaluation.analysis import episode_of
from arena.evaluation.benchmark import (
    BASELINE,
    BETTER,
    SubmissionCard,
    Suite,
    bundled_suites,
    card_markdown,
    commitment,
    find_suite,
    read_model,
    read_suite,
    reveal,
)
from arena.evaluation.benchmark.power import deals_needed, power
from arena.evaluation.benchmark.standings import make_standings, notable_games
from arena.evaluation.benchmark.submission import (
    PlayedDeal,
    ahead_of_baseline,
    make_card,
    measure_changes,
    read_submission,
    read_task,
    usage_of,
)
from arena.evaluation.benchmark.verification import contradicts
from arena.evaluation.records import GameResult, SeatResult, Slot
from arena.evaluation.scoring import measure_game
from arena.evaluation.statistics.ratings import share_ahead
from arena.evaluation.store import Results

PLAYER = "bot:detective"
TABLES = ("shares", "seats", "games")
PUBLISHED = {
    "clue-bench 1": "03c3b28a385abe4c",
    "hidden-info-8 1": "698494de86f7dc66",
    "deception 1": "128cba2877981ad0",
    "mini 1": "66d67ddd00df66bc",
    "hidden-info-8-plus 1": "f27c01fc50d039fa",
    "mini-plus 1": "cf38d991e1300334",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a suite and two submissions to it."""
    folder = tmp_path_factory.mktemp("benchmark")
    suite = write_suite(folder / "small.json")
    submit(suite, PLAYER, folder / "detective")
    submit(suite, BASELINE, folder / "baseline", "--name", "the baseline")
    return folder


@pytest.fixture
def copy(home: Path, tmp_path: Path) -> Path:
    """A copy of a submission, to be forged."""
    return Path(shutil.copytree(home / "detective", tmp_path / "copy"))


def verify(folder: Path, home: Path) -> int:
    return bench("verify", folder, "--suite", home / "small.json", "--executor", "local")


# Suites


def test_bundled_suites_are_complete_and_fix_their_deals() -> None:
    names = {suite.label for suite in bundled_suites()}
    assert {"mini 1", "clue-bench 1", "hidden-info-8 1"} <= names
    for suite in bundled_suites():
        seeds = {slot.seed for each in suite.tasks for slot in suite.schedule(each, "bot:x")}
        # Each deal occurs once, with its two games: those of player and baseline.
        assert len(seeds) == sum(each.deals for each in suite.tasks)
        assert suite.version + 1 in suite.commitments and suite.version + 1 in suite.beacons


def test_a_later_version_differs_only_in_its_deals() -> None:
    versions = {(suite.name, suite.version): suite for suite in bundled_suites()}
    changed = {"version", "secret", "beacon", "commitments", "beacons"}
    for suite in versions.values():
        before = versions.get((suite.name, suite.version - 1))
        if before is not None:
            assert suite.model_dump(exclude=changed) == before.model_dump(exclude=changed)
            assert suite.commitments[suite.version] == before.commitments[suite.version]
            assert suite.beacons[suite.version] == before.beacons[suite.version]


def test_bundled_suites_have_not_changed() -> None:
    """A change of a published suite would make all submissions to it worthless: add a version."""
    hashes = {suite.label: suite.sha256[:16] for suite in bundled_suites()}
    assert hashes == PUBLISHED


def test_the_hash_depends_on_the_content_and_not_on_the_layout(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(suite_json(), indent=7, sort_keys=True))
    assert read_suite(path).sha256 == a_suite().sha256
    assert a_suite(about="Another sentence.").sha256 != a_suite().sha256
    assert a_suite().seed(a_suite().tasks[0]) != a_suite(name="other").seed(a_suite().tasks[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"secret": "0" * 64}, "commitment"),
        ({"tasks": []}, "at least 1"),
        ({"tasks": [task("a", 3, 2), task("a", 3, 2)]}, "one id"),
        ({"tasks": [task("../up", 3, 2)]}, "id"),
        ({"tasks": [task("a", 3, 10**9)]}, "deals"),
        ({"more": 1}, "more"),
        ({"format": 2}, "format"),
        ({"beacon": "cd" * 32}, "if, and only if, an earlier one has named it"),
        ({"beacons": {"1": "a lottery"}}, "if, and only if, an earlier one has named it"),
    ],
)
def test_a_wrong_suite_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps({**suite_json(), **change}))
    with pytest.raises(ArenaError, match=words):
        read_suite(path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nonsense", "hidden-info-8, hidden-info-8-plus, mini, mini-plus"),
        ("mini@2", "not revealed yet"),
        ("mini@77", "no such version"),
    ],
)
def test_an_unknown_suite_or_version_is_named(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        find_suite(name)
    assert find_suite("mini@1") == find_suite("mini")


BEACON, NEXT_SECRET = "cd" * 32, "ef" * 32


def next_version(**more: Any) -> Suite:
    hashes = {"1": commitment("small", 1, SECRET), "2": commitment("small", 2, NEXT_SECRET)}
    suite = a_suite(commitments=hashes, beacons={"2": "hash of block 1000"})
    values = {"secret": NEXT_SECRET, "beacon": BEACON, "next_secret": "12" * 32} | more
    return reveal(suite, next_beacon="hash of block 2000", **values)


def test_the_deals_of_the_next_version_need_secret_and_beacon() -> None:
    suite, first = next_version(), a_suite()
    assert (suite.version, suite.tasks) == (2, first.tasks)
    assert suite.commitments[3] == commitment("small", 3, "12" * 32)
    assert suite.beacons == {2: "hash of block 1000", 3: "hash of block 2000"}
    other = next_version(beacon="00" * 32)
    seeds = [each.seed(each.tasks[0]) for each in (first, suite, other)]
    assert len(set(seeds)) == 3
    # As the guide states it.
    text = f"{NEXT_SECRET}/{BEACON}/small/2/two"
    assert seeds[1] == int(hashlib.sha256(text.encode()).hexdigest(), 16) % 2**53
    with pytest.raises(UsageError, match="has committed itself to"):
        next_version(secret="00" * 32)
    with pytest.raises(UsageError, match="beacon: "):
        next_version(beacon="12345")


def test_reveal_writes_the_next_version_and_keeps_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hashes = {"1": commitment("small", 1, SECRET), "2": commitment("small", 2, NEXT_SECRET)}
    first = write_suite(
        tmp_path / "small.json", commitments=hashes, beacons={"2": "hash of block 1000"}
    )
    words = (first, NEXT_SECRET, BEACON, "--next-beacon", "hash of block 2000", "--out", tmp_path)
    assert bench("reveal", *words) == 0
    suite, kept = read_suite(tmp_path / "small-2.json"), tmp_path / "small-3.secret"
    secret = kept.read_text().strip()
    assert suite.commitments[3] == commitment("small", 3, secret)
    assert (
        kept.stat().st_mode & 0o077 == 0 and secret not in (tmp_path / "small-2.json").read_text()
    )
    # Nothing is written over a secret that is needed later.
    assert bench("reveal", *words) == 2
    assert "exists" in capsys.readouterr().err and kept.read_text().strip() == secret


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([*Suite.model_fields, "tasks.0"]), VALUES)
def test_any_file_is_a_suite_or_one_clear_error(tmp_path: Path, name: str, value: Any) -> None:
    fields = suite_json()
    if name == "tasks.0":
        fields["tasks"][0] = value
    else:
        fields[name] = value
    path = tmp_path / "any.json"
    path.write_text(json.dumps(fields))
    try:
        assert isinstance(read_suite(path), Suite)
    except ArenaError as error:
        assert "\n" not in str(error)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_a_card_or_one_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "card.json"
    path.write_bytes(content)
    with pytest.raises(ArenaError, match=r"is not a model card"):
        read_model(path, SubmissionCard, "model card")


# Submissions


def test_a_submission_is_verified(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(home / "detective", home) == 0
    assert "10 games" in capsys.readouterr().out
    assert verify(home / "baseline", home) == 0


def test_the_card_says_who_played_what(home: Path) -> None:
    card = read_submission(home / "detective", read_suite(home / "small.json")).card
    assert (card.player, card.suite, card.suite_version) == (PLAYER, "small", 1)
    assert [each.deals for each in card.tasks] == [3, 2]
    assert card.usage.games == 5 and card.usage.replies == 0
    text = (home / "detective" / "README.md").read_text()
    assert text == card_markdown(card) and "| two | duel | 3 |" in text
    hostile = card.model_copy(update={"name": "a|b <script> [x](y)"})
    assert "<script>" not in card_markdown(hostile)


def edit_card(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "card.json"
    card = json.loads(path.read_text())
    change(card)
    path.write_text(json.dumps(card))


def edit_results(folder: Path, *statements: str, name: str = "two") -> None:
    with closing(sqlite3.connect(folder / name / "results.sqlite")) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def first_replay(folder: Path) -> Path:
    return folder / "two" / "replays" / "game000000.jsonl"


def other_opponent(folder: Path) -> None:
    """Replace a game by one with a weaker opponent that bears the name of the suite's."""
    path = first_replay(folder)
    replay = read_replay(path)
    weaker = tuple(spec if spec == PLAYER else "bot:random" for spec in replay.header.players)
    match = Match(replay.make_game(), weaker, replay.header.seed)
    text = replay_text(asyncio.run(play(match))).replace("bot:random", "bot:novice", 1)
    path.write_text(text)
    edit_results(folder, f"UPDATE games SET sha256 = '{sha256(path)}' WHERE number = 0")


def changed_move(folder: Path) -> None:
    path = first_replay(folder)
    lines = path.read_text().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if '"suggest ' in line)
    weapon = "Dagger" if "Rope" in lines[number] else "Rope"
    lines[number] = re.sub(r", [A-Z][\w ]*, ", f", {weapon}, ", lines[number], count=1)
    path.write_text("".join(lines))
    edit_results(folder, f"UPDATE games SET sha256 = '{sha256(path)}' WHERE number = 0")


def cut_off(folder: Path) -> None:
    path = folder / "two" / "results.sqlite"
    path.write_bytes(path.read_bytes()[:-5000])


def other_suite(folder: Path) -> None:
    path = folder / "suite.json"
    path.write_text(path.read_text().replace('"deals": 3', '"deals": 2'))


FORGERIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing replay": (lambda f: first_replay(f).unlink(), "is missing"),
    "changed replay": (lambda f: first_replay(f).write_text("{}"), "changed after the game"),
    "changed move": (changed_move, "game 0: "),
    "other opponent": (other_opponent, "bot:novice in seat"),
    "result": (
        lambda f: edit_results(f, "UPDATE seats SET returns = 1 - returns, won = 1 - won"),
        "card.json: tasks.0",
    ),
    "measure": (
        lambda f: edit_results(
            f,
            "UPDATE shares SET total = total + 1 WHERE number = 2 AND measure <> 'decisions:own'",
        ),
        "stored measure",
    ),
    "turns": (
        lambda f: edit_results(f, "UPDATE games SET turns = 3 WHERE number = 1"),
        "stored turns 3",
    ),
    "impossible return": (
        lambda f: edit_results(f, "UPDATE seats SET returns = 1e9 WHERE number = 0"),
        "not on the declared scale",
    ),
    "replay elsewhere": (
        lambda f: edit_results(f, "UPDATE games SET replay = '../../../etc/passwd'"),
        "it has no replay",
    ),
    "fewer games": (
        lambda f: edit_results(f, *(f"DELETE FROM {t} WHERE number = 5" for t in TABLES)),
        "5 of 6 games were played",
    ),
    "other deals": (
        lambda f: edit_results(f, "UPDATE schedule SET seed = seed + 1"),
        "its games are not those of task two",
    ),
    "no results": (lambda f: shutil.rmtree(f / "three"), "cannot read"),
    "cut off": (cut_off, "is damaged"),
    "other suite": (other_suite, "is not the published"),
    "no suite": (lambda f: (f / "suite.json").unlink(), "cannot read"),
    "no card": (lambda f: (f / "card.json").unlink(), "the run is not finished"),
    "card of another": (
        lambda f: edit_card(f, lambda card: card.update(player="bot:oracle")),
        "with player bot:oracle",
    ),
    "boast": (
        lambda f: edit_card(f, lambda card: card["tasks"][0]["result"].update(value=1.0)),
        "tasks.0.result.value differs",
    ),
    "card of another suite": (
        lambda f: edit_card(f, lambda card: card.update(suite_version=2)),
        "for another suite",
    ),
    "text level": (
        lambda f: edit_card(f, lambda card: card.update(text_level="deductions")),
        "text_level is",
    ),
    "chat": (
        lambda f: edit_card(f, lambda card: card.update(chat={"max_attempts": 3})),
        "asked in another way",
    ),
    "card without end": (lambda f: (f / "card.json").write_text('{"format": 1,'), "not a model"),
}


def edited_line(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


FORGERIES |= {
    "extra table": (
        lambda f: edit_results(f, "CREATE TABLE notes (text TEXT)"),
        "notes is not a table of this format",
    ),
    "extra column": (
        lambda f: edit_results(f, "ALTER TABLE games ADD COLUMN quality REAL"),
        "games is not a table of this format",
    ),
    "extra file": (lambda f: (f / "two" / "notes.txt").write_text("x"), "writes this file"),
    "link": (lambda f: (f / "two" / "more").symlink_to("/etc"), "writes this file"),
    "edited text": (
        lambda f: edited_line(f, "README.md", "- Date", "- Best player of all. Date"),
        "it is not the text of card.json",
    ),
    "no text": (lambda f: (f / "README.md").unlink(), "it is not the text of card.json"),
    "made before the games": (
        lambda f: edit_card(f, lambda card: card.update(created="2020-01-01T00:00:00Z")),
        "it was made before two was begun",
    ),
    "made in the future": (
        lambda f: edit_card(f, lambda card: card.update(created="2999-01-01T00:00:00Z")),
        "in the future",
    ),
    "another version": (
        lambda f: edit_card(f, lambda card: card.update(arena="99.0")),
        "was begun with arena",
    ),
    "game of another time": (
        lambda f: forge_replays(f, lambda line: _set(line, "header", created="2020-01-01T00:00Z")),
        "not between the run's begin and its card",
    ),
    "game of another version": (
        lambda f: forge_replays(f, lambda line: _set(line, "header", arena="99.0")),
        "arena '99.0' instead of",
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_folder_gives_one_clear_error(
    forgery: str, home: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forge, words = FORGERIES[forgery]
    forge(copy)
    assert verify(copy, home) == 1
    message = capsys.readouterr().err
    assert words in message and message.count("\n") == 1


# Forgeries of models' games: the forger adapts hashes, measures and card to what it changes.


def _set(line: dict[str, Any], kind: str, **fields: Any) -> None:
    if line["type"] == kind:
        line.update(fields)


def forge_replays(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change lines of all replays, and make results and card agree with them."""
    suite = read_suite(folder / "suite.json")
    for each in suite.tasks:
        path = folder / each.id / "results.sqlite"
        with Results.read(path) as results:
            games = list(results.games())
        for game in games:
            replay = folder / each.id / (game.replay or "")
            lines = [json.loads(line) for line in replay.read_text().splitlines()]
            for line in lines:
                change(line)
            replay.write_text("".join(json.dumps(line) + "\n" for line in lines))
            number, digest = game.slot.number, sha256(replay)
            statement = f"UPDATE games SET sha256 = '{digest}' WHERE number = {number}"
            edit_results(folder, statement, name=each.id)
            episode = episode_of(read_replay(replay))
            measured = measure_game(game.slot, each.make_game(), episode, game.scored, 0.0)
            with Results.open(path) as results:
                results.rescore(measured)
    write_forged_card(folder, suite)


def write_forged_card(folder: Path, suite: Suite, **fields: Any) -> None:
    old = read_model(folder / "card.json", SubmissionCard, "model card")
    old = old.model_copy(update=fields)
    tasks = [read_task(folder, suite, each, old.player) for each in suite.tasks]
    card = make_card(suite, tasks, old.player, old.name, old.text_level)
    (folder / "card.json").write_text(card.model_dump_json())
    (folder / "README.md").write_text(card_markdown(card))


def _in_attempts(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Path], None]:
    """Return a forgery of the attempts of all decisions."""

    def change_line(line: dict[str, Any]) -> None:
        if line.get("details", {}).get("attempts"):
            change(line["details"]["attempts"])

    return lambda folder: forge_replays(folder, change_line)


def _other_prompt(attempts: list[dict[str, Any]]) -> None:
    attempts[-1]["messages"][-1]["content"] += " Hint: it was Plum."


def _other_level(folder: Path) -> None:
    for name in ("two", "three"):
        level = "json_replace(settings, '$.text_level', 'events')"
        edit_results(folder, f"UPDATE experiment SET settings = {level}", name=name)
    edit_card(folder, lambda card: card.update(text_level="events"))
    forge_replays(folder, lambda line: _set(line, "header", text_level="events"))


def _other_spec(folder: Path) -> None:
    suite, spec = read_suite(folder / "suite.json"), "openai:gpt-5"
    old = json.loads((folder / "card.json").read_text())["player"]

    def rename(line: dict[str, Any]) -> None:
        if line["type"] == "header":
            line["players"] = [spec if each == old else each for each in line["players"]]

    for name in ("two", "three"):
        edit_results(
            folder,
            f"UPDATE players SET spec = '{spec}' WHERE spec = '{old}'",
            f"UPDATE experiment SET settings = json_replace(settings, '$.player', '{spec}')",
            name=name,
        )
    edit_card(folder, lambda card: card.update(player=spec, name=spec))
    forge_replays(folder, rename)
    write_forged_card(folder, suite, player=spec, name=spec)


def _fewer_tokens(folder: Path) -> None:
    suite = read_suite(folder / "suite.json")
    for name in ("two", "three"):
        statement = "UPDATE shares SET total = 1 WHERE measure = 'prompt_tokens'"
        edit_results(folder, statement, name=name)
    write_forged_card(folder, suite)


MODEL_FORGERIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "more attempts": (
        _in_attempts(lambda attempts: attempts.extend([attempts[-1]] * 17)),
        "attempts is ",
    ),
    "help that the level does not give": (_other_level, "attempts.0.messages.1.content is"),
    "another prompt": (_in_attempts(_other_prompt), "messages"),
    "deleted prompts and replies": (
        _in_attempts(lambda attempts: attempts.clear()),
        "whether this move was a fallback",
    ),
    "another reply": (
        _in_attempts(lambda attempts: attempts[-1].update(reply="I accuse Plum.")),
        "game 0: ",
    ),
    "a failure that was none": (
        _in_attempts(lambda attempts: attempts[0].pop("failure", None)),
        "attempts.0",
    ),
    "other sampling": (
        _in_attempts(lambda attempts: attempts[0].update(sampling={"temperature": 0.1})),
        "attempts.0.sampling",
    ),
    "another model": (_other_spec, "openai:gpt-5 did not give these replies"),
    "fewer tokens": (_fewer_tokens, "stored measure 'prompt_tokens'"),
}


@pytest.fixture(scope="module")
def model_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a suite and the submission of a model, with legal and other replies."""
    folder = tmp_path_factory.mktemp("model")
    suite = write_suite(
        folder / "small.json", task("two", 2, 2, max_turns=4), task("three", 3, 2, max_turns=4)
    )
    script = folder / "replies.json"
    script.write_text(json.dumps(["end turn", "nonsense", "nothing", "end turn"] * 60))
    words = ("--set", "max_fallbacks=0", "--text-level", "deductions")
    submit(suite, f"scripted:{script}", folder / "model", *words)
    return folder


def test_the_games_of_a_model_are_verified(
    model_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(model_home / "model", model_home) == 0
    assert "Not proven: " in capsys.readouterr().out
    card = read_model(model_home / "model" / "card.json", SubmissionCard, "model card")
    assert card.usage.answered == (card.player,)


@pytest.mark.parametrize("forgery", MODEL_FORGERIES)
def test_a_forged_game_of_a_model_is_refused(
    forgery: str, model_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(model_home / "model", tmp_path / "copy"))
    forge, words = MODEL_FORGERIES[forgery]
    forge(copy)
    assert verify(copy, model_home) == 1
    message = capsys.readouterr().err
    assert words in message and message.count("\n") == 1


@pytest.mark.parametrize(
    ("spec", "answered", "refused"),
    [
        ("openai:gpt-4o-mini", "gpt-4o-mini-2024-07-18", False),
        ("openai:gpt-5", "gpt-4o-mini", True),
        ("anthropic:claude-sonnet-4-latest", "claude-sonnet-4-20250514", False),
        ("gemini:gemini-flash-latest", "gemini-2.5-flash", False),
        ("openrouter:openai/gpt-4o-mini:free", "openai/gpt-4o-mini", False),
        ("openrouter:openrouter/auto", "mistralai/mistral-large", False),
        ("azure:my-deployment", "gpt-4o", False),
        ("http://localhost:8000/v1#tuned", "qwen3-8b", False),
        ("embedded:clue-tiny", "clue-tiny", False),
        ("embedded:other", "clue-tiny", True),
    ],
)
def test_the_name_in_the_replies_fits_the_spec(spec: str, answered: str, refused: bool) -> None:
    assert contradicts(spec, answered) is refused


def test_a_folder_of_an_unknown_suite_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("verify", home / "detective") == 1
    assert "name the suite's file with --suite" in capsys.readouterr().err
    assert bench("verify", home / "nowhere") == 1
    assert "there is no such folder" in capsys.readouterr().err


# Stopping


def test_a_task_stops_at_its_target_and_is_verified(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "stop.json", task("stop", 2, 40, target=0.4))
    folder = submit(suite, BASELINE, tmp_path / "run")
    submission = read_submission(folder, read_suite(suite))
    deals = submission.card.tasks[0].deals
    assert 2 <= deals < 40 and submission.card.tasks[0].any_time
    # Games that are cancelled at the target leave their beginnings.
    (folder / "stop/replays/game000039.jsonl.part").write_text("{}")
    assert bench("verify", folder, "--suite", suite, "--executor", "local") == 0
    # The interval is the sequence's, which allows for the stop.
    interval = submission.tasks[0].report.sequential
    assert (
        interval is not None and (interval.estimate.high or 1) - (interval.estimate.low or 0) < 0.8
    )


# Changes of talk


def test_two_submissions_are_compared_by_deal(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {"game": "liars_dice", "options": {"dice": 1}, "against": ["bot:counter"]}
    duel = {**task("dice", 2, 12), **fields, "skill": "deception", "baseline": "bot:reader"}
    suite = write_suite(tmp_path / "talk.json", duel, name="talk")
    folders = [submit(suite, spec, tmp_path / spec[4:]) for spec in ("bot:random", "bot:counter")]
    capsys.readouterr()
    assert bench("compare", *folders, "--suite", suite, "--json") == 0
    changes = json.loads(capsys.readouterr().out)["changes"]
    lies = next(each for each in changes if each["measure"] == "lies")
    # A bot that draws bids what its own die excludes; a counter bids by its die.
    assert lies["task"] == "dice" and lies["n"] >= 6 and lies["high"] < 0
    assert bench("compare", *folders, "--suite", suite) == 0
    assert "Change from bot:random to bot:counter, paired by deal" in capsys.readouterr().out
    one, two = (read_submission(folder, read_suite(suite)) for folder in folders)
    results = two.tasks[0].results[:-8]
    shorter = replace(two, tasks=[replace(two.tasks[0], results=results)])
    for pair in ((one, shorter), (shorter, one)):
        common = {name: change.n for _, name, change in measure_changes(*pair)}
        assert 0 < common["lies"] <= 8
    own = ("--suite", home / "small.json")
    assert bench("compare", home / "detective", home / "baseline", *own) == 2
    assert "no games with talk" in capsys.readouterr().err


def test_the_usage_of_a_team_is_that_of_all_its_seats(home: Path) -> None:
    played = read_submission(home / "detective", read_suite(home / "small.json")).tasks[0]
    games = [result for result in played.results if result.slot.role == "player"]
    teams = [
        replace(game, seats=tuple(replace(seat, player="x", fallbacks=1) for seat in game.seats))
        for game in games
    ]
    usage = usage_of([replace(played, results=teams)])
    assert usage.fallbacks == 2 * len(games) and usage.decisions > usage_of([played]).decisions
    assert usage.decisions == sum(game.decisions for game in games)


# Scores and power


def test_the_next_score_decides_between_games_with_equal_returns() -> None:
    scores = ["return", "efficiency_early"]
    each = a_suite(task("a", 3, 2, scores=scores)).tasks[0]

    def game(returns: float, measured: float | None) -> GameResult:
        sums = {} if measured is None else {"efficiency_early": WeightedSum(measured * 4, 4)}
        seats = (SeatResult("x", returns, returns > 0, measurements=sums),)
        slot = Slot(0, 1, ("x",), "player", 0)
        return GameResult(slot, "terminated", "", 1, 1, 0.0, seats)

    ordered = [game(0, None), game(0, 0.2), game(0, 0.7), game(1, 0.1)]
    assert sorted(ordered, key=each.rank) == ordered
    deals = [PlayedDeal(1, one, other, each).ahead for one, other in pairwise(ordered)]
    assert deals == [0, 0, 0] and PlayedDeal(1, ordered[1], ordered[1], each).ahead == 0.5
    lower = a_suite(task("a", 3, 2, game="leduc_poker", options={}, scores=["value_lost"]))
    assert lower.tasks[0].rank(game(1, None)) == (-math.inf,)


@given(st.sampled_from([0.6, 0.75, 0.9]), st.sampled_from([20, 60]))
@settings(max_examples=4, deadline=None)
def test_power_is_the_probability_of_the_interval(share: float, deals: int) -> None:
    # With a large pilot the shares are known, so that the binomial distribution is exact.
    pilot = np.repeat([1.0, 0.0], [round(20_000 * share), round(20_000 * (1 - share))])
    exact = sum(
        binom.pmf(wins, deals, share)
        for wins in range(deals + 1)
        if share_ahead(list(enumerate([1.0] * wins + [0.0] * (deals - wins)))).low > 0.5
    )
    assert power(pilot, deals) == pytest.approx(exact, abs=0.05)
    # A small pilot leaves doubt, and equal players are rarely shown ahead.
    assert power(np.array([1.0] * 6 + [0.0] * 4), 400) < 0.9
    assert power(np.array([1.0, 0.0] * 10_000), deals) < 0.06


def test_the_deals_for_95_percent_are_enough_for_the_interval() -> None:
    always = np.ones(100)
    needed = deals_needed(always)
    assert needed == 4 and power(always, 4) == 1 and power(always, 3) == 0
    assert deals_needed(1 - always) is None


def test_a_known_order_is_shown_or_the_exit_code_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = [["bot:perfect", "bot:random"]]
    more = {"game": "tictactoe", "options": {}, "against": ["bot:random"], "deals": 60}
    words = ("--executor", "local", "--deals", "60", "--json")
    right = task("right", 2, 60) | more | {"known": known, "baseline": "bot:random"}
    assert bench("power", write_suite(tmp_path / "right.json", right), *words) == 0
    order = json.loads(capsys.readouterr().out)["orders"][0]
    assert order["power"] > 0.95 and order["needed"] < 60 and order["ahead"]["low"] > 0.5
    wrong = right | {"known": [known[0][::-1]]}
    assert bench("power", write_suite(tmp_path / "wrong.json", wrong), *words) == 1
    order = json.loads(capsys.readouterr().out)["orders"][0]
    assert order["power"] == 0 and order["needed"] is None
    assert bench("power", write_suite(tmp_path / "none.json"), *words) == 2
    assert "no players whose order is known" in capsys.readouterr().err
    suite = read_suite(tmp_path / "right.json")
    assert suite.tasks[0].player_of(BETTER) == "bot:perfect"
    with pytest.raises(UsageError, match="known to be better"):
        a_suite().tasks[0].player_of(BETTER)


# Standings


def test_the_better_player_leads_whatever_the_order(home: Path) -> None:
    suite = read_suite(home / "small.json")
    found = [read_submission(home / name, suite) for name in ("baseline", "detective")]
    standings, other = make_standings(found), make_standings(found[::-1])
    assert [entry.label for entry in standings.entries] == [PLAYER, "the baseline"]
    assert [e.label for e in other.entries] == [e.label for e in standings.entries]
    assert standings.anchor == "the baseline"
    first, second = standings.entries
    assert second.rating.value == 1500 and (first.rating.value or 0) > 1500
    # The baseline has no score against itself.
    assert second.ahead.value is None and (first.ahead.value or 0) > 0.5
    # Where it is the baseline of some tasks only, their deals count half.
    mixed = ahead_of_baseline([found[0].tasks[0], found[1].tasks[1]])
    alone = ahead_of_baseline([found[1].tasks[1]])
    assert mixed.n == 5 and mixed.value == pytest.approx((1.5 + 2 * (alone.value or 0)) / 5)
    assert list(first.skills) == ["duel", "deduction"]
    pairs = {(pair.first, pair.second): pair for pair in standings.pairs}
    pair = pairs[PLAYER, "the baseline"]
    assert pair.games == 5 and pair.ahead.value == pytest.approx(first.ahead.value)
    assert {game.kind for game in notable_games(found[1])} == {"best", "worst"}


def test_equal_names_are_told_apart_and_suites_are_not_mixed(home: Path, tmp_path: Path) -> None:
    one = read_submission(home / "detective", read_suite(home / "small.json"))
    labels = [entry.label for entry in make_standings([one, one]).entries]
    assert sorted(labels) == [PLAYER, f"{PLAYER} (2)"]
    suite = write_suite(tmp_path / "other.json", task("two", 2, 2), name="other")
    other = read_submission(submit(suite, PLAYER, tmp_path / "run"), read_suite(suite))
    with pytest.raises(ArenaError, match="one version of one suite"):
        make_standings([one, other])


def test_the_commitment_binds_name_version_and_secret() -> None:
    rng = stream(1, "secrets")
    secret = f"{rng.getrandbits(256):064x}"
    hashes = {
        commitment(name, version, each)
        for name in ("a", "b")
        for version in (1, 2)
        for each in (secret, SECRET)
    }
    assert len(hashes) == 8
