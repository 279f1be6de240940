"""A real third-party package: installed, found, played, checked; and what happens to bad ones."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from preloaded import python_command

from arena.cli import run
from arena.core.errors import ArenaError, PluginWarning, UsageError
from arena.episodes.match import Match
from arena.plugins import catalog as plugins
from arena.plugins.catalog import Catalog, catalog

PLUGIN = Path(__file__).parents[1] / "plugin"


SCRIPT = """
import sys
from arena import make_game
from arena.cli import run
from arena.testing import check_game
check_game(make_game("nim", heaps=4))
for command in sys.argv[1:]:
    assert run(command.split()) == 0, command
    print(end="\\0")
"""
EVALUATE = (
    "eval nim --option heaps=4 --games 10 --seed 1 --executor local --player bot:perfect "
    "--baseline bot:random --against bot:random --out"
)


def test_an_installed_plugin_is_checked_listed_played_and_measured(tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--target", str(site), str(PLUGIN)], check=True)
    commands = (
        "list games --json",
        "play nim --seat 0=bot:perfect --option heaps=4 --games 5 --json",
        f"{EVALUATE} runs --json",
        f"{EVALUATE} again",
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [*python_command(), "-c", SCRIPT, *commands],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), root])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    listed, played, evaluated, _, _ = done.stdout.split("\0")
    games = {game["name"]: game for game in json.loads(listed)["games"]}
    assert games["nim"]["bots"] == ["perfect", "random", "easy"]
    assert len(json.loads(played)["games"]) == 5
    assert len(json.loads(evaluated)["players"]) == 2


def filled_with(monkeypatch: pytest.MonkeyPatch, **functions: object) -> Catalog:
    """A catalog filled as if these `register` functions were installed."""

    class Fake(EntryPoint):
        def load(self) -> object:
            return functions[self.name]

    entries = [Fake(name, f"{name}:register", "arena") for name in functions]
    monkeypatch.setattr(plugins, "entry_points", lambda group: entries)
    return plugins.fill(Catalog())


def test_a_plugin_that_claims_a_taken_name_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def register(catalog: Catalog) -> None:
        catalog.add("game", "other", "other:Other")
        catalog.add("game", "cluedo", "other:Cluedo")

    with pytest.warns(PluginWarning, match="'thief' .*two plugins claim the game 'cluedo': games"):
        found = filled_with(monkeypatch, thief=register)
    assert "other" not in found.names("game")
    assert [e.plugin for e in found.entries("game") if e.name == "cluedo"] == ["games"]


@pytest.mark.parametrize("name", ["quitter", "games"])
@pytest.mark.parametrize(
    "error", [SystemExit("bad day"), RecursionError("bad day"), OSError("bad day"),
              UsageError("bad day"), RuntimeError("bad day")], ids=repr,
)  # fmt: skip
def test_a_plugin_that_fails_is_a_warning_that_names_it(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, name: str
) -> None:
    """Also one that is called like a bundled one; nothing that it has added is left."""

    def register(catalog: Catalog) -> None:
        catalog.add("game", "half", "half:Half")
        raise error

    with pytest.warns(PluginWarning, match=f"plugin '{name}' .*is left out: .*bad day"):
        found = filled_with(monkeypatch, **{name: register})
    assert "half" not in found.names("game") and "cluedo" in found.names("game")


def test_an_interrupt_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def register(catalog: Catalog) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        filled_with(monkeypatch, slow=register)


def test_bundled_packages_register_without_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    found = filled_with(monkeypatch)  # A warning would be an error here.
    plugins_of = {entry.plugin for kind in found.entries_by_kind() for entry in found.entries(kind)}
    assert plugins_of == {"arena", "backends", "games", "trainers"}


@pytest.mark.parametrize("source", ["raise SystemExit(3)", "1 / 0", "Other = None"])
def test_a_game_that_cannot_be_imported_is_an_error_of_arena(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    (tmp_path / "broken_game.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_game", raising=False)
    found = Catalog()
    found.add("game", "broken", "broken_game:Game")
    with pytest.raises(ArenaError, match=r"game 'broken' of arena \(broken_game:Game\) cannot be"):
        found.load("game", "broken")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("Game = 3", r"game 'broken' of odd \(odd_game:Game\) is 3, not a subclass of Game"),
        ("class Game: pass", "is <class 'odd_game.Game'>, not a subclass of Game"),
        ("from arena.core.game import Game", "cannot be made: TypeError.*abstract"),
        (
            "from games.tictactoe.game import TicTacToe\n"
            "class Game(TicTacToe):\n    def __init__(self): raise SystemExit(3)",
            r"cannot be made: SystemExit\(3\)",
        ),
    ],
)
def test_what_is_no_game_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: str,
    message: str,
) -> None:
    (tmp_path / "odd_game.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "odd_game", raising=False)
    found = filled_with(monkeypatch, odd=lambda c: c.add("game", "broken", "odd_game:Game"))
    monkeypatch.setattr(plugins, "catalog", lambda: found)
    with pytest.raises(ArenaError, match=message):
        plugins.make_game("broken")
    assert run(["play", "broken"]) == 1
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("target", [None, 3, dict, "no_colon"])
def test_a_target_that_is_none_leaves_the_plugin_out(
    monkeypatch: pytest.MonkeyPatch, target: Any
) -> None:
    with pytest.warns(PluginWarning, match="'odd' .* is not a text .module:attribute."):
        found = filled_with(monkeypatch, odd=lambda catalog: catalog.add("game", "broken", target))
    assert "broken" not in found.names("game") and "tictactoe" in found.names("game")


@pytest.mark.parametrize("source", ["Bot = 3", "def Bot(seat): raise SystemExit(3)"])
def test_an_agent_that_cannot_be_made_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    (tmp_path / "odd_bot.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "odd_bot", raising=False)
    before = catalog().entries_by_kind()
    catalog().add("bot", "tictactoe/odd", "odd_bot:Bot")
    try:
        with pytest.raises(ArenaError, match="seat 0: 'bot:odd' cannot be made"):
            Match(plugins.make_game("tictactoe"), ["bot:odd"] * 2).seat()
    finally:
        catalog().restore(before)


def test_games_are_listed_beside_one_that_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def register(catalog: Catalog) -> None:
        catalog.add("game", "far", "nowhere_to_be_found.rules:Far")

    found = filled_with(monkeypatch, remote=register)
    monkeypatch.setattr(plugins, "catalog", lambda: found)
    assert run(["list", "games", "--json"]) == 0
    printed = capsys.readouterr()
    assert "cluedo" in {game["name"] for game in json.loads(printed.out)["games"]}
    assert printed.err.startswith("warning: game 'far' of remote needs the package")
    assert run(["list", "games", "far"]) == 1
    assert capsys.readouterr().err.startswith("arena: game 'far' of remote")


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="no game 'kuhn'; did you mean 'kuhn_poker'"):
        catalog().load("game", "kuhn")


GAME_FILE = """
from games.tictactoe.game import TicTacToe

