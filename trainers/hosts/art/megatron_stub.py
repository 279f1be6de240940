"""A stub of the package megatron, active only while ART imports it.

ART 0.5.18's local backend imports its Megatron trainer when a model is registered, even if another
trainer is used, and the extra with Megatron cannot be installed from the package index. The names
are looked up but never used, so any class will do.
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


def import_model_config() -> None:
    """Import the part of ART that needs megatron, with the stub if it is not installed."""
    if find_spec(PACKAGE) is not None:
        return
    with _installed_stub():
        import_module("art.dev.get_model_config")


@contextmanager
def _installed_stub() -> Iterator[None]:
    """Make `megatron` and any module below it importable, with a class under any name.

    Afterwards it is removed completely, so other code does not take megatron for installed.
    """
    finder = _StubFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_below(name)]:
            # Modules that ART has imported keep their references to the stub's classes.
            del sys.modules[name]


def _is_below(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


class _StubModule(ModuleType):
    """Module that has a class under any name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []  # Makes it a package, which can have submodules.

    def __getattr__(self, name: str) -> type:
        # Python itself looks up such names, and must find that they are missing.
        if name.startswith("__"):
            raise AttributeError(name)
        return _StubClass(name, (), {"__module__": self.__name__})


class _StubClass(type):
    """Metaclass with a decorator under any name; ART registers its own classes with some."""

    def __getattr__(cls, name: str) -> Callable[..., Callable[[T], T]]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_args, **_keywords: lambda decorated: decorated


class _StubFinder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if _is_below(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StubModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the attributes are made when they are read."""
