"""Games of other libraries in processes of their own, and their bots: `make test-adapters`."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import random
import signal
import threading
from pathlib import Path

import pytest
from web_viewer import record, serving

from arena import CHANCE, State, make_game
from arena.cli import run
from arena.core.errors import ArenaError, UsageError
from arena.episodes.match import act_out
from arena.testing.conformance import check_copies
from games.adapters.library_game import LibraryGame, process_of
from games.adapters.process import MOST_RUNNING, ApartState, LibraryProcess

pyspiel = pytest.importorskip("pyspiel")
pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]

DEADLY = [
    ("universal_poker", {"numPlayers": 3}, "its process was ended by SIGSEGV"),
    ("universal_poker", {"numPlayers": 10}, "its process was ended by SIGSEGV"),
    ("universal_poker", {"numRanks": 0}, "its process was ended by SIGSEGV"),
    ("hanabi", {"players": 5, "colors": 9}, "its process was ended by SIGABRT"),
    ("hex", {"board_size": 0}, "no move is legal at the start"),
    ("hex", {"board_size": 100_000}, "cannot be played"),
    ("nim", {"pile_sizes": "-1"}, "no move is legal at the start"),
    ("nim", {"pile_sizes": "1000000000"}, 'cannot be played with {"pile_sizes": "1000000000"}'),
    ("goofspiel", {"num_cards": 1_000_000}, 'cannot be played with {"num_cards": 1000000}'),
]


@pytest.mark.parametrize(("name", "options", "message"), DEADLY)
def test_parameters_that_kill_or_block_are_one_line(
    name: str, options: dict[str, int], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        make_game(f"open_spiel/{name}", **options)
    assert message in str(caught.value) and f"open_spiel/{name}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_textarena_that_does_not_end_to_load() -> None:
    pytest.importorskip("textarena")
    with pytest.raises(UsageError, match="did not answer within 20 s"):
        make_game("textarena/SpellingBee-v0")


def replay_with(folder: Path, name: str, options: dict[str, int], players: int) -> Path:
    """Write the first line of a replay, as anyone could."""
    header = json.loads(record(folder, "usual").read_text("utf-8").splitlines()[0])
    header |= {
        "game": f"open_spiel/{name}",
        "options": options,
        "players": ["bot:random"] * players,
    }
    path = folder / "deadly.jsonl"
    path.write_text(json.dumps(header) + "\n", "utf-8")
    return path


def test_a_replay_of_one_line_does_not_end_the_web_viewer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("starlette")
    path = replay_with(tmp_path, "universal_poker", {"numPlayers": 3}, 3)
    assert run(["replay", "verify", str(path)]) != 0
    assert "its process was ended by SIGSEGV" in capsys.readouterr().err
    with serving(tmp_path) as server:
        for _ in range(2):
            answer = server.get("/api/timeline?path=deadly.jsonl")
            assert answer.status == 422
            assert "its process was ended by SIGSEGV" in answer.json["error"]
        assert server.get("/api/timeline?path=usual.jsonl").status == 200


def running_process(game: object) -> LibraryProcess:
    process = process_of(game) if isinstance(game, LibraryGame) else None
    assert process is not None
    return process


def after_chance(name: str) -> State:
    state = make_game(name).initial_state()
    assert isinstance(state, ApartState)
    while state.to_act == (CHANCE,):
        state.apply(CHANCE, state.sample_chance(random.Random(1)))
    return state


def test_a_death_in_play_is_one_line_and_the_moves_are_played_again() -> None:
    state = after_chance("open_spiel/kuhn_poker:players=3")
    twin = state.clone()
    pid, player = running_process(state.game)._process.pid, state.to_act[0]
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(ArenaError, match="ended by SIGKILL; at '") as caught:
        state.apply(player, state.legal_actions(player)[0])
    assert "\n" not in str(caught.value)
    # The next request starts another process, also after a death between two requests.
    state.apply(player, state.legal_actions(player)[0])
    os.kill(running_process(state.game)._process.pid, signal.SIGKILL)
    running_process(state.game)._process.wait()
    twin.apply(player, twin.legal_actions(player)[0])
    assert state.log.events == twin.log.events


def test_a_library_that_fails_at_a_move_does_not_lose_the_process() -> None:
    state = after_chance("open_spiel/kuhn_poker:players=3")
    process = running_process(state.game)
    pid = process._process.pid
    with pytest.raises(ArenaError, match="AttributeError"):
        process.call("jump")
    assert process._process.pid == pid and state.reason()


def test_more_games_than_processes_go_on_in_turn() -> None:
    games = [make_game(f"open_spiel/kuhn_poker:players={n}") for n in range(3, 3 + MOST_RUNNING)]
    games += [make_game(f"open_spiel/goofspiel:num_cards={n}") for n in (3, 4)]
    states = [game.initial_state() for game in games]
    for _ in range(2):
        for state in states:
            act_out(state, random.Random(2), plies=1)
    alone = [game.initial_state() for game in games]
    for state, other in zip(states, alone, strict=True):
        act_out(other, random.Random(2), plies=1)
        act_out(other, random.Random(2), plies=1)
        assert state.log.events == other.log.events


def test_copies_pickles_and_forks() -> None:
    game = make_game("open_spiel/goofspiel:num_cards=4,imp_info=true")
    check_copies(game, 1)
    state = game.initial_state()
    act_out(state, random.Random(1), plies=2)
    assert running_process(game) is running_process(pickle.loads(pickle.dumps(game)))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        other = pool.apply(played_on, (state,))
    assert other == played_on(state)


def played_on(state: State) -> list[str]:
    act_out(state, random.Random(3))
    return [str(event) for event in state.log.events]


def test_the_same_game_here_and_apart() -> None:
    """Chance draws the same; a parameter that changes nothing is written down as one."""
    here, apart = make_game("open_spiel/leduc_poker"), make_game("open_spiel/leduc_poker:players=3")
    assert here.initial_state().chance_outcomes() and apart.initial_state().chance_outcomes()
    process = LibraryProcess("open_spiel/leduc_poker", "{}")
    facts = process.facts()
    assert facts["actions"].actions == here.actions.actions
    first, second = here.initial_state(), ApartState(here, process)
    for state in (first, second):
        act_out(state, random.Random(5))
    assert first.log.events == second.log.events
    assert first.returns() == second.returns() and not second.to_act
    process.stop()
