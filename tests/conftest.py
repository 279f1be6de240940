"""Fixtures that several files of tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from served_games import Served


@pytest.fixture
def one_thread() -> Iterator[None]:
    """With the matrices of a tiny model, threads would only wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
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
