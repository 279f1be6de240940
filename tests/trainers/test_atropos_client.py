"""The client of the trajectory API, against the queue of tests and the stock server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

from pydantic import JsonValue, ValidationError  # noqa: E402
from trajectory_servers import (  # noqa: E402
    SERVERS,
    Api,
    each_api,
    env_registration,
    group,
    registration,
)

from arena.cli.atropos import (  # noqa: E402
    TrajectoryServeOptions,
    learner_config,
    make_player,
)
from arena.core.errors import ArenaError, UsageError  # noqa: E402
from arena.llm.settings import Settings  # noqa: E402
from trainers.atropos.client import (  # noqa: E402
    BatchLost,
    EnvRegistration,
    ScoredData,
    TrainerRegistration,
    TrajectoryClient,
)

TRAINER = TrainerRegistration.model_validate(registration())
ENV = EnvRegistration.model_validate(env_registration())


@pytest.fixture(params=SERVERS)
def any_api(request: pytest.FixtureRequest) -> Iterator[Api]:
    yield from each_api(request.param)


def run(api: Api, do: Callable[[TrajectoryClient], Awaitable[None]]) -> None:
    async def connected() -> None:
        client = api.client()
        try:
            await do(client)
        finally:
            await client.close()

    asyncio.run(connected())


def scored(number: int, **changes: Any) -> ScoredData:
    return ScoredData.model_validate(group(number, **changes))


async def begin(client: TrajectoryClient) -> None:
    await client.register(TRAINER)
    assert await client.batch() is None
    found = await client.register_env(ENV)
    assert found is not None and (found.env_id, found.wandb_name) == (0, "kuhn_0")


def test_bad_groups_never_reach_a_trainer(any_api: Api) -> None:
    bad = group(1, scores=[float("nan"), 1.0])
    with pytest.raises(ValidationError, match="finite number"):
        ScoredData.model_validate(bad)
    ragged = ScoredData.model_construct(
        **{
            **scored(2).model_dump(),
            "masks": [[-100, -100, 2], [-100, 3]],
        }
    )

    async def do(client: TrajectoryClient) -> None:
        await begin(client)
        # The server takes both. One is refused here, the other costs its batch there.
        await client.push([ragged, scored(3)])
        batch = await client.batch()
        assert batch is not None and batch.groups == [scored(3)]
        assert batch.refused == ["group 0: masks, row 1: 2 entries, but tokens has 3"]
        await client._call("POST", "/scored_data_list", json.dumps([bad, group(4)]))
        with pytest.raises(BatchLost, match="NaN or infinity"):
            await client.batch()
        assert await client.batch() is None
        with pytest.raises(ArenaError, match="another group_size was registered"):
            await client.push([ScoredData.model_validate(group(5, rows=1))])

    run(any_api, do)


def test_groups_before_a_trainer_are_named(any_api: Api) -> None:
    async def do(client: TrajectoryClient) -> None:
        await client._call("POST", "/scored_data", json.dumps(group(1)))
        with pytest.raises(ArenaError, match="accepts a trainer and forgets it"):
            await client.register(TRAINER)

    run(any_api, do)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"masks": [[-100, -100, 2], [-100, 3]]}, "masks, row 1: 2 entries, but tokens has 3"),
        ({"scores": [1.0]}, "scores: 1 rows, but tokens has 2"),
        ({"masks": [[-100, -100, 2], [-100, 0, 3]]}, "masks, row 1, position 1: 0 is neither"),
        ({"masks": [[-100, -100, 2], [-100] * 3]}, "masks, row 1: no token after position 0"),
        (
            {"inference_logprobs": [[1.0, 1.0, -0.5], [0.0, 1.0, -1.0]]},
            "inference_logprobs, row 1, position 0: 0.0 of a masked token",
        ),
        (
            {"inference_logprobs": [[1.0, 1.0, -0.5], [1.0, 1.0, 1.0]]},
            "inference_logprobs, row 1, position 2: 1.0 of a trained token",
        ),
        ({"advantages": [[0.0] * 3, [0.0] * 2]}, "advantages, row 1: 2 entries"),
        ({"overrides": [{}]}, "overrides: 1 rows"),
        ({"tokens": [], "masks": [], "scores": []}, "tokens: the group has no rows"),
        ({"scores": [float("nan"), 1.0]}, "finite number"),
        ({"group_overrides": {"value": float("nan")}}, "group_overrides"),
        ({"tokens": [[1.5, 1, 2], [1, 1, 3]]}, "valid integer"),
    ],
)
def test_groups_that_the_server_would_accept(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        scored(1, **changes)


def test_settings_without_effect_are_refused_unless_other_commands_read_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ARENA_VLLM_PYTHON", "ART_MODEL_NAME", "ART_PROJECT", "ART_BASE_MODEL"):
        monkeypatch.setenv(name, "trained-beside-it")

    def player(**flags: JsonValue) -> None:
        flags |= {"game": "kuhn_poker", "served_model": "tiny"}
        options = TrajectoryServeOptions.of_command(["atropos", "serve"], flags)
        _, llm = make_player(learner_config(options), options, Settings())
        asyncio.run(llm.close())

    player()
    with pytest.raises(UsageError, match="^--set vllm_python=python3: without effect on the games"):
        player(vllm_python="python3")
    with pytest.raises(UsageError, match="^--set eval_games=9: without effect on the games"):
        player(eval_games=9)
    monkeypatch.setenv("ARENA_ATROPOS_SERVE_VLLM_PYTHON", "python3")
    with pytest.raises(UsageError, match="^--set vllm_python=python3: without effect"):
        player()
