"""The documentation works: the blocks of each page are run in order, in a folder of their own.

A block with a title is saved under that name; `bash` and `python` blocks are run; `shell` blocks
show commands that need a key, a GPU or more time, and are only parsed (test_commands.py). The
output in `console` blocks is that of their commands.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from code_blocks import ROOT, Block, blocks, outputs
from command_line import ENVIRONMENT
from preloaded import arena_command, python_command

RUNNABLE = ("bash", "python")
FEW_SCORED = {"ARENA_EVAL_SCORED": "2", "ARENA_TOURNAMENT_SCORED": "2"}
"""Two games are scored with the exact posterior, which takes most of the time. Tests of the
commands score more."""
PAGES = [
    path
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if any(block.language in RUNNABLE for block in blocks(path))
]
SHOWN = [
    path
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if any(outputs(path))
    # Hours; a server, which does not end; a loss, whose last digits depend on the machine.
    and path.stem not in ("deduce", "hosts-and-servers", "training")
]


def run(block: Block, folder: Path, programs: Path, few_scored: bool = True) -> str:
    """Run a block in the folder, where `programs` come first, and return its output.

    Raises AssertionError if it fails.
    """
    # `pip install .` stays in the folder, and takes nothing from an index.
    pip = {
        "PIP_TARGET": str(folder / "site"),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this value as "no isolation".
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    interpreter = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": [*python_command(), "-c"]}
    done = subprocess.run(
        [*interpreter[block.language], block.code],
        cwd=folder,
        env={
            **ENVIRONMENT,
            **pip,
            **(FEW_SCORED if few_scored else {}),
            "PATH": os.pathsep.join(
                [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder / "site")]),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{block.code}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command `arena`, whose imports are done."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "arena").write_text(f'#!/bin/sh\nexec {shlex.join(arena_command())} "$@"\n')
    (folder / "arena").chmod(0o755)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_blocks_run(page: Path, tmp_path: Path, programs: Path) -> None:
    for block in blocks(page):
        if block.file:
            (tmp_path / block.file).write_text(block.code, encoding="utf-8")
        elif block.language in RUNNABLE:
            run(block, tmp_path, programs)


@pytest.mark.parametrize("page", SHOWN, ids=lambda path: path.stem)
def test_output_is_as_shown(page: Path, tmp_path: Path, programs: Path) -> None:
    """What stands below each command is in its output, in this order; `…` stands for the rest."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    for command, shown in outputs(page):
        printed = run(Block("bash", None, command), tmp_path, programs, few_scored=False)
        # Lines are wrapped elsewhere, and rules are as wide as the table.
        left = "".join(printed.split())
        for text in filter(str.strip, re.split("[…\n─]", shown)):
            _, found, left = left.partition("".join(text.split()))
            assert found, f"{command}: no {text!r} at its place in\n{printed}"
