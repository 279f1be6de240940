"""`arena verifiers package`, as far as it needs nothing of verifiers."""

from __future__ import annotations

import ast
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from arena.cli import run
from arena.core.errors import MissingDependency
from arena.core.version import __version__


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "environments" / "cluedo"
    command = ["verifiers", "package", "cluedo", str(folder), "--players", "4"]
    assert run([*command, "-o", "theme=us", "--seat", "2=bot:oracle", "--seat", "3=model"]) == 0
    assert "vf-eval arena-cluedo" in capsys.readouterr().out
    assert written(folder) == {"pyproject.toml", "README.md", "arena_cluedo/__init__.py"}
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "arena-cluedo"
    assert project["dependencies"] == [f"arena-games[verifiers]>={__version__}"]
    module = ast.parse((folder / "arena_cluedo" / "__init__.py").read_text())
    classes = {each.name: each for each in module.body if isinstance(each, ast.ClassDef)}
    assert list(classes) == ["CluedoTaskset", "CluedoEnvConfig", "CluedoEnv"]
    options = classes["CluedoTaskset"].body[-1]
    assert isinstance(options, ast.AnnAssign) and options.value is not None
    assert ast.literal_eval(options.value) == {"players": 4, "theme": "us"}
    seats = [
        ast.unparse(each.value)
        for each in classes["CluedoEnvConfig"].body
        if isinstance(each, ast.AnnAssign) and each.value is not None
    ]
    assert seats == [
        "SeatConfig()",
        "SeatConfig(player='bot:novice')",
        "SeatConfig(player='bot:oracle')",
        "SeatConfig()",
    ]
    page = (folder / "README.md").read_text()
    assert "| `seat_2` | `bot:oracle` |" in page and "| `entropy_removed` |" in page


def test_a_game_of_a_family_has_a_name_that_python_takes(tmp_path: Path) -> None:
    assert run(["verifiers", "package", "kuhn_poker", str(tmp_path / "kuhn")]) == 0
    module = (tmp_path / "kuhn" / "arena_kuhn_poker" / "__init__.py").read_text()
    assert "class KuhnPokerEnv(GameEnv, vf.Env[KuhnPokerEnvConfig]):" in module


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (["--seat", "0=bot:nobody"], "cluedo has no bot 'nobody'"),
        (["--seat", "0=robot"], "does not name an agent"),
        (["--seat", "0=bot:random"], "no seat has a model"),
        (["--seat", "7=model"], "has seats 0 to 2"),
        (["--players", "99"], "players"),
        (["-o", "colour=red"], "colour"),
    ],
)
def test_faults_write_nothing(
    more: list[str], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new"
    command = ["verifiers", "package", "cluedo", str(folder)]
    seats = [] if "--players" in more else ["--players", "3"]
    assert run([*command, *seats, *more]) == 2
    error = capsys.readouterr().err
    assert fault in error and error.count("\n") == 1
    assert not folder.exists()


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "notes.txt"
    kept.write_text("mine")
    for target in (tmp_path, kept):
        assert run(["verifiers", "package", "kuhn_poker", str(target)]) == 2
        assert "nothing was written" in capsys.readouterr().err
    assert written(tmp_path) == {"notes.txt"} and kept.read_text() == "mine"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run(["verifiers", "package", "kuhn_poker", str(empty)]) == 0


@pytest.mark.skipif(find_spec("verifiers") is not None, reason="verifiers is installed")
def test_the_environment_names_its_extra() -> None:
    with pytest.raises(MissingDependency, match=r"pip install .*\[verifiers\]"):
        import trainers.verifiers.environment  # noqa: F401
