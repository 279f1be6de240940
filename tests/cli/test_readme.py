"""What the README claims can be run, runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.S)


def test_the_example_prints_what_a_seat_could_know() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKS[0]],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    bits = [float(line.split()[0]) for line in done.stdout.splitlines()]
    assert bits[0] > 6 and bits[-1] == 0.0


def test_the_game_in_twenty_lines_is_a_game(tmp_path: Path) -> None:
    code = [line for line in BLOCKS[1].splitlines() if line.strip()]
    assert len(code) <= 25
    (tmp_path / "twenty_one.py").write_text(BLOCKS[1], encoding="utf-8")
    check = (
        "from arena import MultiAgentEnv, catalog, make_game; import twenty_one; "
        "from arena.testing.conformance import check_game; "
        "'twenty_one' in catalog().names('game') or twenty_one.register(catalog()); "
        "game = make_game('twenty_one'); check_game(game); MultiAgentEnv(game).reset(seed=1); "
        "from arena import to_pettingzoo; to_pettingzoo(game).reset(seed=1)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", check],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


def test_the_file_tree_names_what_is_there() -> None:
    tree = README.split("## The files")[1].split("```")[1]
    packages = ("arena", "backends", "games", "replays", "trainers")
    for package in packages:
        for path in (ROOT / package).rglob("*.py"):
            if "cli" in path.parts:
                continue
            if not path.name.startswith("__"):
                assert path.name in tree or path.stem in ("version", "errors"), path


@pytest.mark.parametrize("command", re.findall(r"^(arena \w+)", README, flags=re.M))
def test_every_command_exists(command: str) -> None:
    from arena.cli import app

    names = [entry.name for entry in app.registered_commands]
    names += [entry.name for entry in app.registered_groups]
    assert command.split()[1] in names
