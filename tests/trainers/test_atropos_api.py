"""The trajectory API: one suite for arena's server and for the stock one of atroposlib 0.4.0.

The stock server is tested if ARENA_ATROPOS_PYTHON names an interpreter that has it
(`make test-atropos`). Where the two differ by intention, a test states both behaviours.
"""

from __future__ import annotations

import gzip
import itertools
import json
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

from command_line import arena, started  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from trajectory_servers import (  # noqa: E402
    SERVERS,
    arena_api,
    env_registration,
    group,
    registration,
    stock_api,
)

from arena.core.errors import UsageError  # noqa: E402
from trainers.atropos.packing import WaitingGroup, select_batch  # noqa: E402
from trainers.atropos.store import StorageFull, TrajectoryStore  # noqa: E402
from trainers.atropos.wire import EnvRegistration, ScoredData, TrainerRegistration  # noqa: E402

HTTP = httpx.Client(trust_env=False, timeout=60, headers={"accept-encoding": "identity"})
# Some tests kill their server: a connection is not used again.
HTTP.headers["connection"] = "close"
ALL_KEYS = set(ScoredData.model_fields)


@dataclass(frozen=True, slots=True)
class Api:
    """A running server."""

    url: str
    is_stock: bool

    def get(self, path: str, **more: Any) -> Any:
        return HTTP.request("GET", self.url + path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Any:
        # Python's JSON, so that NaN reaches the server.
        content = {"content": json.dumps(body)} if body is not None else {}
        headers = {"content-type": "application/json", **more.pop("headers", {})}
        return HTTP.post(self.url + path, headers=headers, **content, **more)

    def begin(self, envs: int = 1, **changes: Any) -> None:
        """Register a trainer with batches of 4 rows, and environments with groups of 2."""
        assert self.post("/register", registration(**changes)).status_code == 200
        assert self.get("/batch").json() == {"batch": None}
        for _ in range(envs):
            assert self.post("/register-env", env_registration()).json()["status"] == "success"

    def push(self, *numbers: int) -> None:
        for number in numbers:
            answer = self.post("/scored_data", group(number))
            assert answer.json() == {"status": "received"}

    def batch(self) -> Any:
        """The numbers of the groups of the next batch, or None."""
        batch = self.get("/batch").json()["batch"]
        return batch and [each["tokens"][0][0] for each in batch]

    def status_env(self, env_id: int = 0) -> Any:
        return self.get("/status-env", json={"env_id": env_id})


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api")


@pytest.fixture(scope="module")
def shared(shared_folder: Path) -> Iterator[Api]:
    """Arena's server, with room for twelve groups of at most 5000 bytes."""
    flags = "--max-groups", "12", "--max-body-bytes", "5000"
    with arena_api(shared_folder / "queue", *flags) as (url, _):
        yield Api(url, False)


@pytest.fixture
def own(shared: Api) -> Api:
    """Arena's server, empty."""
    assert shared.get("/reset_data").status_code == 200
    return shared


@pytest.fixture(params=SERVERS)
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    if request.param == "stock":
        with stock_api() as url:  # A new one: no reset makes it new.
            yield Api(url, True)
    else:
        yield request.getfixturevalue("own")


# Both servers


def test_the_handshake(api: Api) -> None:
    assert api.get("/").json() == {"message": "AtroposLib API"}
    assert api.get("/info").json() == {"batch_size": -1, "max_token_len": -1}
    assert api.get("/wandb_info").json() == {"group": None, "project": None}
    assert api.get("/status").json() == {"current_step": 0, "queue_size": 0}
    unregistered = api.get("/batch")
    assert unregistered.status_code == 200
    assert unregistered.json() == {
        "status": "error",
        "message": "Trainer not registered. Call /register first.",
        "batch": [],
    }
    wait = {"status": "wait for trainer to start"}
    assert api.post("/register-env", env_registration()).json() == wait
    uuid = api.post("/register", registration(starting_step=7)).json()
    assert [*uuid] == ["uuid"] and isinstance(uuid["uuid"], int)
    assert api.get("/info").json() == {"batch_size": 4, "max_token_len": 64}
    assert api.get("/wandb_info").json() == {"group": "group", "project": "project"}
    assert api.post("/register-env", env_registration()).json() == wait
    assert api.get("/batch").json() == {"batch": None}
    for number in range(2):
        assert api.post("/register-env", env_registration()).json() == {
            "status": "success",
            "env_id": number,
            "wandb_name": f"kuhn_{number}",
            "checkpoint_dir": "checkpoints",
            "starting_step": 7,
            "checkpoint_interval": 5,
            "num_steps": 10,
        }


def test_rows_arrive_as_they_were_sent(api: Api) -> None:
    api.begin()
    chat = [[{"role": "user", "content": "é"}, {"role": "assistant", "content": None}]] * 2
    full = group(
        5,
        advantages=[[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]],
        ref_logprobs=[[0.0, -1.0, -2.0]] * 2,
        messages=chat,
        generation_params={"temperature": 1.0},
        overrides=[{"set_advantage_to_zero": True}, {}],
        distill_token_ids=[[[1], [], [2, 3]]] * 2,
        distill_logprobs=[[[-1.0], [], [-1.0, -2.0]]] * 2,
        images=[None, {"a": 1}],
    )
    assert api.post("/scored_data", {**full, "unknown": 1}).json() == {"status": "received"}
    assert api.get("/latest_example").json() == full
    assert api.get("/batch").json() == {"batch": None}
    assert api.get("/status").json() == {"current_step": 0, "queue_size": 1}
    answer = api.post("/scored_data_list", [group(6)])
    assert answer.json() == {"status": "received", "groups_processed": 1}
    first, second = api.get("/batch").json()["batch"]
    assert first == full
    # All keys come back, absent ones as null.
    assert set(second) == ALL_KEYS
    assert {key: value for key, value in second.items() if value is not None} == group(6)
    assert api.get("/batch").json() == {"batch": None}
    assert api.get("/status").json() == {"current_step": 1, "queue_size": 0}
    assert api.get("/latest_example").json() == second


def test_the_status_of_an_environment(api: Api) -> None:
    api.begin(envs=1)
    other = env_registration(desired_name="other", weight=3.0, min_batch_allocation=0.25)
    assert api.post("/register-env", other).json()["env_id"] == 1
    api.push(1)
    for _ in range(3):
        assert api.post("/scored_data", group(2, env_id=1)).status_code == 200
    assert api.status_env().json() == {
        "current_step": 0,
        "queue_size": 3,  # Own 2 rows, and 6 - 1 of the other, in groups of 2.
        "unallocated_fraction": 0.75,
        "self_queue_size": 1,
        "max_group_size": 2,
        "env_weight": 0.25,
    }
    assert api.get("/status-env?env_id=0").status_code == 422
    assert api.post("/disconnect-env", {"env_id": 1}).json() == {"status": "success"}
    assert api.status_env().json()["env_weight"] == 1.0
    assert api.post("/disconnect-env", {"env_id": 9}).json()["status"] == "failure"
    # The stock server fails; arena's names the reason.
    assert api.status_env(9).status_code == (500 if api.is_stock else 404)


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": None},
        {"scores": ["high", 1.0]},
        {"tokens": [[1.5, 1, 2], [1, 1, 3]]},
        {"messages": [[{"role": "user"}]] * 2},
        {"overrides": [1, 2]},
    ],
)
def test_wrong_types_are_refused(api: Api, changes: dict[str, Any]) -> None:
    api.begin()
    refused = api.post("/scored_data", group(1, **changes))
    assert refused.status_code == 422
    (field,) = changes
    assert field in json.dumps(refused.json()["detail"])
    assert api.post("/register-env", {"weight": 1.0}).status_code == 422
    assert api.get("/status").json()["queue_size"] == 0


