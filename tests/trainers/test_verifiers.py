"""Packages for verifiers 0.4.0, played by its own command line and classes; `make test-verifiers`.

The models are a server on loopback that plays legal moves, and misbehaves on command.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_players import NOISE, accuses_in_the_end, plays_cluedo, plays_kuhn
from misbehaving import Misbehaving

from arena.agents.chat import system_message
from arena.core.errors import UsageError
from arena.episodes.replay import read_replay, verify
from arena.evaluation.analysis import episode_of
from arena.plugins.catalog import make_game
from trainers.credit import Credit
from trainers.rewards import Rewards, SeatEpisode
from trainers.rollouts.trajectories import decided_attempts
from trainers.trajectory import Trajectory, TrajectoryGroup, Turn

pytestmark = [
    pytest.mark.verifiers,
    # The library's own warnings are not ours to mend.
    pytest.mark.filterwarnings("ignore"),
]
vf = pytest.importorskip("verifiers.v1", reason="verifiers 0.4.0: make test-verifiers")
KEY_NAME, KEY = "TEST_MODEL_KEY", "sk-of-the-model"
EXAMPLE = Path(__file__).parents[2] / "docs/examples/verifiers_cluedo"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that Python imports from, with the example and its copy for another game."""
    folder = tmp_path_factory.mktemp("packages")
    module = (EXAMPLE / "arena_cluedo/__init__.py").read_text()
    seats = module[module.index("    seat_1") : module.index("\n\nclass CluedoEnv(")]
    kuhn = module.replace(seats, '    seat_1: SeatConfig = SeatConfig(player="bot:random")\n')
    kuhn = kuhn.replace('"cluedo"', '"kuhn_poker"').replace('{"players": 3}', "{}")
    for name, text in (("arena_cluedo", module), ("arena_kuhn_poker", kuhn)):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(text)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Misbehaving]:
    monkeypatch.setenv(KEY_NAME, KEY)
    monkeypatch.setenv("ARENA_SERVICE__BACKOFF", "0.001")
    with Misbehaving(plays_cluedo) as running:
        yield running


def played(
    server: Misbehaving, package: str, *, deals: int = 1, rollouts: int = 1, **env: Any
) -> list[Any]:
    """The episodes of an evaluation, in this process."""
    chosen = {"taskset": {"id": package}, **env}
    config = vf.resolve_env_config(chosen)
    client = vf.EvalClientConfig(base_url=server.openai_url, api_key_var=KEY_NAME)

    async def evaluate() -> list[Any]:
        environment = vf.load_environment(config)
        context = vf.ModelContext(client=client, model="tested", sampling=vf.SamplingConfig())
        tasks = list(environment.taskset.take(deals))
        slots = [slot for task in tasks for slot in environment.slots(task, rollouts)]
        async with environment.serving():
            return await asyncio.gather(*(environment.run_slot(s, context) for s in slots))

    return asyncio.run(evaluate())


def requests_to(server: Misbehaving) -> list[dict[str, Any]]:
    """The chat requests, without the questions for the list of models."""
    return [asked.body for asked in server.asked if asked.method == "POST"]


def messages_of(trace: Any) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in trace.messages]


