"""The expert: what a stronger player would have done at the learner's own decisions."""

from __future__ import annotations

import asyncio
import pickle
import random
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

from scripted_table import quick
from small_runs import learn, rows_of, small, small_base, weights

from arena.core.action import CHANCE, Step
from arena.core.errors import UsageError
from arena.episodes.match import Match, play
from arena.episodes.record import Episode
from arena.llm.backend import Message
from arena.plugins.loader import make_game
from backends.embedded.architecture import read_model_config
from backends.embedded.tokenizer import ChatTokenizer
from trainers.algorithms.imitation import expert_sequences
from trainers.config.config import TrainConfig
from trainers.hosts.host import train_arguments
from trainers.loop.setup import check_config
from trainers.rollouts.expert import Expert, Label, Search
from trainers.rollouts.trajectories import labelled
from trainers.trajectory import SampledToken, Trajectory, TrajectoryGroup, Turn

KUHN = make_game("kuhn_poker")
CLUEDO = make_game("cluedo", players=3)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_base(tmp_path_factory.mktemp("base"))


def game_of(specs: Sequence[str], seed: int, game: Any = KUHN) -> Episode:
    return asyncio.run(play(Match(game, specs, seed)))


def searched(history: Sequence[Step], state: Any, own: str, seed: int = 0) -> str:
    seat = state.to_act[0]
    search = Search(KUHN, seat, ("bot:random", "policy:newest"), None, 60)
    return str(search.best(history, state, state.parse(own), random.Random(seed)))


def positions() -> dict[tuple[str, str], tuple[list[Step], Any]]:
    """Return the positions after a bet of the first player, by both hands."""
    found = {}
    state = KUHN.initial_state()
    stack: list[tuple[list[Step], Any]] = [([], state)]
    while stack:
        history, state = stack.pop()
        if state.to_act == (CHANCE,):
            for outcome in state.chance_outcomes():
                after = state.clone()
                after.apply(CHANCE, outcome.action)
                stack.append(([*history, Step(CHANCE, outcome.action)], after))
            continue
        bet = next(a for a in state.legal_actions(0) if "bet" in str(a))
        state.apply(0, bet)
        hands = tuple(
            next(w for w in ("Jack", "Queen", "King") if w in state.observe(p).text("notes"))
            for p in (0, 1)
        )
        found[hands[0], hands[1]] = ([*history, Step(0, bet)], state)
    return found


def test_the_search_finds_what_is_best_whatever_the_hidden_card_is() -> None:
    known = positions()
    assert len(known) == 6
    for (_, own), (history, state) in known.items():
        first, second = map(str, state.legal_actions(1))
        labels = {searched(history, state, text, 3) for text in (first, second)}
        # With a King calling wins 2 chips more than folding, with a Jack it loses one more. With a
        # Queen it is the mean of both worlds: the true card must not decide.
        assert len(labels) == 1
        label = labels.pop()
        if own == "King":
            assert label == "bet"
        if own == "Jack":
            assert label == "pass"
    queens = [searched(*known[other, "Queen"], own="pass", seed=5) for other in ("Jack", "King")]
    assert queens[0] == queens[1]


@pytest.mark.parametrize("spec", ["search", "bot:detective"])
def test_labels_are_legal_actions_at_the_decisions_of_the_seat(spec: str) -> None:
    episode = game_of(["bot:novice", "bot:detective", "bot:novice"], 4, CLUEDO)
    expert = pickle.loads(pickle.dumps(Expert.parse(spec, 1.0, CLUEDO)))
    expert = replace(expert, share=0.2) if spec == "search" else expert
    labels = expert.labels(CLUEDO, episode, 1)
    assert labels == expert.labels(CLUEDO, episode, 1) and labels
    state = CLUEDO.initial_state()
    unforced = set()
    for ply in episode.plies:
        legal = state.legal_actions(ply.player)
        if ply.player == 1 and not legal.is_forced:
            unforced.add(ply.number)
        if ply.number in labels:
            assert ply.player == 1 and labels[ply.number].action in legal
        state.apply(ply.player, ply.decision.action)
    assert labels.keys() <= unforced and (spec == "search" or labels.keys() == unforced)
    if spec == "bot:detective":
        # What it is certain of, it does again.
        last = max(labels)
        if "accuse" in str(episode.plies[last].decision.action):
            assert labels[last].action == episode.plies[last].decision.action


