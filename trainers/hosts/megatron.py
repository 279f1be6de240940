"""A stand-in for the package megatron, for the moment in which ART imports it.

ART 0.5.18's local backend imports the handlers of its Megatron trainer when a model is registered,
whichever trainer it uses, and the extra that would bring Megatron cannot be installed from the
package index. The names are only looked up, never used: any class will do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TypeVar

PACKAGE = "megatron"
T = TypeVar("T")


def import_what_needs_megatron() -> None:
    """Import the part of ART that needs megatron; with a stand-in if it is not installed."""
    if find_spec(PACKAGE) is not None:
        return
    with _stand_in():
        import_module("art.dev.get_model_config")


@contextmanager
def _stand_in() -> Iterator[None]:
    """While this lasts, `megatron` and all below it can be imported, and holds any name.

    Afterwards nothing is left of it, so that nobody else takes megatron for installed.
    """
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_below(name)]:
            del sys.modules[name]


def _is_below(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


class _Module(ModuleType):
    """Has a class of any name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []  # A package, so that there can be modules below it.

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {"__module__": self.__name__})


class _Anything(type):
    """A class that has a decorator of any name; ART registers its own classes with some."""

    def __getattr__(cls, name: str) -> Callable[..., Callable[[T], T]]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_args, **_keywords: lambda decorated: decorated


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if _is_below(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""