def test_the_command_line_evaluates_a_package(
    packages: Path, server: Misbehaving, tmp_path: Path
) -> None:
    folders = [str(packages), str(Path(__file__).parents[2])]
    words = (
        f"arena-cluedo -n 2 -r 2 --no-push --no-rich --model tested --run.name first "
        f"--client.base-url {server.openai_url} --client.api-key-var {KEY_NAME} "
        "--env.replays replays --env.seat_2.player bot:random --env.max-turns 9 "
        "--env.taskset.seed 40 --env.reward win=1,entropy_removed=0.5"
    )

    def evaluate(*arguments: str) -> str:
        done = subprocess.run(
            [str(Path(sys.executable).with_name("vf-eval")), *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout + done.stderr

    evaluate(*words.split())
    lines = (tmp_path / "outputs" / "first" / "traces.jsonl").read_text().splitlines()
    episodes = [vf.WireEpisode.model_validate_json(line) for line in lines]
    assert len(episodes) == 4 and all(episode.ok for episode in episodes)
    assert sorted(e.task.data.model_extra["seed"] for e in episodes) == [40, 40, 41, 41]
    assert {e.env.id for e in episodes} == {"arena-cluedo"}
    for episode in episodes:
        (trace,) = episode.traces
        assert trace.agent.name == "seat_0" and set(trace.rewards) == {"win", "entropy_removed"}
        assert trace.info["game"]["players"] == ["verifiers:tested", "bot:novice", "bot:random"]
    assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {KEY}"}
    replays = sorted((tmp_path / "replays").glob("*.jsonl"))
    assert len(replays) == 4 and not any(verify(read_replay(path)) for path in replays)
    # Everything counts as done: the configuration and the traces can be read back.
    saved = "outputs/first/configs/resolved/eval.json"
    assert "nothing to resume" in evaluate("@", saved, "--resume")


def test_a_trace_holds_what_the_model_read(
    packages: Path, server: Misbehaving, tmp_path: Path
) -> None:
    reward = "win=1,measure:efficiency=0.5"
    (episode,) = played(server, "arena-cluedo", max_turns=9, replays=str(tmp_path), reward=reward)
    (trace,) = episode.traces
    assert episode.ok and trace.num_branches == 1 and trace.stop_condition == "user_closed"
    game = make_game("cluedo", players=3)
    shown = messages_of(trace)
    assert shown[0] == ("system", system_message(game, turn_limit=9).content)
    # The last request, as the server got it, and the answer to it.
    asked = server.asked[-1].body
    assert shown[:-1] == [(each["role"], each["content"]) for each in asked["messages"]]
    assert shown[-1] == ("assistant", plays_cluedo(asked))
    assert ("assistant", NOISE) in shown, "corrections are part of the chat"
    assert trace.num_turns == server.ledger.requests == len(trace.calls)
    assert [call.model for call in trace.calls] == ["tested"] * len(trace.calls)

    (path,) = tmp_path.glob("*.jsonl")
    recorded = episode_of(read_replay(path))
    scored = Rewards.parse(reward, game).score(SeatEpisode(game, recorded, 0))
    assert trace.reward == pytest.approx(scored.reward)
    assert all(reward.score == scored.terms[name] for name, reward in trace.rewards.items())
    assert trace.metrics["entropy_removed"] == scored.terms["entropy_removed"] > 0
    assert set(trace.rewards) == {"win", "measure:efficiency"} and trace.metrics["fallbacks"] == 0


def test_a_trace_has_the_judged_reward_of_each_reply(
    packages: Path, server: Misbehaving, tmp_path: Path
) -> None:
    """Ten games: the rewards are those with which `arena train --credit judged` trains."""
    server.answer = accuses_in_the_end
    server.script(["ok", "empty", "tool_call"])
    chosen: dict[str, Any] = {"max_turns": 30, "credit": "judged", "replays": str(tmp_path)}
    found = played(server, "arena-cluedo", deals=10, **chosen)
    game = make_game("cluedo", players=3)
    credit = replace(Credit.judged(game), baselines={})
    score = Rewards.parse("", game, credit="judged").score_seat
    for episode in found:
        (trace,) = episode.traces
        recorded = episode_of(read_replay(tmp_path / f"{episode.task.data.seed}.jsonl"))
        replies = [*decided_attempts(recorded, 0)]
        turns = [Turn((), "", (), ply=ply, is_legal=not each.failure) for ply, each in replies]
        judged = Trajectory(tuple(turns)).with_judgements(score(recorded, 0).judgements)
        (alone,) = credit.assign([TrajectoryGroup((judged,))])
        rewards = [turn.advantage for turn in alone.turns]
        told = trace.info["turns"]
        assert [turn["reward"] for turn in told] == rewards and -1.0 in rewards
        assert [turn["ply"] for turn in told] == [ply for ply, _ in replies]
        said = [trace.nodes[turn["node"]].message for turn in told]
        # Of a call, the reply has the JSON.
        texts = [each.reply for _, each in replies if not each.reply.startswith("{")]
        assert [each.content or "" for each in said if not each.tool_calls] == texts
        share = credit.weights["game"] * recorded.outcome.returns[0]
        assert trace.reward == pytest.approx(sum(rewards) + share)


def test_several_seats_of_models(packages: Path, server: Misbehaving) -> None:
    server.answer = plays_kuhn
    seats: dict[str, Any] = {
        "seat_1": {"player": "model", "model": "opponent", "sampling": {"temperature": 0.25}}
    }
    episodes = played(server, "arena-kuhn-poker", deals=3, **seats)
    for episode in episodes:
        first, second = sorted(episode.traces, key=lambda trace: trace.agent.name)
        assert (first.agent.trainable, second.agent.trainable) == (True, False)
        assert first.rewards["win"].score == -second.rewards["win"].score != 0
        assert second.agent.config.model == "opponent"
        # Neither has read what belongs to the other.
        for trace, other in ((first, 1), (second, 0)):
            assert not any(f"Player {other} is dealt" in text for _, text in messages_of(trace))
    by_model = {body["model"]: body for body in requests_to(server)}
    assert set(by_model) == {"tested", "opponent"}
    assert by_model["opponent"]["temperature"] == 0.25


def test_rollouts_of_a_task_share_the_deal(packages: Path, server: Misbehaving) -> None:
    server.answer = plays_kuhn
    first, second = played(server, "arena-kuhn-poker", rollouts=2)
    dealt = [messages_of(episode.traces[0])[1][1] for episode in (first, second)]
    assert dealt[0] == dealt[1] and first.task.hash == second.task.hash
    seeds = [body["seed"] for body in requests_to(server)]
    assert len({*seeds}) == len(seeds), "games of a group are sampled independently"


def test_a_limit_of_verifiers_leaves_the_rest_to_fallbacks(
    packages: Path, server: Misbehaving
) -> None:
    (episode,) = played(server, "arena-cluedo", max_turns=9, seat_0={"max_turns": 2})
    (trace,) = episode.traces
    assert episode.ok and trace.stop_condition == "max_turns" and trace.is_truncated
    assert trace.num_turns == server.ledger.requests == 2
    assert trace.metrics["fallbacks"] > 0 and trace.rewards["format"].score < 1
    assert any("max_turns" in text for text in trace.info["game"]["fallbacks"])


def test_a_model_without_an_answer_fails_the_episode(packages: Path, server: Misbehaving) -> None:
    server.script(["ok", *["bad_request"] * 99])
    (episode,) = played(server, "arena-cluedo", max_turns=9)
    assert not episode.ok and "told to answer bad_request" in str(episode.errors)
    (trace,) = episode.traces
    assert not trace.ok and trace.errors[0].type == "ProviderError"
    assert trace.errors[0].status_code == 400
    assert "win" not in trace.rewards, "a game that was not finished has no reward"


def test_an_error_that_passes_is_tried_again(packages: Path, server: Misbehaving) -> None:
    server.answer = plays_kuhn
    server.script(["unavailable", "ok"])
    server.retry_after = 0
    (episode,) = played(server, "arena-kuhn-poker")
    (trace,) = episode.traces
    assert episode.ok and [bool(call.error) for call in trace.calls][:2] == [True, False]


def test_a_chat_that_is_too_long_is_shortened(packages: Path, server: Misbehaving) -> None:
    server.script(["ok", "context"])
    (episode,) = played(server, "arena-cluedo", max_turns=9)
    (trace,) = episode.traces
    assert episode.ok and trace.num_branches == 2 and trace.metrics["fallbacks"] == 0


def test_another_system_prompt(packages: Path, server: Misbehaving, tmp_path: Path) -> None:
    server.answer = plays_kuhn
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Play Kuhn poker. Answer: Action: pass")
    taskset = {"id": "arena-kuhn-poker", "system_prompt": str(prompt)}
    (episode,) = played(server, "arena-kuhn-poker", taskset=taskset)
    assert messages_of(episode.traces[0])[0] == ("system", prompt.read_text())


@pytest.mark.parametrize(
    ("env", "fault"),
    [
        ({"seat_0": {"player": "bot:random"}}, "no seat has a model"),
        ({"reward": "winn=1"}, "did you mean 'win'"),
        ({"seat_1": {"player": "bot:nobody"}}, "has no bot 'nobody'"),
    ],
)
def test_faults_name_the_field(
    packages: Path, server: Misbehaving, env: dict[str, Any], fault: str
) -> None:
    try:
        (episode,) = played(server, "arena-kuhn-poker", **env)
    except UsageError as error:
        assert fault in str(error)
    else:
        assert not episode.ok and fault in str(episode.errors)
    assert not server.ledger.requests
