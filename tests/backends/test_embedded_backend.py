"""The embedded backend: SPECs, what a completion holds, and one sampler for all who share it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_model import build_tiny_model

from arena import catalog
from arena.core.errors import BackendError, ContextOverflow, MissingDependency, UsageError
from arena.core.version import __version__
from arena.llm.backend import Backend, Completion, Message, Request, Sampling, traits_of
from arena.llm.settings import Settings
from backends.embedded import SharedSamplerBackend, embedded, find_checkpoint, mixture_weights
from trainers.loop.training import pool_steps

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
    choice = done.choice
    assert done.usage.completion_tokens == len(choice.tokens) <= 5
    assert choice.text == "".join(token.text for token in choice.tokens)
    assert all(token.logprob <= 0 and token.sampled_logprob is not None for token in choice.tokens)
    assert choice.finish_reason == ("length" if len(choice.tokens) == 5 else "stop")


def test_tokens_come_only_when_asked_for(backend: SharedSamplerBackend) -> None:
    with_tokens = complete(backend, REQUEST)
    without = complete(backend, replace(REQUEST, logprobs=False))
    assert without.choice.tokens == ()
    assert without.text == with_tokens.text


def test_faults_are_backend_errors(backend: SharedSamplerBackend) -> None:
    with pytest.raises(BackendError) as caught:
        complete(backend, replace(REQUEST, guided_choice=("",)))
    assert caught.value.cause == "bad_request"
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


# Mixtures over checkpoints


@given(st.integers(1, 200), st.integers(1, 40))
def test_thinning_keeps_the_weight_of_all_steps(newest: int, most: int) -> None:
    kept = [step for step in pool_steps(newest, most) if step] + [newest]
    weights = mixture_weights(set(kept))
    assert sum(weights.values()) == pytest.approx(1)
    every = mixture_weights(range(1, newest + 1))
    # All steps: in proportion to the step.
    assert every[newest] == pytest.approx(newest * every[1])
    before = 0
    for step in weights:
        assert weights[step] == pytest.approx(sum(every[t] for t in range(before + 1, step + 1)))
        before = step


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three checkpoints of a run with different weights, and an incomplete one."""
    folder = tmp_path_factory.mktemp("run") / "checkpoints"
    for step in (2, 4, 5):
        build_tiny_model(folder / f"{step:04d}", seed=step)
        (folder / f"{step:04d}" / "training.json").write_text("{}")
    (folder / ".0006.part").mkdir()
    return folder


def test_a_mixture_answers_with_the_checkpoint_that_is_asked_for(
    checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.embedded.SERVED_BYTES", 0)  # Room for two of three.

    async def go() -> None:
        mixture = embedded(f"{checkpoints}/mixture", Settings())
        assert traits_of(mixture).versions == ((2, 3 / 15), (4, 7 / 15), (5, 5 / 15))
        asked = [replace(REQUEST, policy_version=step) for step in (2, 4, 5) * 4]
        answers = await asyncio.gather(*map(mixture.complete, asked))
        for request, answer in zip(asked, answers, strict=True):
            assert answer.policy_version == request.policy_version
            alone = embedded(f"{checkpoints}/{request.policy_version:04d}", Settings())
            assert (await alone.complete(REQUEST)).choice == answer.choice
            await alone.close()
        assert len({answer.choice for answer in answers}) == 3
        for step in (None, 3):
            with pytest.raises(BackendError, match=r"is none of \[2, 4, 5\]"):
                await mixture.complete(replace(REQUEST, policy_version=step))
        await mixture.close()

    asyncio.run(go())


def test_a_mixture_needs_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no checkpoints; a mixture is that of a run's"):
        embedded(f"{tmp_path}/mixture", Settings())
    with pytest.raises(UsageError, match="neither a bundled model"):
        embedded(f"{tmp_path}/missing/mixture", Settings())