def test_a_share_of_the_decisions_is_labelled() -> None:
    some = everything = 0
    for seed in range(6):
        episode = game_of(["bot:novice", "bot:detective", "bot:novice"], seed, CLUEDO)
        everything += len(Expert("bot:detective", 1.0).labels(CLUEDO, episode, 1))
        some += len(Expert("bot:detective", 0.3).labels(CLUEDO, episode, 1))
    assert 0.1 * everything < some < 0.55 * everything


def turn(text: str, ply: int, **more: Any) -> Turn:
    return Turn(
        (Message("user", "Your move?"),), text, (SampledToken(1, 0.0, 0.0),), ply=ply, **more
    )


def test_a_label_has_the_form_of_the_learners_own_answer() -> None:
    episode = game_of(["bot:random", "bot:random"], 1)
    (ply, *_) = (p for p in episode.plies if p.player != CHANCE)
    played = str(ply.decision.action)
    other = next(a for a in KUHN.actions.actions if str(a) != played)
    turns = (
        turn(f"I think so.\nAction: {played}", ply.number),
        turn(f"let me {played}, please", ply.number),
        turn("nonsense", ply.number, is_legal=False),
        turn(played, ply.number + 1),
    )
    found = labelled(Trajectory(turns), episode, {ply.number: Label(other)}, "text")
    assert [one.expert for one in found.turns] == [
        f"I think so.\nAction: {other}", f"Action: {other}", "", "",
    ]  # fmt: skip


def test_a_label_is_trained_in_the_chat_that_the_learner_has_had(base: Path) -> None:
    tokenizer = ChatTokenizer(base, read_model_config(base))
    turns = (turn("bet", 1, starts_chat=True), replace(turn("fold", 3), expert="call"))
    group = TrajectoryGroup((Trajectory(turns), Trajectory((turn("bet", 1),))))
    (label,) = expert_sequences([group], tokenizer)
    chat = [*turns[0].messages, Message("assistant", "bet"), *turns[1].messages]
    prompt = tokenizer.encode(chat)
    assert label.ids[: len(prompt)] == prompt
    assert label.sampled_positions == list(range(len(prompt), len(label.ids)))
    assert tokenizer.tokenizer.decode(label.ids[len(prompt) : -1]) == "call"
    assert label.ids[-1] in tokenizer.end_ids


def test_a_run_learns_from_the_expert_and_resumes_to_the_bit(base: Path, tmp_path: Path) -> None:
    taught: dict[str, Any] = {"expert": "search", "expert_share": 1.0, "expert_updates": 2}
    whole, parts, alone = (tmp_path / name for name in ("whole", "parts", "alone"))
    learn(small(base, steps=3, **taught), whole)
    rows = rows_of(whole)
    losses = [row.update["expert_loss"] for row in rows[1:]]
    assert losses[-1] < losses[0] and rows[1].update["expert_labels"] >= 6
    learn(small(base, steps=1, **taught), parts)
    elsewhere = {"executor": "processes", "workers": 1}
    learn(small(base, steps=3, **taught, **elsewhere), parts)
    assert weights(parts, 3) == weights(whole, 3)
    learn(small(base, steps=1), alone)
    assert "expert_loss" not in rows_of(alone)[1].update
    assert weights(alone, 1) != weights(whole, 1)


@pytest.mark.parametrize(
    ("game", "spec", "error"),
    [
        ("kuhn_poker", "bot:nobody", "expert=bot:nobody: kuhn_poker has no bot 'nobody'"),
        ("kuhn_poker", "openai:gpt-4o", "expert=openai:gpt-4o: the expert is `search` or a bot"),
        ("tictactoe", "search", "expert=search: tictactoe has no exact knowledge"),
    ],
)
def test_an_expert_that_cannot_teach_is_refused(game: str, spec: str, error: str) -> None:
    with pytest.raises(UsageError, match=error.replace("(", r"\(")) as caught:
        check_config(TrainConfig(game=game, expert=spec), quick(), 0)
    assert "\n" not in str(caught.value)


def test_other_hosts_refuse_an_expert() -> None:
    def train(model: Any, groups: Any, *, learning_rate: float, **kwargs: Any) -> None: ...

    config = TrainConfig(expert="search")
    with pytest.raises(UsageError, match="does not support: --set expert=search .*embedded"):
        train_arguments(config, train, host="the host local")
