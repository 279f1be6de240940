"""Benchmark suites and submissions: what is fixed and what is checked."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_benchmark import a_suite, bench, submit, suite_json, task, write_suite

from arena.core.analysis import WeightedSum
from arena.core.errors import ArenaError, UsageError
from arena.core.version import __version__
from arena.evaluation.benchmark import (
    BASELINE,
    Suite,
    bundled_suites,
    find_suite,
    read_model,
    read_suite,
)
from arena.evaluation.benchmark.submission import (
    PlayedDeal,
    SubmissionCard,
    read_submission,
    task_reports,
    usage_of,
)
from arena.evaluation.records import GameResult, SeatResult, Slot
from arena.evaluation.report import Report

PLAYER = "bot:detective"
PUBLISHED = {
    "clue-bench 1": "4994c75c25a3",
    "deception 1": "c153d418c5d6",
    "hidden-info-8 1": "28e4a1ff3d43",
    "hidden-info-8-plus 1": "1b41bbf79763",
    "mini 1": "0ddcbc1946c8",
    "mini-plus 1": "1e9d46872526",
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


def verify(folder: Path) -> int:
    return bench("verify", folder, "--executor", "local")


# Suites


def test_bundled_suites_are_complete_and_fix_their_deals() -> None:
    names = {suite.label for suite in bundled_suites()}
    assert {"mini 1", "clue-bench 1", "hidden-info-8 1"} <= names
    for suite in bundled_suites():
        seeds = {slot.seed for each in suite.tasks for slot in each.schedule("bot:x")}
        # Each deal occurs once, with its two games: those of player and baseline.
        assert len(seeds) == sum(each.deals for each in suite.tasks)


def test_bundled_suites_have_not_changed() -> None:
    """A change of a suite would make all submissions to it worthless: add a version."""
    contents = {suite.label: suite.model_dump_json().encode() for suite in bundled_suites()}
    hashes = {label: hashlib.sha256(text).hexdigest()[:12] for label, text in contents.items()}
    assert hashes == PUBLISHED


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tasks": []}, "at least 1"),
        ({"tasks": [task("a", 3, 2), task("a", 3, 2)]}, "one id"),
        ({"tasks": [task("../up", 3, 2)]}, "id"),
        ({"tasks": [task("a", 3, 10**9)]}, "deals"),
        ({"more": 1}, "more"),
        ({"format": 2}, "format"),
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
        ("mini@77", "no such version"),
    ],
)
def test_an_unknown_suite_or_version_is_named(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        find_suite(name)
    assert find_suite("mini@1") == find_suite("mini")


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
    assert verify(home / "detective") == 0
    assert "10 games" in capsys.readouterr().out
    assert verify(home / "baseline") == 0


def test_the_card_says_who_played_what(home: Path) -> None:
    card = read_submission(home / "detective").card
    assert (card.player, card.suite, card.suite_version) == (PLAYER, "small", 1)
    assert [each.deals for each in card.tasks] == [3, 2]
    assert card.usage.games == 5 and card.usage.replies == 0


def edit_card(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "card.json"
    card = json.loads(path.read_text())
    change(card)
    path.write_text(json.dumps(card))


def edit_games(folder: Path, change: Callable[[dict[str, Any]], object], *numbers: int) -> None:
    """Change the stored results of some games of task two; None of all leaves the game out."""
    path = folder / "two" / "games.jsonl"
    games = [json.loads(line) for line in path.read_text().splitlines()]
    for game in games:
        if game["slot"]["number"] in numbers:
            change(game)
    lines = (json.dumps(game, separators=(",", ":")) + "\n" for game in games if game)
    path.write_text("".join(lines))


def first_return(game: dict[str, Any], value: float) -> None:
    game["seats"][0]["returns"] = value


def other_winner(game: dict[str, Any]) -> None:
    for seat in game["seats"]:
        seat.update(returns=1 - seat["returns"], won=not seat["won"])


def more_measured(game: dict[str, Any]) -> None:
    for seat in game["seats"]:
        for name, share in seat["measurements"].items():
            share["total"] *= 1.0 if name == "decisions:own" else 0.9


def measured(game: dict[str, Any], name: str, total: float) -> None:
    game["seats"][0]["measurements"][name] = {"total": total, "weight": 1.0}


def first_replay(folder: Path) -> Path:
    return folder / "two" / "replays" / "game000000.jsonl"


def changed_move(folder: Path) -> None:
    path = first_replay(folder)
    lines = path.read_text().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if '"suggest ' in line)
    weapon = "Dagger" if "Rope" in lines[number] else "Rope"
    lines[number] = re.sub(r", [A-Z][\w ]*, ", f", {weapon}, ", lines[number], count=1)
    path.write_text("".join(lines))


def edited(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def edited_suite(folder: Path, old: str, new: str) -> None:
    path = folder / "suite.json"
    text = json.dumps(json.loads(path.read_text()), separators=(",", ":"))
    path.write_text(text.replace(old, new, 1))


def later_version(folder: Path) -> None:
    edit_card(folder, lambda card: card.update(arena="99.0"))
    for name in ("two", "three"):
        edited(
            folder, f"{name}/run.json", f'"arena":"{__version__}","looks"', '"arena":"99.0","looks"'
        )


def pipe_as_card(folder: Path) -> None:
    (folder / "card.json").unlink()
    os.mkfifo(folder / "card.json")


FORGERIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing replay": (lambda f: first_replay(f).unlink(), "No such file"),
    "damaged replay": (lambda f: first_replay(f).write_text("{}"), "game 0: "),
    "changed move": (changed_move, "game 0: "),
    "result": (
        lambda f: edit_games(f, lambda game: game["seats"].reverse(), *range(6)),
        "its players differ from the schedule",
    ),
    "winner": (
        lambda f: edit_games(f, other_winner, *range(6)),
        "card.json: tasks differs",
    ),
    "measure": (lambda f: edit_games(f, more_measured, 2), "stored measure"),
    "turns": (lambda f: edit_games(f, lambda game: game.update(turns=3), 1), "stored turns 3"),
    "impossible return": (
        lambda f: edit_games(f, lambda game: first_return(game, 1e9), 0),
        "not on the declared scale",
    ),
    "fewer games": (lambda f: edit_games(f, dict.clear, 5), "5 of 6 games were played"),
    "other deals": (
        lambda f: edited(f, "two/run.json", '"schedule":[[', '"schedule":[[9'),
        "its games are not those of task two",
    ),
    "two results of a game": (
        lambda f: edited(f, "two/games.jsonl", '"turns":', '"turns":1,"turns":'),
        "the key 'turns' occurs twice",
    ),
    "no results": (lambda f: shutil.rmtree(f / "three"), "cannot read"),
    "cut off": (lambda f: edited(f, "two/run.json", "]", ""), "two: run.json: "),
    "name of a bundled suite": (
        lambda f: edited_suite(f, '"name":"small"', '"name":"mini"'),
        "is not the mini 1 of this version",
    ),
    "other suite": (
        lambda f: edited_suite(f, '"deals":3', '"deals":2'),
        "its games are not those of task two",
    ),
    "no suite": (lambda f: (f / "suite.json").unlink(), "cannot read"),
    "no card": (lambda f: (f / "card.json").unlink(), "the run is not finished"),
    "card of another": (
        lambda f: edit_card(f, lambda card: card.update(player="bot:oracle")),
        "with player bot:oracle",
    ),
    "boast": (
        lambda f: edit_card(f, lambda card: card["tasks"][0]["result"].update(value=1.0)),
        "tasks differs from the results",
    ),
    "card of another suite": (
        lambda f: edit_card(f, lambda card: card.update(suite_version=2)),
        "for another suite",
    ),
    "text level": (
        lambda f: edit_card(f, lambda card: card.update(text_level="deductions")),
        "text level",
    ),
    "chat": (
        lambda f: edit_card(f, lambda card: card.update(chat={"max_attempts": 3})),
        "chat differs from the results",
    ),
    "negative tokens": (
        lambda f: edit_games(f, lambda game: measured(game, "prompt_tokens", -5.0), 0),
        "total -5.0 of weight 1.0 is outside of 0.0 to inf",
    ),
    "absurd cost": (
        lambda f: edit_games(f, lambda game: measured(game, "cost", 1e9), 0),
        "1e+09 is not from 0 to 10,000",
    ),
    "other version": (
        lambda f: edit_card(f, lambda card: card.update(arena="0.0.1")),
        f"was played by arena {__version__}, and the card is of arena 0.0.1",
    ),
    "other version of a game": (
        lambda f: edited(first_replay(f).parent, "game000001.jsonl", __version__, "0.0.1"),
        "version of arena '0.0.1'",
    ),
    "later version": (later_version, "was played by arena 99.0, which this arena"),
    "key twice": (
        lambda f: edited(f, "card.json", '"name":', '"name":"x","name":'),
        "the key 'name' occurs twice",
    ),
    "card that is a pipe": (
        pipe_as_card,
        "no regular file",
    ),
    "card without end": (lambda f: (f / "card.json").write_text('{"format": 1,'), "not a model"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_folder_gives_one_clear_error(
    forgery: str, home: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forge, words = FORGERIES[forgery]
    forge(copy)
    assert verify(copy) == 1
    message = capsys.readouterr().err
    assert words in message and message.count("\n") == 1


# Stopping


def test_a_task_stops_at_its_target_and_is_verified(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "stop.json", task("stop", 2, 40, target=0.4))
    folder = submit(suite, BASELINE, tmp_path / "run")
    submission = read_submission(folder)
    deals = submission.card.tasks[0].deals
    assert 2 <= deals < 40 and submission.card.tasks[0].any_time
    # Games that are cancelled at the target leave their beginnings.
    (folder / "stop/replays/game000039.jsonl.part").write_text("{}")
    assert bench("verify", folder, "--executor", "local") == 0
    # The interval is the sequence's, which allows for the stop.
    interval = submission.tasks[0].report.sequential
    assert (
        interval is not None and (interval.estimate.high or 1) - (interval.estimate.low or 0) < 0.8
    )


# Comparison


def test_two_submissions_are_compared_by_deal(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {"game": "liars_dice", "options": {"dice": 1}, "against": ["bot:counter"]}
    duel = {**task("dice", 2, 24), **fields, "skill": "deception", "baseline": "bot:reader"}
    suite = write_suite(tmp_path / "talk.json", duel, name="talk")
    folders = [submit(suite, spec, tmp_path / spec[4:]) for spec in ("bot:random", "bot:counter")]
    capsys.readouterr()
    assert bench("compare", *folders, "--json") == 0
    (stored,) = json.loads(capsys.readouterr().out)["reports"]
    report = Report.model_validate(stored)
    assert report.settings == {"task": "dice"} and report.comparison
    # A bot that draws bids what its own die excludes; a counter bids by its die.
    lies = report.comparison.measures["lies"]
    assert lies.n >= 6 and lies.high is not None and lies.high < 0
    assert bench("compare", *folders) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "bot:counter cannot be distinguished from bot:random: +0.42" in shown
    assert "in 24 deals that both played in the same seats" in shown
    one, two = (read_submission(folder) for folder in folders)
    results = two.tasks[0].results[:-32]
    shorter = replace(two, tasks=[replace(two.tasks[0], results=results)])
    for pair in ((one, shorter), (shorter, one)):
        (report,) = task_reports(*pair)
        assert report.comparison and report.comparison.deals == 8
    assert bench("compare", home / "detective", folders[0]) == 2
    assert "is of talk 1, not small 1" in capsys.readouterr().err


def test_the_usage_of_a_team_is_that_of_all_its_seats(home: Path) -> None:
    played = read_submission(home / "detective").tasks[0]
    games = [result for result in played.results if result.slot.role == "player"]
    teams = [
        replace(game, seats=tuple(replace(seat, player="x", fallbacks=1) for seat in game.seats))
        for game in games
    ]
    usage = usage_of([replace(played, results=teams)])
    assert usage.fallbacks == 2 * len(games) and usage.decisions > usage_of([played]).decisions
    assert usage.decisions == sum(game.decisions for game in games)


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
