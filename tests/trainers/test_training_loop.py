"""The training loop, on a tiny random model that plays legal moves because it is guided."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted_table import quick
from small_runs import Notes, learn, rows_of, small, small_base, weights

import trainers.config.config
import trainers.loop.training
from arena.agents.chat import attempts_in
from arena.cli import run
from arena.core.errors import ArenaError, BackendError, ContextOverflow, StopPlaying, UsageError
from arena.core.spec import stream
from arena.episodes.match import Match
from arena.episodes.replay import read_replay, verify
from arena.evaluation.exact import InformationSet
from arena.llm.backend import Backend, Completion, Request
from arena.plugins.catalog import make_game
from trainers.config.config import TrainConfig, UpdateOptions
from trainers.credit import Credit, complete_groups, select_groups
from trainers.exploitability import PolicyReader
from trainers.hosts import embedded
from trainers.hosts.embedded import EmbeddedHost
from trainers.hosts.host import HostRequest
from trainers.loop import checkpoints, grpo, setup
from trainers.loop.grpo import GRPO
from trainers.rollouts.rollouts import (
    FINAL,
    NEWEST,
    PERIODIC,
    OpponentMix,
    first_deal,
    schedule_step,
)
from trainers.runs.records import RunFiles, RunState
from trainers.runs.sentences import exploitability_line
from trainers.runs.training_run import TrainingRun
from trainers.trajectory import Trajectory, TrajectoryGroup, Turn

KUHN = make_game("kuhn_poker")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_base(tmp_path_factory.mktemp("base") / "model")


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "GAMES_AT_ONCE", 1)


def test_a_run_from_its_beginning_to_its_report(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "REPLAYED_SHARE", 1.0)
    monkeypatch.setattr(trainers.loop.training, "KEPT_POOL", 1)
    config = small(
        base,
        steps=4,
        groups_per_step=3,
        opponents="bot:random=1,self=1,past=1",
        eval_every=2,
        final_eval_games=3,
    )
    view, folder = Notes(), tmp_path / "x"
    state = learn(config, folder, view)
    files = RunFiles(folder)
    assert (state.status, state.step) == ("finished", 4)
    assert state.spent == 0, "no model plays but the learner"
    assert set(state.final) == {"newest"} | ({"best"} if state.best_step else set())
    assert state.final["newest"].games == 3
    rows = rows_of(folder)
    assert rows == view.rows and [row.step for row in rows] == [0, 1, 2, 3, 4]
    assert {row.config_hash for row in rows} == {config.config_hash}
    assert [row.evaluation is not None for row in rows] == [True, False, True, False, True]
    for row in rows[1:]:
        assert row.games == 9 and row.win_rate.n == 3 and row.legal_rate == 1.0
        assert row.groups.trained + row.groups.no_variance + row.groups.incomplete == 3
        assert row.tokens.trained <= row.tokens.sampled
    evaluated = {row.step: row.evaluation for row in rows[1:] if row.evaluation}
    assert {one.scale.unit for one in evaluated.values()} == {"chips"}
    gains = {step: one.delta.value or 0.0 for step, one in evaluated.items()}
    best = max(gains, key=lambda step: gains[step])
    assert state.best_step == (best if gains[best] > 0 else None)
    assert [row.step for row in rows if row.best][-1:] == ([best] if gains[best] > 0 else [])
    kept = {path.name for path in (folder / "checkpoints").iterdir()}
    assert kept == {"0004", f"{state.best_step or 4:04d}"}
    assert files.report.read_text().lstrip().lower().startswith("<!doctype html")
    assert {"rollouts", "update", "evaluation", "last evaluation"} <= set(view.phases)
    replays = sorted(files.replays.glob("step*/*.jsonl"))
    assert len(replays) == 4 * 9 and not list(files.replays.rglob("*.part"))
    read = [read_replay(path) for path in replays]
    assert [verify(replay) for replay in read] == [None] * len(replays)
    # Steps 1 to 4 against the weights of steps 0 to 3.
    played = Counter(
        spec
        for replay in read
        for spec in replay.header.players
        if spec.startswith("policy:") and spec != NEWEST
    )
    assert played and played.keys() <= {f"policy:{step}" for step in range(4)}
    others = Counter(spec for replay in read for spec in replay.header.players)
    assert others[NEWEST] > 36 and others["bot:random"] and others.keys() - {NEWEST, "bot:random"}


def test_in_self_play_each_seat_is_a_group(base: Path, tmp_path: Path) -> None:
    config = small(base, self_play=True, opponents="", steps=2, final_eval_games=3, kl_coef=0.1)
    state = learn(config, tmp_path / "whole")
    for row in rows_of(tmp_path / "whole")[1:]:
        # As many games are lost as are won.
        counts = row.groups
        assert counts.trained + counts.no_variance + counts.incomplete == 2 * config.groups_per_step
        assert row.win_rate.value == 0.5
    learn(config.model_copy(update={"steps": 1}), tmp_path / "parts")
    assert learn(config, tmp_path / "parts").final == state.final
    assert weights(tmp_path / "parts", 2) == weights(tmp_path / "whole", 2)


def test_self_play_reports_the_exact_exploitability_of_its_mixture(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trainers.loop.training, "KEPT_POOL", 1)
    monkeypatch.setattr(checkpoints, "MIXTURE_POOL", 3)
    monkeypatch.setattr(checkpoints, "REPLAYED_SHARE", 1.0)
    config = small(base, self_play=True, opponents="", steps=5, learning_rate=0.1)
    view, folder = Notes(), tmp_path / "x"
    found = learn(config, folder, view).exploitability
    # Multiples of 2 below 5, and the newest one.
    kept = folder / "checkpoints"
    assert sorted(path.name for path in kept.iterdir()) == ["0002", "0004", "0005"]
    reader = PolicyReader(Match(KUHN), base)
    policies = [reader.policy(kept / f"{step:04d}") for step in (2, 4, 5)]
    mixed = reader.tree.mixture(policies, [3 / 15, 7 / 15, 5 / 15])
    assert found == {
        "start": reader.tree.exploitability(reader.policy(base)),
        "newest": reader.tree.exploitability(policies[-1]),
        "mixture": pytest.approx(reader.tree.exploitability(mixed)),
    }
    assert len({round(value, 3) for value in found.values()}) > 1
    # A crash may leave a checkpoint that is not kept.
    shutil.copytree(kept / "0002", kept / "0003")
    assert learn(config, folder).exploitability == found and not (kept / "0003").exists()
    text = (folder / "report.html").read_text()
    assert f"{found['mixture']:.3f} chips a game as the mixture of the kept checkpoints" in text
    trained = TrainingRun.read(folder)
    for share, said in ((0.18, "Illegal replies are left out: 82 % in the last step."), (1, "")):
        last = trained.records[-1].model_copy(update={"legal_rate": share})
        told = exploitability_line(replace(trained, records=[last]))
        assert told.partition("at the start.")[2].strip() == said
    for player, name in (("mixture", "mixture"), ("0005", "newest")):
        command = ["exploit", "kuhn_poker", "--player", f"embedded:{kept}/{player}"]
        assert run([*command, "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["exploitability"] == pytest.approx(found[name])


def test_a_policy_is_read_in_the_chats_that_games_have(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probability of each reply of a game is that of its action at its information set."""
    monkeypatch.setattr(checkpoints, "REPLAYED_SHARE", 1.0)
    learn(small(base, self_play=True, opponents="", groups_per_step=8), tmp_path / "x")
    reader = PolicyReader(Match(KUHN), base)
    logprobs = reader.logprobs(base)
    numbers = {InformationSet.of(s.observation): n for n, s in enumerate(reader.tree.situations)}
    checked = set()
    for path in (tmp_path / "x" / "replays").rglob("*.jsonl"):
        for walked in read_replay(path).walk():
            decision, seen = walked.ply.decision, walked.observation
            if seen is None:
                continue
            for attempt in attempts_in(decision):
                pair = reader.tree.first_pairs[numbers[InformationSet.of(seen)]]
                pair += list(seen.legal_actions).index(decision.action)
                assert sum(token[1] for token in attempt.tokens) == pytest.approx(
                    logprobs[pair], abs=1e-4
                )
                checked.add(pair)
    assert len(checked) > 12