def test_compressed_bodies(api: Api) -> None:
    api.begin()
    packed = gzip.compress(json.dumps(group(1)).encode())
    headers = {"content-encoding": "gzip", "content-type": "application/json"}

    def send(content: bytes) -> Any:
        return HTTP.post(f"{api.url}/scored_data", content=content, headers=headers)

    assert send(packed).json() == {"status": "received"}
    assert send(b"\x1f\x8b garbage").status_code == 400
    # An error of the stock server; the same reason with arena's.
    assert send(packed[:-9]).status_code == (500 if api.is_stock else 400)
    long = [[7] * 60] * 2
    assert api.post("/scored_data", group(2, tokens=long, masks=long, inference_logprobs=None))
    answer = api.get("/batch", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.json()["batch"]) == 2


def test_groups_of_two_environments_fill_a_batch(api: Api) -> None:
    api.begin(envs=1)
    assert api.post("/register-env", env_registration(group_size=4)).json()["env_id"] == 1
    api.push(1)
    assert api.post("/scored_data", group(2, rows=4, env_id=1)).status_code == 200
    assert api.batch() == [2]
    api.push(3)
    assert api.batch() == [1, 3]


def test_a_reset_forgets_everything(api: Api) -> None:
    api.begin()
    api.push(1, 2)
    reset = api.get("/reset_data")
    assert reset.text == "Reset successful"
    assert api.get("/info").json()["batch_size"] == -1
    api.begin(starting_step=3)
    assert api.get("/status").json() == {"current_step": 3, "queue_size": 0}
    assert api.batch() is None


