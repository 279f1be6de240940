"""arena's games as an environment of the trajectory API, with a served model and a queue."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch
from tiny_model import build_tiny_model
from trajectory_servers import SERVERS, Api, each_api, own_api, registration, serving
from transformers import Qwen3ForCausalLM

from arena.cli import stop_as_ctrl_c
from arena.core.errors import ArenaError, StopPlaying, UsageError
from arena.llm.backend import Completion, Request, Token
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.catalog import make_game
from backends.embedded.sampler import Sampler
from backends.openai_http import HTTPBackend
from backends.scripted import ScriptedBackend
from backends.server.app import make_app
from trainers.atropos import environment
from trainers.atropos.client import MASKED, ScoredData, TrainerRegistration, TrajectoryClient
from trainers.atropos.environment import TrajectoryEnvironment
from trainers.atropos.group_player import EQUAL, GroupPlayer
from trainers.atropos.options import EnvironmentOptions
from trainers.atropos.trainer import rollout_counts
from trainers.config.config import TrainConfig
from trainers.rollouts.rollouts import NEWEST

OPTIONS = EnvironmentOptions(
    max_token_length=2000, wandb_name="kuhn", max_num_workers=2, max_batches_offpolicy=1
)


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "POLL_SECONDS", 0.01)


class Typist(ScriptedBackend):
    """Bets or passes at random, with a token for each letter; a prompt is all that was written.

    With `forgets`, each prompt has other tokens than the last one, as of a shortened chat.
    """

    def __init__(self, *, forgets: bool = False) -> None:
        draws = random.Random(1)
        super().__init__(lambda request: draws.choice(("bet", "pass")))
        self.prompts: list[tuple[int, ...]] = []
        self.forgets = forgets

    async def complete(self, request: Request) -> Completion:
        completion = await super().complete(request)
        text = "".join(f"{message.role}{message.content}" for message in request.messages)
        text += "assistant"
        first = len(self.prompts) if self.forgets else 1
        prompt = (first, *(ord(letter) for letter in text))
        self.prompts.append(prompt)
        choice = completion.choice
        tokens = tuple(Token(ord(letter), letter, -0.25) for letter in choice.text)
        return replace(completion, choice=replace(choice, tokens=tokens), prompt_token_ids=prompt)


def player(backend: Any, *, keep_equal: bool = False, **settings: Any) -> GroupPlayer:
    values: dict[str, Any] = {"rollouts_per_group": 2, "max_tokens": 8, "reward": "win=1"}
    config = TrainConfig(**{"game": "kuhn_poker"} | values | settings)
    llm = LLMService(Settings.model_validate({}), notify=lambda _: None)
    llm.add(NEWEST, backend)
    return GroupPlayer(config, make_game(config.game), llm, keep_equal=keep_equal)


@pytest.fixture
def api() -> Api:
    return own_api()


@pytest.fixture(params=SERVERS)
def any_api(request: pytest.FixtureRequest) -> Iterator[Api]:
    yield from each_api(request.param)


@asynccontextmanager
async def trained(api: Api, **changes: Any) -> AsyncIterator[TrajectoryClient]:
    """A client whose trainer has registered and asked for its first batch."""
    client = api.client()
    try:
        await client.register(wanted(**changes))
        assert await client.batch() is None
        yield client
    finally:
        await client.close()


# Rows


def test_a_row_is_what_the_server_read_and_sampled() -> None:
    backend = Typist()
    played = asyncio.run(player(backend, keep_equal=True).play(0, 7, 10**6))
    (group,) = played.groups
    assert group.size == 2 and played.counts.games == 2
    for row, masks, logprobs in zip(
        group.tokens, group.masks, group.inference_logprobs or (), strict=True
    ):
        trained = [place for place, mask in enumerate(masks) if mask != MASKED]
        # Both ways by which trainers select tokens give the same ones.
        assert trained == [place for place, logprob in enumerate(logprobs) if logprob != 1.0]
        assert {logprobs[place] for place in trained} == {-0.25}
        assert 0 not in trained
        written = "".join(chr(row[place]) for place in trained)
        assert written.replace("bet", "").replace("pass", "") == ""
        # The row starts with the tokens of a prompt.
        assert any(tuple(row[: len(prompt)]) == prompt for prompt in backend.prompts)
    facts = (group.group_overrides or {})["arena"]
    assert isinstance(facts, dict)
    assert facts["game"] == "kuhn_poker" and facts["policy_version"] == 7
    assert facts["won"] == [score > 0 for score in group.scores]
    assert group.generation_params == {"temperature": 1.0}


def test_credit_by_turn_is_sent_by_token() -> None:
    playing = player(
        Typist(), keep_equal=True, game="leduc_poker", credit="judged", rollouts_per_group=4
    )
    groups = [g for item in range(4) for g in asyncio.run(playing.play(item, 7, 10**6)).groups]
    found = list[float]()
    for group in groups:
        assert group.advantages is not None
        for masks, row in zip(group.masks, group.advantages, strict=True):
            # Context has none.
            assert all(a == 0 for a, mask in zip(row, masks, strict=True) if mask == MASKED)
            found += [a for a, mask in zip(row, masks, strict=True) if mask != MASKED]
    assert any(found)
    by_game = asyncio.run(player(Typist(), keep_equal=True).play(0, 7, 10**6))
    assert by_game.groups[0].advantages is None


def test_a_chat_that_was_rewritten_gives_further_groups_of_full_size() -> None:
    # Two decisions of a seat: the second prompt does not start with the first one's tokens.
    groups: list[ScoredData] = []
    playing = player(Typist(forgets=True), keep_equal=True, self_play=True)
    for item in range(12):
        groups += asyncio.run(playing.play(item, 0, 10**6)).groups
    parts = [group for group in groups if (group.group_overrides or {})["arena"]["part"] == 1]  # type: ignore[index, call-overload]
    assert parts, "no seat of these games decided twice"
    for group in parts:
        assert group.size == 2
        assert group.overrides is not None
        padded = [override == {"set_advantage_to_zero": True} for override in group.overrides]
        assert not all(padded)
        # The first part of the same games: same scores, so the same advantages.
        first = groups[groups.index(group) - 1]
        assert rollout_counts([first, group]).games == len(first.scores)
        assert len(rollout_counts([first, group]).results) == len(first.scores)
        assert first.scores == group.scores
        for row, is_padded in enumerate(padded):
            assert (group.tokens[row] == first.tokens[row]) == is_padded


def test_what_is_dropped() -> None:
    equal = asyncio.run(player(Typist(), reward="format=1").play(0, 0, 10**6))
    assert equal.groups == [] and equal.dropped[EQUAL] == 1 and equal.counts.games == 2
    long = asyncio.run(player(Typist(), keep_equal=True).play(0, 0, 50))
    assert long.groups == [] and long.dropped["too long"] == 1
    with pytest.raises(UsageError, match="no earlier checkpoints"):
        player(Typist(), opponents="past")


def test_versions_that_the_server_reports_are_passed_on() -> None:
    class Updated(Typist):
        async def complete(self, request: Request) -> Completion:
            completion = await super().complete(request)
            # Other weights after the first answers: as of a trainer that does not wait for games.
            return replace(completion, policy_version=3 if len(self.prompts) < 2 else 4)

    (group,) = asyncio.run(player(Updated(), keep_equal=True).play(0, 7, 10**6)).groups
    facts = (group.group_overrides or {})["arena"]
    assert isinstance(facts, dict)
    assert (facts["policy_version"], facts["newest_policy_version"]) == (3, 4)


def test_a_server_without_token_ids_ends_the_run() -> None:
    class Silent(Typist):
        async def complete(self, request: Request) -> Completion:
            return replace(await super().complete(request), prompt_token_ids=())

    with pytest.raises(StopPlaying, match="does not report the ids of its prompts"):
        asyncio.run(player(Silent(), keep_equal=True).play(0, 0, 10**6))


# An environment and a trainer


async def together(
    environment: TrajectoryEnvironment, trainer: Callable[[], Awaitable[None]]
) -> None:
    """Run the environment until the trainer has ended. Raises the error of either."""
    playing, training = asyncio.create_task(environment.run()), asyncio.ensure_future(trainer())
    try:
        done, _ = await asyncio.wait({playing, training}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        playing.cancel()
        training.cancel()
        await asyncio.gather(playing, training, return_exceptions=True)


async def until(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not happened():
            await asyncio.sleep(0.01)


async def taken(client: TrajectoryClient) -> list[ScoredData]:
    async with asyncio.timeout(60):
        while (batch := await client.batch()) is None:
            await asyncio.sleep(0.02)
    assert not batch.refused
    return batch.groups


def wanted(**changes: Any) -> TrainerRegistration:
    return TrainerRegistration(**registration(max_token_len=2000, **changes))


def test_a_trainer_gets_the_exact_tokens_of_a_served_model(
    any_api: Api, tmp_path: Path, one_thread: None
) -> None:
    folder = build_tiny_model(tmp_path / "tiny", layers=1, width=32, heads=2, head_dim=16, inner=64)
    sampler = Sampler(folder, slots=8, threads=1)
    said: list[str] = []

    async def play(model_url: str) -> list[ScoredData]:
        backend = HTTPBackend(
            f"{model_url}/v1", "", Settings.model_validate({}).service.limits("http"), None
        )
        playing = player(backend, self_play=True, max_tokens=4)
        groups: list[ScoredData] = []
        async with trained(any_api) as client:

            async def train() -> None:
                for _ in range(2):
                    groups.extend(await taken(client))

            await together(TrajectoryEnvironment(client, playing, OPTIONS, said.append), train)
        await backend.close()
        return groups

    with serving(make_app(sampler)) as model_url:
        groups = asyncio.run(play(model_url))
    assert [group.size for group in groups] == [2] * 4
    assert said[0].startswith("registered as kuhn_0 at step 0: batches of 4 rows")
    model = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for group in groups:
        assert group.inference_logprobs is not None and len(set(group.scores)) > 1
        for ids, masks, logprobs in zip(
            group.tokens, group.masks, group.inference_logprobs, strict=True
        ):
            with torch.inference_mode():
                own = model(torch.tensor([ids])).logits[0].log_softmax(-1)
            for place, mask in enumerate(masks):
                if mask != MASKED:
                    assert own[place - 1, ids[place]].item() == pytest.approx(
                        logprobs[place], abs=1e-4
                    )


def test_no_game_is_cancelled_and_no_more_wait_than_are_wanted(api: Api) -> None:
    async def play() -> None:
        async with trained(api) as client:
            playing = TrajectoryEnvironment(
                client, player(Typist(), keep_equal=True), OPTIONS, lambda _: None
            )

            async def train() -> None:
                for step in range(3):
                    # One batch of two groups may wait; then the environment pauses.
                    await until(lambda: len(api.own.waiting) == 2)
                    await asyncio.sleep(0.1)
                    assert len(api.own.waiting) == 2
                    assert playing.counts.games == 2 * playing.counts.pushed == 4 * (step + 1)
                    await taken(client)

            await together(playing, train)

    asyncio.run(play())


class Leaver(Typist):
    """Gives no answer after the environment has pushed its groups for two batches."""

    environment: TrajectoryEnvironment | None = None
    unanswered = 0

    async def complete(self, request: Request) -> Completion:
        if self.environment and self.environment.counts.pushed >= 4:
            self.unanswered += 1
            await asyncio.Event().wait()
        return await super().complete(request)


def test_games_that_no_trainer_takes_any_more_are_not_waited_for(api: Api) -> None:
    backend = Leaver()

    async def play() -> None:
        async with trained(api, num_steps=2) as client:
            options = OPTIONS.model_copy(update={"env_steps": -1, "max_batches_offpolicy": 3})
            playing = TrajectoryEnvironment(
                client, player(backend, keep_equal=True), options, lambda _: None
            )
            backend.environment = playing
            running = asyncio.create_task(playing.run())
            await until(lambda: backend.unanswered)
            await taken(client)
            await taken(client)
            await asyncio.wait_for(running, 60)
            assert playing.counts.pushed == 4
            assert playing.counts.dropped["after the last batch"] >= 1

    asyncio.run(play())


def test_a_reset_ends_the_environment(api: Api) -> None:
    async def play() -> None:
        async with trained(api, starting_step=5) as client:
            playing = TrajectoryEnvironment(
                client, player(Typist(), keep_equal=True), OPTIONS, lambda _: None
            )

            async def train() -> None:
                await taken(client)
                await client._call("GET", "/reset_data")
                await client.register(wanted())
                await asyncio.Event().wait()

            await together(playing, train)

    with pytest.raises(ArenaError, match="does not know environment 0|was reset"):
        asyncio.run(play())


def test_a_signal_disconnects(api: Api) -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def play() -> None:
        async with trained(api) as client:
            playing = TrajectoryEnvironment(
                client, player(Typist(), keep_equal=True), OPTIONS, lambda _: None
            )

            async def kill() -> None:
                await until(lambda: len(api.own.waiting) == 2)
                assert api.own.connected == [True]
                os.kill(os.getpid(), signal.SIGTERM)

            killing = asyncio.create_task(kill())
            try:
                await playing.run()
            finally:
                await killing

    received = stop_as_ctrl_c()
    try:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(play())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]
    assert api.own.connected == [False]


def test_sizes_that_do_not_fit_are_refused(api: Api) -> None:
    async def play() -> None:
        async with trained(api, batch_size=3) as client:
            playing = TrajectoryEnvironment(client, player(Typist()), OPTIONS, lambda _: None)
            await playing.run()

    with pytest.raises(ArenaError, match="group_size 2 does not divide the trainer's batch size 3"):
        asyncio.run(play())