def test_a_seed_decides_the_weights_and_where_and_how_many_play_at_once_does_not(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, again, other = (tmp_path / name for name in ("one", "again", "other"))
    monkeypatch.setattr(checkpoints, "REPLAYED_SHARE", 0.5)
    learn(small(base, steps=2, executor="processes", workers=2), again)
    monkeypatch.setattr(embedded, "GAMES_AT_ONCE", 1)
    learn(small(base, steps=2), one)
    replays = [{path.name for path in RunFiles(r).replays.glob("*/*.jsonl")} for r in (one, again)]
    assert replays[0] == replays[1] != set()
    learn(small(base, steps=2, seed=1), other)
    assert weights(one, 2) == weights(again, 2) != weights(other, 2)


def test_a_run_that_is_extended_forgets_its_last_figures(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "x"
    learn(small(base, final_eval_games=4), folder)
    longer = small(base, steps=2, final_eval_games=4)
    more = learn(longer, folder, first := Notes())
    assert more.final == learn(longer, tmp_path / "whole").final
    assert weights(folder, 2) == weights(tmp_path / "whole", 2)
    assert learn(longer, folder, second := Notes()) == more  # Nothing is left to do.
    assert "last evaluation" in first.phases and "last evaluation" not in second.phases
    assert [row.step for row in rows_of(folder)] == [0, 1, 2]
    surer = learn(small(base, steps=2, final_eval_games=5), folder)
    assert surer.final["newest"].games == 5 and surer.step == 2


@pytest.mark.parametrize(("changes", "held_out"), [({}, 0.0), ({"eval_temperature": 0.7}, 0.7)])
def test_training_explores_and_held_out_games_show_what_was_learned(
    base: Path, tmp_path: Path, changes: dict[str, float], held_out: float
) -> None:
    view, temperatures = Notes(), dict[str, set[float]]()

    async def seen(request: Request) -> None:
        temperatures.setdefault(view.phases[-1], set()).add(request.sampling.temperature)

    config = small(base, final_eval_games=2, **changes)
    asyncio.run(faulty(config, tmp_path / "x", view=view, fault=seen).complete())
    assert temperatures.pop("rollouts") == {1.0}
    assert set.union(*temperatures.values()) == {held_out}


@pytest.mark.parametrize(
    ("base_model", "max_tokens", "expected"),
    [("clue-tiny", 0, 64), ("clue-notebook", 0, 400), ("clue-notebook", 90, 90),
     ("notebook", 0, 400), ("scratch", 0, 64)],
)  # fmt: skip
def test_replies_are_as_long_as_the_model_needs(
    base_model: str, max_tokens: int, expected: int
) -> None:
    config = TrainConfig(trainer_host="embedded", base_model=base_model, max_tokens=max_tokens)
    assert embedded.reply_tokens(config) == expected


# Which groups are trained


def group(*rewards: float) -> TrajectoryGroup:
    turn = Turn((), "", ())
    return TrajectoryGroup(tuple(Trajectory((turn,), reward=r) for r in rewards))


def test_only_whole_groups_with_an_advantage_are_trained() -> None:
    groups = [group(1, 0, 1), group(1, 0), group(1, 1, 1), group(), group(0, 0, 2)]
    credited = Credit().assign(complete_groups(groups, 3))
    chosen = select_groups(groups, credited)
    assert chosen.trained == [credited[0], credited[2]]
    counted = chosen.counts
    assert (counted.trained, counted.incomplete, counted.no_variance) == (2, 2, 1)
    assert select_groups(groups, credited, penalised=True).trained == credited


def test_opponents_are_drawn_by_weight() -> None:
    mix = OpponentMix.parse("bot:random=3, self ,past=1", KUHN)
    drawn = Counter(mix.draw(5000, [0, 4], stream(0, "drawing")))
    assert drawn["bot:random"] == pytest.approx(3000, abs=150)
    assert drawn[NEWEST] == pytest.approx(1000, abs=120)
    assert drawn["policy:0"] == pytest.approx(500, abs=100) == drawn["policy:4"]
    for wrong in ("bot:random=0", "bot:random=inf", "=1", "bot:random,,self"):
        with pytest.raises(UsageError, match="SPEC=WEIGHT"):
            OpponentMix.parse(wrong, KUHN)


@pytest.mark.parametrize(
    "wrong",
    [
        {"eval_against": "bot:random,bot:nobody"},
        {"opponents": "openrouter:some/model"},
        {"eval_against": "human"},
        {"self_play": True, "opponents": "past"},
        {"prompt": "no-such-prompt"},
    ],
    ids=str,
)
def test_a_wrong_wish_is_found_before_anything_is_written(
    base: Path, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        learn(small(base, **wrong), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_deals_of_different_seeds_differ_and_none_is_held_out(base: Path) -> None:
    first = [first_deal(seed) for seed in range(200)]
    assert len({*first}) == 200 and first[39] == 390_000_000
    assert not any(PERIODIC - 10_000_000 < seed < FINAL + 10_000_000 for seed in first)
    mix, few = OpponentMix.parse("bot:random", KUHN), small(base)
    configs = [few.model_copy(update={"seed": seed}) for seed in (0, 40)]
    deals = [{deal.seed for deal in schedule_step(each, 2, mix, (), 0)} for each in configs]
    assert len(deals[0] | deals[1]) == 4


# What the update is given


SINGLE_STEP = UpdateOptions(learning_rate=0.01, minibatches=1, threads=1)


@pytest.mark.parametrize("changes", [{}, {"temperature": 0.5}, {"guided": True}], ids=str)
def test_ratios_correct_for_how_tokens_were_drawn(
    base: Path, tmp_path: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a single optimizer step the weights are those that sampled: all else is the drawing."""
    many = {"groups_per_step": 4, "rollouts_per_group": 8}
    monkeypatch.setattr(TrainConfig, "update", property(lambda _: SINGLE_STEP))
    learn(small(base, **many | {"guided": False} | changes), tmp_path / "x")
    row = rows_of(tmp_path / "x")[-1]
    assert row.groups.trained and row.update["kl"] == pytest.approx(0.0, abs=1e-6)
    assert (row.update["ratio"] == pytest.approx(1.0, abs=1e-4)) == (not changes)


def test_tokens_without_the_chance_they_were_drawn_with_are_not_trained(
    base: Path, tmp_path: Path
) -> None:
    def plain(found: Completion) -> Completion:
        tokens = tuple(replace(t, sampled_logprob=None) for t in found.choice.tokens)
        return replace(found, choice=replace(found.choice, tokens=tokens))

    def run(name: str, **changes: Any) -> RunState:
        run = faulty(small(base, **changes), tmp_path / name, change=plain)
        return asyncio.run(run.complete())

    for name, changes in (("guided", {"guided": True}), ("cold", {"temperature": 0.5})):
        with pytest.raises(StopPlaying, match="probabilities it samples with"):
            run(name, **{"guided": False, **changes})
    assert run("plain", guided=False).step == 1


def test_the_reference_of_the_penalty_moves_on_and_is_kept(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainers.config.config, "KL_REFERENCE_EVERY", 2)
    monkeypatch.setattr(trainers.loop.training, "KEPT_POOL", 1)
    monkeypatch.setattr(checkpoints, "MIXTURE_POOL", 1)
    folder, given, there = tmp_path / "x", [], []

    class Watched(Faulty):
        async def train(self, groups: Any, kl_reference: int) -> dict[str, float]:
            given.append(kl_reference)
            there.append(sorted(path.name for path in (folder / "checkpoints").iterdir()))
            return await super().train(groups, kl_reference)

    config = small(base, steps=5, kl_coef=0.1, self_play=True, opponents="")
    host = Watched(EmbeddedHost(HostRequest(config, folder, quick())))
    asyncio.run(GRPO(config, host, folder, Notes(), quick()).complete())
    assert given == [0, 0, 2, 2, 4]
    assert there == [[], ["0001"], ["0002"], ["0002", "0003"], ["0004"]]


# What fails


class Faulty:
    """A host whose answers and updates may be made to fail; else it is the one it was made from."""

    def __init__(
        self,
        inner: EmbeddedHost,
        fault: Callable[[Request], Awaitable[None]] | None = None,
        updates: list[Exception] | None = None,
        change: Callable[[Completion], Completion] = lambda found: found,
    ) -> None:
        self._inner = inner
        self._fault = fault
        self._change = change
        self._updates = updates or []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def train(self, groups: Any, settings: Any) -> dict[str, float]:
        if self._updates:
            raise self._updates.pop(0)
        return await self._inner.train(groups, settings)

    def policy(self, step: int | None = None) -> Backend:
        return FaultyBackend(self._inner.policy(step), self)


class FaultyBackend:
    def __init__(self, inner: Backend, host: Faulty) -> None:
        self._inner = inner
        self._host = host
        self.model, self.context_length = inner.model, inner.context_length

    async def complete(self, request: Request) -> Completion:
        if self._host._fault is not None:
            await self._host._fault(request)
        return self._host._change(await self._inner.complete(request))

    async def close(self) -> None: ...


def faulty(config: TrainConfig, folder: Path, **faults: Any) -> GRPO:
    host = EmbeddedHost(HostRequest(config, folder, quick()))
    view = faults.pop("view", Notes())
    return GRPO(config, Faulty(host, **faults), folder, view, quick(patience=0.3))


def every(number: int, act: Callable[[], Awaitable[None]]) -> Callable[[Request], Awaitable[None]]:
    """Do this at every so many requests."""
    seen = 0

    async def fault(_: Request) -> None:
        nonlocal seen
        seen += 1
        if seen % number == 0:
            await act()

    return fault


async def refuse() -> None:
    raise BackendError("the request was bad", "bad_request")


async def overflow() -> None:
    raise ContextOverflow("the prompt is too long")


async def crash() -> None:
    raise RuntimeError("out of memory")


async def hang() -> None:
    await asyncio.sleep(60)


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize(("fault", "often"), [(refuse, 4), (crash, 4), (hang, 7)])
def test_a_game_that_fails_is_played_again(
    base: Path,
    tmp_path: Path,
    fault: Callable[[], Awaitable[None]],
    often: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A game that hangs is waited for. On a slow machine others may take that long once, too.
    seconds = 1.0 if fault is hang else 60.0
    made = setup.rollout_setting
    monkeypatch.setattr(grpo, "rollout_setting", lambda *of: replace(made(*of), timeout=seconds))
    run = faulty(small(base), tmp_path / "x", fault=every(often, fault))
    asyncio.run(run.complete())
    row = rows_of(tmp_path / "x")[-1]
    assert row.failed > 0 and row.games == 6 and row.groups.incomplete == 0
    assert row.legal_rate == 1.0


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("fault", [refuse, crash])
def test_a_game_that_keeps_failing_takes_its_group_with_it_and_is_no_loss(
    base: Path, tmp_path: Path, fault: Callable[[], Awaitable[None]]
) -> None:
    """Only one of the two deals can be played: the others' hands differ in what they read."""
    config = small(base, groups_per_step=4)
    first: list[str] = []

    async def of_one_deal(request: Request) -> None:
        told = request.messages[1].content
        first[:] = first or [told]
        if told == first[0]:
            await fault()

    view = Notes()
    run = faulty(config, tmp_path / "x", fault=of_one_deal, view=view)
    asyncio.run(run.complete())
    row = rows_of(tmp_path / "x")[-1]
    groups = row.groups
    assert 1 <= groups.incomplete < 4 and row.failed == groups.incomplete * 3 * 3
    assert groups.trained + groups.no_variance == 4 - groups.incomplete
    assert row.games == 3 * (4 - groups.incomplete) and row.legal_rate == 1.0
    assert any(f"of {row.failed} failed games: seat" in line for line in view.said)


def test_a_run_in_which_every_game_fails_stops(base: Path, tmp_path: Path) -> None:
    run = faulty(small(base, steps=2), tmp_path / "x", fault=every(1, refuse))
    reason = r"no game of step 1 could be finished: seat \d .* the request was bad"
    with pytest.raises(StopPlaying, match=reason):
        asyncio.run(run.complete())
    state = RunState.model_validate_json(RunFiles(tmp_path / "x").state.read_text())
    assert (state.step, state.status) == (0, "interrupted") and "the request" in state.reason


@pytest.mark.usefixtures("one_at_a_time")
def test_a_chat_that_is_too_long_is_an_illegal_reply_and_no_failure(
    base: Path, tmp_path: Path
) -> None:
    config = small(base, eval_every=1, eval_games=30, steps=2)
    view = Notes()
    count = itertools.count()

    async def now_and_then(_: Request) -> None:
        if next(count) % 8 > 3:  # Often enough in a row for all that can be left out.
            await overflow()

    run = faulty(config, tmp_path / "x", fault=now_and_then, view=view)
    asyncio.run(run.complete())
    rows = rows_of(tmp_path / "x")[1:]
    assert sum(row.context_overflow for row in rows) > 0
    for row in rows:
        assert row.failed == 0 and row.games == 6
        assert row.legal_rate == pytest.approx(1 - row.context_overflow / row.decisions)
    assert sum("too long for the model" in line for line in view.said) == 1


@pytest.mark.parametrize("eval_every", [0, 1])
def test_a_model_without_room_for_the_first_prompt_is_refused(
    base: Path, tmp_path: Path, eval_every: int
) -> None:
    run = faulty(small(base, eval_every=eval_every), tmp_path / "x", fault=every(1, overflow))
    with pytest.raises(UsageError, match="not even the first prompt.*max_context_tokens"):
        asyncio.run(run.complete())


def test_an_evaluation_without_answers_is_none(base: Path, tmp_path: Path) -> None:
    config = small(base, eval_every=1, eval_games=20)
    run = faulty(config, tmp_path / "x", fault=every(4, refuse))
    with pytest.raises(ArenaError, match=r"in \d+ of 20 held-out games .* whether the server"):
        asyncio.run(run.complete())


def test_a_dead_backend_ends_the_run_and_what_is_finished_is_kept(
    base: Path, tmp_path: Path
) -> None:
    folder, config = tmp_path / "x", small(base, steps=2)
    learn(small(base), folder)

    async def gone(_: Request) -> None:
        raise BackendError("connection refused", "connection", retryable=True)

    run = faulty(config, folder, fault=gone)
    with pytest.raises(ArenaError) as caught:
        asyncio.run(run.complete())
    assert "connection refused" in str(caught.value) and "\n" not in str(caught.value)
    assert [row.step for row in rows_of(folder)] == [0, 1]
    learn(config, folder)
    learn(config, tmp_path / "whole")
    assert weights(folder, 2) == weights(tmp_path / "whole", 2)


def test_an_answer_of_other_weights_stops_the_run(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "x"
    run = faulty(small(base), folder, change=lambda found: replace(found, policy_version=7))
    with pytest.raises(StopPlaying, match="weights of step 7 have answered, not those of step 0"):
        asyncio.run(run.complete())
    assert rows_of(folder)[-1].step == 0 and not list((folder / "checkpoints").iterdir())