def test_methods_that_do_not_exist(api: Api) -> None:
    api.begin()
    api.push(1, 2)
    assert HTTP.head(f"{api.url}/batch").status_code == 405
    assert api.get("/register").status_code == 405
    assert api.get("/other").status_code == 404
    assert api.batch() == [1, 2]


# Intended differences


def test_the_order_of_batches(api: Api) -> None:
    api.begin()
    api.push(*range(1, 7))
    served = [api.batch() for _ in range(3)]
    oldest_first = [[1, 2], [3, 4], [5, 6]]
    assert served == (oldest_first[::-1] if api.is_stock else oldest_first)


def test_steps_count_when_a_batch_is_taken(api: Api) -> None:
    api.begin()
    api.push(1, 2, 3, 4)
    api.batch()
    # The stock server forms all batches at once and hides them from the environments.
    step, waiting = (2, 0) if api.is_stock else (1, 2)
    assert api.get("/status").json() == {"current_step": step, "queue_size": waiting}


NAN = float("nan")


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
        ({"distill_token_ids": [[[1]] * 3] * 2}, "distill_logprobs belong together"),
        ({"env_id": 99}, "env_id: 99 is not registered"),
        ({"tokens": [], "masks": [], "scores": []}, "tokens: the group has no rows"),
    ],
)  # fmt: skip
def test_rows_that_the_stock_server_accepts(api: Api, changes: dict[str, Any], reason: str) -> None:
    api.begin()
    answer = api.post("/scored_data", group(1, **changes))
    if api.is_stock:
        assert answer.status_code == 200
        return
    assert answer.status_code == 422
    assert reason in answer.json()["detail"][0]["msg"]
    in_a_list = api.post("/scored_data_list", [group(1), group(1, **changes)])
    assert in_a_list.status_code == 422
    fault = in_a_list.json()["detail"][0]
    assert reason in fault["msg"]
    assert 1 in fault["loc"] or fault["msg"].startswith("group 1: ")
    # Nothing of a refused list is kept.
    assert api.get("/status").json()["queue_size"] == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"scores": [NAN, 1.0]},
        {"inference_logprobs": [[1.0, 1.0, -float("inf")], [1.0, 1.0, -1.0]]},
        {"group_overrides": {"value": NAN}},
    ],
)
def test_numbers_that_are_not_json(api: Api, changes: dict[str, Any]) -> None:
    api.begin()
    answer = api.post("/scored_data", group(1, **changes))
    assert answer.status_code == (200 if api.is_stock else 422)
    api.push(2)
    if api.is_stock:  # The batch is lost, and the step counted.
        assert api.get("/batch").status_code == 500
        assert api.get("/status").json() == {"current_step": 1, "queue_size": 0}
    else:
        api.push(3)
        assert api.batch() == [2, 3]


def test_groups_of_another_size(api: Api) -> None:
    api.begin()
    answer = api.post("/scored_data", group(1, rows=1))
    if api.is_stock:
        assert answer.json() == {"status": "buffered", "buffer_size": 1}
    else:
        assert answer.status_code == 422
        assert "1 rows, but the environment registered group_size 2" in answer.text


def test_group_sizes_that_cannot_fill_a_batch(api: Api) -> None:
    api.begin(envs=0)
    answer = api.post("/register-env", env_registration(group_size=3))
    if not api.is_stock:
        assert answer.status_code == 422
        assert "group_size 3 does not divide the trainer's batch_size 4" in answer.text
        return
    assert answer.json()["status"] == "success"
    for number in range(5):
        api.post("/scored_data", group(number, rows=3))
    assert api.batch() is None