class Noughts(TicTacToe):
    name = "noughts"
"""
PLAYED = shlex.split("--seat 0=bot:random --seat 1=bot:random --seed 1 --no-watch")
MEASURED = shlex.split("--player bot:random --against bot:random --games 3 --workers 2")


def test_a_game_in_one_file_is_played_measured_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(plugins.GAME_FILES, "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = catalog().entries_by_kind()
    (tmp_path / "noughts.py").write_text(GAME_FILE)
    try:
        assert run(["play", "./noughts.py", *PLAYED]) == 0
        # Worker processes import the file too.
        assert run(["eval", "./noughts.py", *MEASURED]) == 0
    finally:
        catalog().restore(before)
    assert "ARENA_GAME_FILES=" in capsys.readouterr().out
    # Another process, which has the variable, also with a path from the working folder.
    monkeypatch.setenv(plugins.GAME_FILES, "noughts.py")
    again = plugins.fill(Catalog())
    assert again.load("game", "noughts").name == "noughts"
    catalog().restore(again.entries_by_kind())
    assert plugins.load_game_file(tmp_path / "noughts.py") == "noughts"
    catalog().restore(before)
    for name, text, fault in (
        ("missing", None, "there is no such file"),
        ("json", GAME_FILE, "there is another module 'json'; rename the file"),
        ("several", f"{GAME_FILE}class B(TicTacToe):\n    name = 'b'\n", "found: noughts, b"),
        ("broken", "1 / 0", "division by zero"),
    ):
        path = tmp_path / f"{name}.py"
        if text:
            path.write_text(text)
        with pytest.raises(ArenaError, match=fault):
            plugins.load_game_file(path)
        catalog().restore(before)
