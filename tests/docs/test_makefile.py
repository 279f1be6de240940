"""The Makefile, with a stand-in for Python and pip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = f"""#!{sys.executable}
import pathlib, shutil, sys

if sys.argv[1:3] == ["-m", "venv"]:
    folder = pathlib.Path(sys.argv[3], "bin")
    folder.mkdir(parents=True)
    shutil.copy(__file__, folder / "python")
elif sys.argv[1:3] == ["-m", "pip"] and "--quiet" not in sys.argv:
    print("Downloading torch (200 MB)")
"""
"""Makes an environment that holds only itself; its pip reports one download, unless it is quiet."""


@pytest.mark.parametrize(
    "target", ["venv", "build/venv-connectors/.ready", "build/venv-art/.ready"]
)
def test_an_environment_is_filled_with_progress(target: str, tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text(PYTHON)
    python.chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "constraints-art.txt"):
        (tmp_path / name).symlink_to(ROOT / name)
    done = subprocess.run(
        ["make", target, f"PYTHON={python}"],
        cwd=tmp_path,
        # Below `make test`, make would print the folders that it enters.
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Downloading torch (200 MB)" in done.stdout
    if target == "venv":
        first, *_ = done.stdout.splitlines()[1:]
        assert first.startswith("Filling .venv: minutes at the first time")
