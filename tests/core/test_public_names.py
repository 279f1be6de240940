"""The public import: its names can be used in any order, and change only on purpose."""

from __future__ import annotations

import inspect
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from inspect import ismodule
from pathlib import Path

import pytest

import arena

SNAPSHOT = Path(__file__).parents[1] / "public_api.txt"


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
    with pytest.raises(AttributeError, match="attribute Nonsense"):
        arena.Nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_names_and_signatures_change_only_on_purpose() -> None:
    described = "".join(f"{line}\n" for name in sorted(arena.__all__) for line in describe(name))
    if "ARENA_WRITE_PUBLIC_API" in os.environ:
        SNAPSHOT.write_text(described, "utf-8")
    assert described == SNAPSHOT.read_text("utf-8"), "if this is meant: ARENA_WRITE_PUBLIC_API=1"


def describe(name: str) -> Iterator[str]:
    """Yield one line for a public name, and one for each public member that its class defines."""
    value = getattr(arena, name)
    if not isinstance(value, type):
        yield f"{name}{signature(value)}" if inspect.isfunction(value) else name
        return
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    yield f"class {name}({bases})" if bases else f"class {name}"
    for member, attribute in sorted(vars(value).items()):
        is_made = member == "__init__" and not getattr(value, "_is_protocol", False)
        # pydantic adds names of its own.
        if is_made or not member.startswith(("_", "model_")):
            yield f"    {name}.{member}{signature(attribute)}"
    for member in sorted(set(inspect.get_annotations(value)) - set(vars(value))):
        if not member.startswith("_"):
            yield f"    {name}.{member}"


def signature(value: object) -> str:
    """Return the parameters of a function with their defaults and types; "" for what is none."""
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if not inspect.isfunction(function):
        return ""
    found = inspect.signature(function)
    parameters = [
        one.replace(annotation=Written(one.annotation)) if isinstance(one.annotation, str) else one
        for one in found.parameters.values()
    ]
    returned = found.return_annotation
    if isinstance(returned, str):
        returned = Written(returned)
    text = str(found.replace(parameters=parameters, return_annotation=returned))
    return re.sub(r"<function (\w+) at \w+>", r"\1", text)


class Written(str):
    """An annotation that is shown as it is written, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
