"""`arena openenv` without its library: the command line stays light and says what is missing."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from arena.cli import run


@pytest.mark.skipif(find_spec("openenv") is not None, reason="openenv is installed")
def test_a_missing_library_is_named_with_its_extra(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["openenv", "serve", "cluedo"]) == 1
    error = capsys.readouterr().err
    assert "[openenv]'" in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())
