"""Playing on from a position of a replay."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_games import play_models

from arena.agents.chat import ChatOptions, attempts_in, requests_of
from arena.core.analysis import Appraiser
from arena.core.errors import ReplayError, UsageError
from arena.core.game import Game
from arena.episodes.branch import models_of, position, redraws_deal
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, play
from arena.episodes.record import DecisionLine
from arena.episodes.replay import Replay, read_replay, verify
from arena.evaluation.analysis import SkippedFile, measure_replay
from arena.llm.backend import Message, Request
from arena.plugins.catalog import make_game
from backends.scripted import ScriptedBackend

GAMES: dict[str, tuple[Game, list[str]]] = {
    "cards": (make_game("cluedo", players=3), ["bot:novice", "bot:detective", "bot:oracle"]),
    "classic": (
        make_game("cluedo", variant="classic", players=3),
        ["bot:novice", "bot:detective", "bot:random"],
    ),
    "kuhn": (make_game("kuhn_poker"), ["bot:random"] * 2),
    "goofspiel": (make_game("goofspiel", players=3, cards=4), ["bot:random"] * 3),
    "tictactoe": (make_game("tictactoe"), ["bot:random"] * 2),
}


def record(folder: Path, name: str, seed: int, specs: Sequence[str] = (), **more: Any) -> Replay:
    """Play one game, or go on with one (`start`), and read what was written."""
    game, usual = GAMES[name]
    names = list(specs or usual)
    writer = ReplayWriter(folder, f"{name}-{seed}")
    start = more.pop("start", None)
    asyncio.run(play(Match(game, names, seed, **more), start=start, watchers=[writer]))
    return read_replay(writer.path)


@pytest.fixture(scope="module")
def parents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Replay]:
    folder = tmp_path_factory.mktemp("parents")
    return {name: record(folder, name, 5) for name in GAMES}


def branch_off(folder: Path, parent: Replay, name: str, ply: int, seed: int, **more: Any) -> Replay:
    return record(folder, name, seed, start=position(parent, ply), **more)


def changed(replay: Replay, folder: Path, **fields: Any) -> Replay:
    """The same with other fields of its youngest branch."""
    header, *rest = replay.path.read_text(encoding="utf-8").splitlines()
    line = json.loads(header)
    line["branches"][-1] |= fields
    path = folder / "changed.jsonl"
    path.write_text("\n".join([json.dumps(line), *rest]) + "\n", encoding="utf-8")
    return read_replay(path)


def last_position(replay: Replay) -> int:
    """The last position at which somebody may play on."""
    return max([0, *(w.ply.number + 1 for w in replay.walk() if not w.state.is_terminal)])


# Branches


def test_a_branch_is_a_replay_of_its_own(parents: dict[str, Replay], tmp_path: Path) -> None:
    parent = parents["cards"]
    found = branch_off(tmp_path, parent, "cards", 12, 77, specs=["bot:oracle"] * 3)
    assert verify(found) is None
    assert found.moves[:12] == parent.moves[:12]
    header = found.header
    assert header.seed == parent.header.seed and header.players == ("bot:oracle",) * 3
    (origin,) = header.branches
    assert origin.parent == parent.path.name
    assert origin.parent_sha256 == hashlib.sha256(parent.path.read_bytes()).hexdigest()
    assert (origin.ply, origin.seed, origin.players) == (12, 77, parent.header.players)


def test_nobody_is_measured_by_plies_that_others_played(
    parents: dict[str, Replay], tmp_path: Path
) -> None:
    found = branch_off(tmp_path, parents["cards"], "cards", 12, 77)
    skipped = measure_replay(found.path, scored=False)
    assert isinstance(skipped, SkippedFile)
    assert "only from ply 13 on" in skipped.reason


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(sorted(GAMES)), st.data())
def test_every_position_can_be_played_on_from(
    parents: dict[str, Replay], tmp_path_factory: pytest.TempPathFactory, name: str, data: Any
) -> None:
    """Between the commits of a simultaneous move too; and branches of branches."""
    parent, folder = parents[name], tmp_path_factory.mktemp("branches")
    for depth in range(data.draw(st.integers(1, 3))):
        ply = data.draw(st.integers(0, last_position(parent)))
        seed = data.draw(st.integers(0, 3))
        found = branch_off(folder, parent, name, ply, seed)
        assert verify(found) is None
        assert [m.action for m in found.moves[:ply]] == [m.action for m in parent.moves[:ply]]
        assert len(found.header.branches) == depth + 1
        parent = found


def test_hidden_cards_stay_where_they_are(parents: dict[str, Replay], tmp_path: Path) -> None:
    for name in ("cards", "classic"):
        parent = parents[name]
        kept = branch_off(tmp_path, parent, name, 1, 30)
        dealt = branch_off(tmp_path, parent, name, 0, 31)
        assert kept.moves[0] == parent.moves[0]
        assert dealt.moves[0] != parent.moves[0]
        assert redraws_deal(parent, position(parent, 0))
        assert not redraws_deal(parent, position(parent, 1))
    assert not redraws_deal(parents["tictactoe"], position(parents["tictactoe"], 0))


def test_an_older_branch_that_begins_later_has_left_nothing(
    parents: dict[str, Replay], tmp_path: Path
) -> None:
    old = branch_off(tmp_path, parents["classic"], "classic", 20, 1)
    young = branch_off(tmp_path, old, "classic", 6, 2)
    assert [b.ply for b in young.header.branches] == [20, 6]
    assert young.header.chance_seeds() == {0: 5, 6: 2}
    assert verify(young) is None
    oldest = branch_off(tmp_path, young, "classic", 9, 2)  # Same seed: the stream begins again.
    assert oldest.header.chance_seeds() == {0: 5, 6: 2, 9: 2}
    assert verify(oldest) is None


def test_where_nobody_can_play_on(parents: dict[str, Replay]) -> None:
    for parent in parents.values():
        last = last_position(parent)
        assert len(position(parent, last).plies) == last
        for ply in (last + 1, len(parent.moves) + 7):
            with pytest.raises(UsageError, match=f"the game is over there; choose .* 0 to {last}"):
                position(parent, ply)


# Whoever changes a branch


@pytest.mark.parametrize("fields", [{"seed": 3}, {"ply": 4}, {"ply": 10**9}])
def test_a_changed_branch_does_not_verify(
    parents: dict[str, Replay], tmp_path: Path, fields: dict[str, Any]
) -> None:
    found = branch_off(tmp_path, parents["classic"], "classic", 20, 2)
    difference = verify(changed(found, tmp_path, **fields))
    assert difference is not None and difference.startswith("ply ")


@pytest.mark.parametrize(
    "fields",
    [
        {"seed": "x"},
        {"ply": -1},
        {"ply": None},
        {"parent": "a\x1b[2Jb"},
        {"parent_sha256": "../x"},
        {"players": ["bot:novice"]},
        {"players": 3},
        {"more": 1},
        {"seed": 2**70},
    ],
)
def test_what_is_no_branch_is_said(
    parents: dict[str, Replay], tmp_path: Path, fields: dict[str, Any]
) -> None:
    found = branch_off(tmp_path, parents["cards"], "cards", 8, 2)
    with pytest.raises(ReplayError, match="line 1: .*branch"):
        verify(changed(found, tmp_path, **fields))


def test_nobody_plays_on_from_a_forged_replay(parents: dict[str, Replay], tmp_path: Path) -> None:
    text = parents["cards"].path.read_text(encoding="utf-8")
    path = tmp_path / "forged.jsonl"
    path.write_text(text.replace('"seed":5', '"seed":6', 1), encoding="utf-8")
    with pytest.raises(ReplayError, match="ply 1: the seed draws"):
        position(read_replay(path), 3)
    path.write_text(text.replace('"details":{}', '"details":{"x":NaN}', 1), encoding="utf-8")
    with pytest.raises(ReplayError, match="ply 2: .*not JSON compliant"):
        position(read_replay(path), 3)
    path.write_text(text.replace('"models":null', '"models":{"max_attempts":99}', 1), "utf-8")
    with pytest.raises(ReplayError, match="models: max_attempts is 99"):
        models_of(read_replay(path))
    path.write_text(text.replace('"models":null', '"models":{"chat":["x"]}', 1), "utf-8")
    with pytest.raises(ReplayError, match="models.chat"):
        models_of(read_replay(path))


def test_how_models_were_asked_is_read_back(parents: dict[str, Replay], tmp_path: Path) -> None:
    options = ChatOptions(chat="fresh", max_attempts=2, guided=True)
    game, specs = GAMES["tictactoe"]
    writer = ReplayWriter(tmp_path, "game")
    agents = Match(game, specs, 1).seat()
    asyncio.run(play(Match(game, specs, 1, chat=options), agents, watchers=[writer]))
    assert models_of(read_replay(writer.path)) == options
    assert models_of(parents["cards"]) is None


# Who joins in the middle


def test_a_model_that_joins_is_told_everything_its_seat_has_seen(
    parents: dict[str, Replay], tmp_path: Path
) -> None:
    parent = parents["cards"]
    game, backend = GAMES["cards"][0], ScriptedBackend(lambda request: "end turn")
    match = Match(game, ["scripted", "bot:novice", "bot:novice"], 1, max_turns=30)
    play_models(match, backend, tmp_path, start=position(parent, 14))
    own = [
        w
        for w in read_replay(tmp_path / "game.jsonl").walk()
        if w.ply.number >= 14 and w.observation is not None
    ]
    first = next(w.observation for w in own if w.ply.decision.details)
    assert first is not None and first.player == 0
    (system, told) = backend.requests[0].messages
    assert system.role == "system" and told.content == first.text("notes")


def scripted_game(
    folder: Path, name: str, reply: Callable[[Request], str], seed: int, **more: Any
) -> tuple[Replay, list[tuple[Message, ...]]]:
    """Play with a scripted model in seat 0; return the replay and the requests of the model."""
    backend = ScriptedBackend(reply)
    start = more.pop("start", None)
    match = Match(
        GAMES["cards"][0],
        [more.pop("spec", "scripted"), "bot:novice", "bot:novice"],
        seed,
        **{"chat": ChatOptions(), "max_turns": 12, **more},
    )
    play_models(match, backend, folder, stem=name, start=start)
    return read_replay(folder / f"{name}.jsonl"), [request.messages for request in backend.requests]


def careless(request: Request) -> str:
    """Give a wrong answer first, now and then."""
    corrected = request.messages[-1].content.count("Answer") > 1 or len(request.messages) % 4
    return "end turn" if corrected else "I do not know"


def test_a_model_that_stays_plays_on_in_its_chat(tmp_path: Path) -> None:
    parent, asked = scripted_game(tmp_path, "parent", careless, 5)
    own = [m.ply for m in parent.moves if isinstance(m, DecisionLine) and m.details]
    before = [m for m in parent.moves[: own[2]] if isinstance(m, DecisionLine) and m.details]
    requests = sum(len(cast("list[Any]", m.details["attempts"])) for m in before)
    assert requests > len(before)  # One of the earlier replies was corrected.
    start = position(parent, own[2])
    found, again = scripted_game(tmp_path, "same", careless, 9, start=start)
    # The next request is that of the parent, message by message, with the earlier answers.
    assert again[0] == asked[requests] and len(again[0]) > 2
    # The record of the whole chat can be read back, and is that of the parent up to there.
    attempts = [a for ply in found.walk() for a in attempts_in(ply.ply.decision)]
    assert requests_of(attempts)[: requests + 1] == asked[: requests + 1]
    # A branch of the branch does the same.
    later = position(found, own[2] + 1)
    _, third = scripted_game(tmp_path, "third", careless, 11, start=later)
    assert third[0][: len(again[0])] == again[0]


@pytest.mark.parametrize(
    "change",
    [
        {"spec": "scripted:other"},
        {"text_level": "deductions"},
        {"chat": ChatOptions(max_attempts=2)},
    ],
)
def test_another_model_or_another_chat_reads_everything_anew(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    parent, _ = scripted_game(tmp_path, "parent", careless, 5)
    own = [m.ply for m in parent.moves if isinstance(m, DecisionLine) and m.details]
    _, again = scripted_game(
        tmp_path, "other", careless, 9, start=position(parent, own[2]), **change
    )
    assert [m.role for m in again[0]] == ["system", "user"]


# Positions on the way


def test_facts_of_moves_are_those_of_the_game(parents: dict[str, Replay]) -> None:
    """The facts known before a move are among those that are told after it."""
    for name in ("cards", "classic"):
        parent, kinds = parents[name], set[str]()
        assessor = GAMES[name][0].analysis.assessor()
        assert isinstance(assessor, Appraiser)
        for walked in parent.walk():
            ply, before = walked.ply, dict[str, Any]()
            if ply.player >= 0:
                before = dict(assessor.appraise(ply.player, ply.decision.action))
            told = [each.facts for each in assessor.ply(ply) if each.ply == ply.number]
            if before:
                assert any(before.items() <= dict(facts).items() for facts in told)
                kinds.add(next(iter(before)))
        assert kinds == {"expected", "leaked", "probability"}


def test_the_observation_is_that_of_the_moment(parents: dict[str, Replay]) -> None:
    """Sealed bids stay sealed, and nothing that came later is told."""
    parent = parents["goofspiel"]
    for walked in parent.walk():
        state, seen = GAMES["goofspiel"][0].initial_state(), walked.observation
        for move in parent.moves[: walked.ply.number]:
            state.apply(getattr(move, "player", -1), state.parse(move.action))
        if seen is not None:
            assert seen == state.observe(seen.player)
            assert seen.text("events") == state.observe(seen.player).text("events")