def test_groups_before_a_trainer(api: Api) -> None:
    answer = api.post("/scored_data", group(1))
    assert answer.status_code == (200 if api.is_stock else 409)
    assert "uuid" in api.post("/register", registration()).json()
    # The stock server can serve nothing from now on.
    assert api.get("/batch").json().get("status") == ("error" if api.is_stock else None)


def test_a_second_trainer(api: Api) -> None:
    api.begin()
    assert "uuid" in api.post("/register", registration(num_steps=20)).json()
    other = api.post("/register", registration(batch_size=8))
    assert api.get("/info").json()["batch_size"] == 4
    if api.is_stock:
        assert "uuid" in other.json()
    else:
        assert other.status_code == 409
        assert "still holds a run with batch_size 4" in other.json()["detail"]
        assert api.post("/register", registration(wandb_group="other")).status_code == 409


def test_an_unused_registration_is_replaced(own: Api) -> None:
    own.begin(envs=0)
    own.begin(envs=1, batch_size=8, starting_step=2)
    assert own.get("/info").json()["batch_size"] == 8
    assert own.get("/status").json()["current_step"] == 2


def test_rows_longer_than_the_trainer_takes(api: Api) -> None:
    api.begin()
    row = [[7] * 65] * 2
    answer = api.post("/scored_data", group(1, tokens=row, masks=row, inference_logprobs=None))
    assert answer.status_code == (200 if api.is_stock else 422)
    assert api.is_stock or "tokens, row 0: 65 tokens" in answer.text


# arena's server


def test_kill_minus_nine_loses_nothing(tmp_path: Path) -> None:
    with arena_api(tmp_path / "queue") as (url, process):
        api = Api(url, False)
        api.begin(starting_step=7)
        api.push(1, 2, 3, 4, 5)
        assert api.batch() == [1, 2]
        process.send_signal(signal.SIGKILL)
        process.wait()
    with arena_api(tmp_path / "queue") as (url, _):
        api = Api(url, False)
        assert api.get("/status").json() == {"current_step": 8, "queue_size": 3}
        assert api.status_env().json()["self_queue_size"] == 3
        # The environment goes on under its number, and the trainer registers again.
        api.push(6)
        assert "uuid" in api.post("/register", registration()).json()
        assert [api.batch() for _ in range(3)] == [[3, 4], [5, 6], None]


def test_a_batch_that_was_not_read_is_delivered_again(tmp_path: Path) -> None:
    # More bytes than the kernel keeps for a client that does not read.
    large = [group(number, group_overrides={"pad": "x" * 2**21}) for number in range(8)]
    take = b"GET /batch HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with arena_api(tmp_path / "queue") as (url, process):
        api = Api(url, False)
        api.begin(batch_size=16)
        assert api.post("/scored_data_list", large).status_code == 200
        host, _, port = url.removeprefix("http://").partition(":")
        for last in False, True:
            with socket.create_connection((host, int(port))) as reader:
                reader.sendall(take)
                assert reader.recv(100).startswith(b"HTTP/1.1 200")
                # Formed, and stuck in the connection: another request does not get it.
                assert api.get("/status").json() == {"current_step": 1, "queue_size": 0}
                assert api.batch() is None
                if last:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
    with arena_api(tmp_path / "queue") as (url, _):
        api = Api(url, False)
        assert api.get("/status").json() == {"current_step": 1, "queue_size": 0}
        assert api.status_env().json()["self_queue_size"] == 8
        assert api.batch() == [*range(8)]
        assert api.batch() is None


def test_a_full_queue_says_so(own: Api) -> None:
    own.begin()
    own.push(*range(10))
    refused = own.post("/scored_data_list", [group(10), group(11), group(12)])
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) > 0
    assert "the queue holds 10 of 12 groups" in refused.text
    assert own.get("/status").json()["queue_size"] == 10
    own.push(10, 11)
    assert own.post("/scored_data", group(12)).status_code == 503
    assert own.batch() == [0, 1]
    own.push(12)


def test_bodies_have_a_limit(own: Api) -> None:
    own.begin()
    bomb = gzip.compress(b'"' + b"a" * 10**6 + b'"')
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    assert HTTP.post(f"{own.url}/scored_data", content=bomb, headers=headers).status_code == 413
    assert own.post("/scored_data", "a" * 6000).status_code == 413


