"""The embedded backend: SPECs, what a completion holds, and one sampler for all who share it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_model import build_tiny_model

from arena import catalog
from arena.core.errors import BackendError, ContextOverflow, MissingDependency, UsageError
from arena.core.version import __version__
from arena.llm.backend import Backend, Completion, Message, Request, Sampling
from arena.llm.settings import Settings
from backends.embedded import SharedSamplerBackend, embedded, find_checkpoint

CHAT = (Message("system", "You play Cluedo."), Message("user", "It is your turn."))
REQUEST = Request(CHAT, Sampling(max_tokens=5, seed=1), logprobs=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture
def backend(folder: Path) -> Iterator[SharedSamplerBackend]:
    made = SharedSamplerBackend(folder)
    yield made
    asyncio.run(made.close())


def complete(backend: Backend, request: Request) -> Completion:
    return asyncio.run(backend.complete(request))


def test_a_completion_holds_all_that_the_sampler_knows(backend: SharedSamplerBackend) -> None:
    done = complete(backend, REQUEST)
    assert done.model == "tiny"
    assert done.engine == f"tiny [arena {__version__}, float32, cpu]"
    assert done.cost == 0.0
    assert list(done.prompt_token_ids) == backend.sampler.encode(CHAT)
    assert done.usage.prompt_tokens == len(done.prompt_token_ids)
    assert done.usage.cached_tokens == 0
    [choice] = done.choices
    assert done.usage.completion_tokens == len(choice.tokens) <= 5
    assert choice.text == "".join(token.text for token in choice.tokens)
    assert all(token.logprob <= 0 and token.sampled_logprob is not None for token in choice.tokens)
    assert choice.finish_reason == ("length" if len(choice.tokens) == 5 else "stop")


def test_tokens_come_only_when_asked_for(backend: SharedSamplerBackend) -> None:
    with_tokens = complete(backend, REQUEST)
    without = complete(backend, replace(REQUEST, logprobs=False))
    assert without.choices[0].tokens == ()
    assert without.text == with_tokens.text


def test_faults_are_backend_errors(backend: SharedSamplerBackend) -> None:
    with pytest.raises(BackendError) as caught:
        complete(backend, replace(REQUEST, guided_json={"type": "nonsense"}))
    assert caught.value.cause == "bad_request"
    with pytest.raises(BackendError, match="n=0"):
        complete(backend, replace(REQUEST, sampling=Sampling(n=0)))
    with pytest.raises(ContextOverflow):
        complete(backend, replace(REQUEST, messages=(Message("user", "rope " * 3000),)))


def test_all_who_name_a_folder_share_its_sampler(folder: Path) -> None:
    one, two = SharedSamplerBackend(folder), SharedSamplerBackend(folder)
    assert one.sampler is two.sampler

    async def play() -> None:
        await one.close()
        await one.close()  # A second time it is not the other's turn to leave.
        await two.complete(REQUEST)
        await two.close()
        with pytest.raises(BackendError, match="stopped"):
            await two.complete(REQUEST)

    asyncio.run(play())
    three = SharedSamplerBackend(folder)
    assert three.sampler is not one.sampler
    asyncio.run(three.close())


def test_the_catalog_knows_it_and_a_path_may_be_named_in_two_ways(folder: Path) -> None:
    factory = catalog().load("backend", "embedded")
    one, two = factory(str(folder), Settings.load()), factory(f"{folder}/../tiny", Settings.load())
    assert one.sampler is two.sampler
    for made in (one, two):
        asyncio.run(made.close())


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    for name in ("clue-huge", str(tmp_path), "../embedded"):
        with pytest.raises(UsageError, match="embedded:"):
            find_checkpoint(name)


def test_a_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependency, match=r"torch.*pip install .*\[embedded\]'"):
        embedded(str(folder), Settings.load())
