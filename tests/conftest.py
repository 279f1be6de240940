"""Fixtures that several files of tests share."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_line import ONE_WORKER
from comparisons import compare, pytest_addoption, pytest_terminal_summary  # noqa: F401

if TYPE_CHECKING:
    from arena_server import Server
    from playwright.sync_api import Browser
    from served_games import Served


# What needs no torch in the folders of the tests of models and of training.
WITHOUT_TORCH = ("litellm_backend", "thinking_models", "verifiers")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave models and training out where torch is not installed."""
    if find_spec("torch") is not None or collection_path.parent.name not in (
        "backends",
        "trainers",
    ):
        return None
    return collection_path.stem.removeprefix("test_") not in WITHOUT_TORCH


def pytest_configure() -> None:
    """Give the examples of Hypothesis no deadline: how fast a machine is says nothing about code.

    Environments of single extras lack Hypothesis. Games with people and clients do not wait, except
    in the tests of release times.

    Under `nohup` the signal of a closed terminal is ignored, and would be in all commands that the
    tests start. If a function ignores it instead, commands have its default.
    """
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)
    for name, value in {"ARENA_AGENT": '{"drawn_seconds": 0}', **ONE_WORKER}.items():
        os.environ.setdefault(name, value)
    if find_spec("hypothesis") is not None:
        from hypothesis import settings

        settings.register_profile("arena", deadline=None)
        settings.load_profile("arena")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """Fork the workers from a process that has imported the packages: once, not in each."""
    from preloaded import python_command

    for spec in specs:
        spec.python = shlex.join(python_command())


def pytest_collection_finish() -> None:
    """Let the garbage collector search only what tests make, and after more allocations.

    Searching the imported modules again and again, half a million objects, takes a tenth of the
    time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test of the browser, before its fixtures, where none can be driven."""
    if item.get_closest_marker("browser"):
        from browsing import missing

        if reason := missing():
            pytest.skip(reason)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """With the matrices of a tiny model, threads would only wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A folder of games and its server. Games are played before a browser has an event loop."""
    from served_games import serving_games

    with serving_games(tmp_path_factory.mktemp("replays")) as games:
        yield games


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    from browsing import browsing

    with browsing() as started:
        yield started


@pytest.fixture(scope="module")
def server(started: list[subprocess.Popen[str]]) -> Server:
    """The first process of `arena serve` that the file has `started`."""
    from arena_server import greeted

    return greeted(started[0])


@pytest.fixture(scope="module")
def narrow(started: list[subprocess.Popen[str]]) -> Server:
    """The second one: it has a key and narrow bounds."""
    from arena_server import greeted

    return greeted(started[1])


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    import openai

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        yield client