def test_other_sites_pages_are_refused(own: Api) -> None:
    own.begin()
    for headers in {"sec-fetch-site": "cross-site"}, {"origin": "http://evil"}, {"host": "evil"}:
        assert own.get("/reset_data", headers=headers).status_code == 403
    assert own.get("/info").json()["batch_size"] == 4


def test_addresses_and_folders_in_use(own: Api, shared_folder: Path) -> None:
    port = own.url.rpartition(":")[2]
    taken = arena(f"atropos api --port {port} --data other", cwd=shared_folder)
    assert taken.returncode == 1 and f"port {port}" in taken.stderr
    folder = arena("atropos api --port 0 --data queue", cwd=shared_folder)
    assert folder.returncode == 2
    assert folder.stderr == "arena: --data queue: another server uses this folder\n"
    is_open = arena("atropos api --port 0 --host 0.0.0.0 --data other", cwd=shared_folder)
    assert is_open.returncode == 2 and "a key is required" in is_open.stderr


def test_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("command_line").ENVIRONMENT, "ARENA_API_KEY", "planted")
    with arena_api(tmp_path / "queue") as (url, _):
        api = Api(url, False)
        assert api.get("/info").status_code == 401
        wrong = api.get("/info", headers={"authorization": "Bearer other"})
        assert wrong.status_code == 401
        right = api.get("/info", headers={"authorization": "Bearer planted"})
        assert right.json()["batch_size"] == -1


# Parts of it


@given(st.lists(st.sampled_from([1, 2, 3, 4, 6, 12]), max_size=8), st.sampled_from([4, 12]))
def test_a_batch_is_formed_if_one_is_possible(sizes: list[int], batch_size: int) -> None:
    queue = [WaitingGroup(number, 0, size) for number, size in enumerate(sizes)]
    possible = [
        choice
        for count in range(1, len(queue) + 1)
        for choice in itertools.combinations(queue, count)
        if sum(one.size for one in choice) == batch_size
    ]
    chosen = select_batch(queue, batch_size, {})
    assert (chosen is not None) == bool(possible)
    if chosen is not None:
        assert tuple(chosen) in possible
        assert (queue[0] in chosen) == any(queue[0] in choice for choice in possible)


def test_minimum_shares() -> None:
    queue = [WaitingGroup(number, 0, 1) for number in range(4)]
    assert select_batch(queue, 4, {1: 2}) is None
    queue += [WaitingGroup(number, 1, 1) for number in range(4, 7)]
    chosen = select_batch(queue, 4, {1: 2})
    assert chosen is not None and [one.number for one in chosen] == [0, 1, 4, 5]
    # Shares that exclude each other do not block the queue.
    assert select_batch([WaitingGroup(0, 0, 4), WaitingGroup(1, 1, 4)], 4, {0: 2, 1: 2})


def test_a_silent_environment_blocks_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainers.atropos.store import MAX_SILENCE, minimum_rows

    store = _store(tmp_path, min_batch_allocation=0.5)
    assert minimum_rows(store) == {0: 2}
    later = time.monotonic() + MAX_SILENCE
    monkeypatch.setattr(time, "monotonic", lambda: later + 1)
    assert minimum_rows(store) == {}
    store.close()


def test_a_full_disk_keeps_the_queue(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.push([ScoredData.model_validate(group(1))])
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    long = [[7] * 50_000] * 2
    large = ScoredData.model_validate(group(2, tokens=long, masks=long, inference_logprobs=None))
    with pytest.raises(StorageFull, match="full"):
        store.push([large])
    assert len(store.waiting) == 1
    store.close()
    again = TrajectoryStore(tmp_path)
    assert again.waiting == [WaitingGroup(1, 0, 2)]
    again.close()


def test_a_file_that_is_no_queue(tmp_path: Path) -> None:
    (tmp_path / "trajectories.sqlite").write_text("other content of this length " * 100)
    with pytest.raises(UsageError, match="not a database"):
        TrajectoryStore(tmp_path)


def _store(folder: Path, **changes: Any) -> TrajectoryStore:
    store = TrajectoryStore(folder)
    store.register(TrainerRegistration.model_validate(registration()))
    store.start()
    store.add_env(EnvRegistration.model_validate(env_registration(**changes)))
    return store


def test_sigterm_ends_the_server(tmp_path: Path) -> None:
    process = started("atropos api --port 0 --data queue", tmp_path)
    assert process.stdout is not None and process.stdout.readline()
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0
