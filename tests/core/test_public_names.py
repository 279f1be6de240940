"""`arena` is the only public import: its names are there, in whatever order they are asked for."""

from __future__ import annotations

import random
import subprocess
import sys
from inspect import ismodule

import pytest

import arena


@pytest.mark.parametrize("seed", range(4))
def test_every_name_is_what_it_says(seed: int) -> None:
    names = [name for name in arena.__all__ if name != "__version__"]
    random.Random(seed).shuffle(names)
    code = (
        "import arena; from inspect import ismodule\n"
        f"for name in {names!r}: assert not ismodule(getattr(arena, name)), name\n"
        "from arena import *"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_name_of_a_module_is_a_name_of_the_package() -> None:
    assert not any(ismodule(getattr(arena, name)) for name in arena.__all__)
    assert set(arena.__all__) <= set(dir(arena))
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        arena.Nonsense  # type: ignore[attr-defined]  # noqa: B018
