"""`arena play --web` as a process: several people, reconnection, leaks and hostile messages."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import arena
from hanabi_positions import SMALL, deal, move
from play_server import (
    SECONDS,
    Person,
    PlayProcess,
    get,
    play_out,
    play_server,
    post,
)

pytest.importorskip("starlette")
pytest.importorskip("websockets")

from websockets.exceptions import ConnectionClosed, InvalidStatus

from arena.core.event import Ply
from arena.episodes.replay import Replay, read_replay, verify
from arena.plugins.catalog import catalog
from games.hanabi.rules import Hanabi
from replays.web.play.seat_view import SeatView


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayProcess]:
    with play_server(
        "kuhn_poker --seed 3 --set delay=0", tmp_path_factory.mktemp("play")
    ) as served:
        yield served


def finished(server: PlayProcess, person: Person) -> Path:
    """Return the replay of a game that is over."""
    while not person.parts["over"]["replay"]:
        person.receive()
    return server.out / str(person.parts["over"]["replay"])


def plies_of(replay: Replay, seat: int) -> list[Ply]:
    return [walked.ply for walked in replay.walk() if walked.ply.player == seat]


def test_a_game_of_the_command(server: PlayProcess) -> None:
    """The seat's link of the greeting plays; the replay says what was played, and who won."""
    person = server.join(server.tokens[0])
    person.receive()
    assert person.table["seats"] == ["Player 0", "Player 1"]
    assert "bot:" in person.table["specs"][1]
    play_out([person], random.Random(1))
    assert person.parts["over"]["text"].startswith(("You won", "You lost"))
    replay = read_replay(finished(server, person))
    assert replay.header.players[0] == "human" and replay.header.seed == 3
    assert "seed" not in "".join(person.sent).replace("seed3", "")
    assert verify(replay) is None
    person.close()


OPTIONS: dict[str, dict[str, int | str]] = {
    "cluedo": {"players": 3, "variant": "cards"},
    "goofspiel": {"cards": 5},
    "werewolf": {"players": 5, "talk": 0},
}


@pytest.mark.parametrize("game", catalog().names("game"))
def test_nobody_receives_the_events_of_another_seat(server: PlayProcess, game: str) -> None:
    """All seats are people. Each gets exactly what it has witnessed; a spectator what all have."""
    form = get(f"{server.base}/api/play/form").json()
    offered = next(each for each in form["games"] if each["name"] == game)
    options = OPTIONS.get(game, {})
    players = int(options.get("players", offered["players"]))
    tokens = server.table(game, ["human"] * players, options=options)
    people = [server.join(token) for token in tokens]
    *seats, spectator = people
    play_out(seats, random.Random(5))
    replay = read_replay(finished(server, seats[0]))
    assert verify(replay) is None
    made = replay.make_game()
    events = [event for walked in replay.walk() for event in walked.ply.events]
    text = {id(event): made.text.for_people(made.text.narrate(event)) for event in events}
    for seat, person in enumerate(seats):
        assert person.events == [text[id(event)] for event in events if event.seen_by(seat)]
        # Without news there is no message: not even the number of moves is there.
        assert all(each.keys() - {"now"} for each in map(json.loads, person.sent))
    public = [text[id(event)] for event in events if event.audience is None]
    spectator.wait("over")
    over = spectator.parts["over"]
    assert over["unit"] in ("chips", "points") or sum(over["scores"]) == over["scores"].count(1)
    assert spectator.events == public
    assert str(replay.header.seed) not in "".join(
        text for person in people for text in person.sent if '"over":{' not in text
    )
    for person in people:
        person.close()


def test_spectators_see_that_a_card_is_drawn_and_not_which() -> None:
    game = Hanabi(**SMALL)
    state, view = deal(game, "R1 R3", "R2 Y1"), SeatView(game, None)
    move(state, "play slot 1", "draw Y2", "play slot 1", "draw Y1")
    view.read(state.log.events)
    assert not [event for event in view.events if "draw" in event["text"]]
    scene = json.dumps(view.parts([], [], None)["scene"])
    # Two slots in each of the two hands, all of them unknown.
    assert scene.count('"label": "??"') == scene.count('"note": "slot ') == 4


def test_a_lost_connection_loses_nothing(server: PlayProcess) -> None:
    [token, _] = server.table(
        "cluedo", ["human", "bot:random", "bot:random"], options={"players": 3}
    )
    first = server.join(token)
    first.wait("turn")
    turn, events = first.parts["turn"], first.events
    first.close()
    second = server.join(token)
    second.wait("turn")
    assert second.parts["turn"] == turn and second.events == events
    assert second.act("end turn") == {}
    second.wait("turn")
    second.close()


def test_a_game_starts_when_all_are_there(server: PlayProcess) -> None:
    [left, right, watching] = server.table("kuhn_poker", ["human", "human"])
    first, watcher = server.join(left), server.join(watching)
    first.receive()
    assert first.parts["present"] == [True, False] and not first.events
    assert "has not started" in first.send(act="bet", turn=0)["error"]
    second = server.join(right)
    first.wait("turn")
    assert first.parts["present"] == [True, True]
    assert "not to act now" in second.send(act="bet", turn=0)["error"]
    assert first.act("pass") == {}
    assert "not to act now" in first.send(act="pass", turn=0)["error"]
    play_out([first, second], random.Random(2))
    for person in (first, second, watcher):
        person.close()


def test_help_is_shown_and_recorded(server: PlayProcess) -> None:
    seats = ["human", "bot:random", "bot:random"]
    [token, _] = server.table("cluedo", seats, options={"players": 3})
    person = server.join(token)
    person.wait("turn")
    assert person.parts["notes"] == "" and not person.parts["posterior"]
    assert person.act("end turn") == {}
    person.wait("turn", "over")
    assert person.send(help="deductions") == {}
    person.wait("notes")
    notes = str(person.parts["notes"])
    assert notes.startswith("What follows:\n")
    assert "Your action" not in notes and "Turn 1" not in notes
    assert person.send(help="posterior") == {}
    person.wait("posterior")
    assert person.parts["notes"] == ""
    grid = person.parts["posterior"]["entry"]["grid"]
    # Each of four numbers is rounded to six digits.
    assert len(grid) == 21 and abs(sum(grid[0]) - 1) < 1e-5
    assert person.send(help="none") == {}
    assert person.act(person.actions[-1], sure=True) == {}
    play_out([person], random.Random(3))
    replay = read_replay(finished(server, person))
    # Of the decision before which it was open, and of no other.
    used = [ply.decision.details.get("help") for ply in plies_of(replay, 0)]
    assert [each for each in used if each] == ["posterior"] and used[0] is None
    person.close()


def test_advice_is_given_and_recorded(server: PlayProcess) -> None:
    """A hint: only of one's own turn, and in the replay of that decision."""
    seats = ["human", "bot:random", "bot:random"]
    [token, _] = server.table("cluedo", seats, options={"players": 3})
    person = server.join(token)
    person.wait("turn")
    assert person.table["guide"]["goal"].startswith("Find out who")
    assert len(person.table["sheet"]["things"]) == 21
    assert "turn 7" in person.send(advise=True, turn=7)["error"]
    hint = person.send(advise=True, turn=0)["hint"]
    assert hint["player"] == "Oracle" and hint["action"] in person.actions
    held = person.parts["turn"]["number"]
    assert person.act(hint["action"]) == {} and held == 0
    play_out([person], random.Random(4))
    replay = read_replay(finished(server, person))
    first, *later = plies_of(replay, 0)
    assert first.decision.details["hint"] == hint["action"]
    assert not any("hint" in ply.decision.details for ply in later)
    assert verify(replay) is None
    person.close()


def test_an_irrevocable_action_is_confirmed(server: PlayProcess) -> None:
    seats = ["human", "bot:random", "bot:random"]
    [token, _] = server.table("cluedo", seats, options={"players": 3})
    person = server.join(token)
    person.wait("turn")
    text = "accuse Mrs White, Rope, Hall"
    assert person.act(text) == {"confirm": text}
    assert person.act("scarlett rope kitchen") == {"offer": "suggest Miss Scarlett, Rope, Kitchen"}
    assert "not an action" in person.act("castle")["error"]
    assert person.act(text, sure=True) == {}
    while not any(event.startswith("Player 0 accuses Mrs White") for event in person.events):
        person.receive()
    person.close()


def test_a_person_may_skip_the_pauses_of_bots(server: PlayProcess) -> None:
    person = server.join(server.table("kuhn_poker", ["human", "bot:random"], pace=60)[0])
    person.wait("turn")
    assert person.send(skip=True) == {}
    play_out([person], random.Random(1))
    assert sum(person.parts["over"]["scores"]) == 0
    assert person.parts["over"]["unit"] == "chips"


def test_the_clock_plays_a_fallback(server: PlayProcess) -> None:
    [token, _] = server.table("kuhn_poker", ["human", "bot:random"], clock=1)
    before = time.time()
    person = server.join(token)
    person.wait("turn")
    assert before <= person.parts["turn"]["until"] - 1 <= time.time()
    person.wait("over")
    replay = read_replay(finished(server, person))
    failures = [ply.decision.failure for ply in plies_of(replay, 0)]
    assert failures and all("no decision within 1 seconds" in str(each) for each in failures)
    person.close()


def test_hostile_connections(server: PlayProcess) -> None:
    """Unknown links, huge messages, foreign pages and floods; the game goes on."""
    [token, _] = server.table("kuhn_poker", ["human", "bot:random"])
    stranger = server.join("A" * 22)
    with pytest.raises(ConnectionClosed) as closed:
        stranger.receive()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 4404
    with pytest.raises(InvalidStatus) as refused:
        server.join(token, origin="http://evil.example")
    assert refused.value.response.status_code == 403
    huge = server.join(token)
    huge.wait("turn")
    huge.socket.send("x" * 100_000)
    with pytest.raises(ConnectionClosed):
        while True:
            huge.receive()
    binary = server.join(token)
    binary.wait("turn")
    binary.socket.send(b"\xff\x00")
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            binary.receive()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1003
    flood = server.join(token)
    flood.wait("turn")
    for _ in range(60):
        flood.socket.send("{}")
    person = server.join(token)
    person.wait("turn")
    assert person.act("pass") == {}
    for each in (flood, person):
        each.close()


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"game": "chess", "seats": ["human"]}, "chess"),
        ({"game": "kuhn_poker", "seats": ["human"]}, "has 2 here, and 1"),
        ({"game": "kuhn_poker", "seats": ["bot:random", "bot:random"]}, "needs a human seat"),
        ({"game": "kuhn_poker", "seats": ["human", "bot:nope"]}, "no bot 'nope'"),
        ({"game": "kuhn_poker", "seats": ["human", "openai:gpt-4o"]}, "may not play here"),
        ({"game": "kuhn_poker", "seats": ["human", ":"]}, "may not play here"),
        ({"game": "cluedo", "seats": ["human"] * 3, "options": {"players": "<b>"}}, "players"),
        ({"game": "kuhn_poker", "seats": ["human", "human"], "pace": -1}, "pace"),
        ({"seats": []}, "game: a value is missing"),
    ],
)
def test_wrong_tables_are_refused(
    server: PlayProcess, wanted: dict[str, object], error: str
) -> None:
    answer = server.post(wanted)
    assert 400 <= answer.status_code < 500
    assert error in answer.json()["error"]


def test_foreign_pages_start_no_games(server: PlayProcess) -> None:
    wanted = {"game": "kuhn_poker", "seats": ["human", "human"]}
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        assert server.post(wanted, headers).status_code == 403
    address = f"{server.base}/api/play/games"
    plain = post(address, content=json.dumps(wanted))
    assert plain.status_code == 415
    large = post(
        address,
        content=b" " * 20_000,
        headers={"Content-Type": "application/json"},
    )
    assert large.status_code == 413


def test_a_game_in_play_is_not_in_the_viewer(server: PlayProcess) -> None:
    """Its replay holds all hands, so that it is kept where nothing is served."""
    # Games that other tests have left may go on and end now; none of those is this one.
    [token, _] = server.table("tictactoe", ["human", "bot:random"])
    before = set(server.out.glob("tictactoe*.jsonl"))
    person = server.join(token)
    person.wait("turn")
    listed = get(f"{server.base}/api/games").json()
    hidden = list((server.out / ".playing").glob("tictactoe*"))
    assert hidden and not any("playing" in game["path"] for game in listed["games"])
    assert set(server.out.glob("tictactoe*.jsonl")) == before
    for name in (f".playing/{hidden[0].name}", hidden[0].name):
        answer = get(f"{server.base}/api/timeline", params={"path": name})
        assert answer.status_code == 404
    person.close()


def test_a_game_whose_server_is_killed_is_shown_as_unfinished(tmp_path: Path) -> None:
    with play_server("kuhn_poker --seed 4", tmp_path) as served:
        served.join(served.tokens[0]).wait("turn")
        served.process.kill()
        served.process.wait(SECONDS)
    with play_server("kuhn_poker --seed 5", tmp_path) as served:
        # A list that takes long to read is sent before it is complete.
        until = time.monotonic() + SECONDS
        while not (games := get(f"{served.base}/api/games").json()["games"]):
            assert time.monotonic() < until
        [game] = games
    assert game["status"] == "unfinished" and game["path"] == "kuhn_poker-2p-seed4.jsonl.part"


def test_playing_on_from_a_replay(server: PlayProcess) -> None:
    """The branch is a replay of its own, which names its parent and verifies."""
    [token, _] = server.table("kuhn_poker", ["human", "bot:random"])
    person = server.join(token)
    play_out([person], random.Random(1))
    parent = finished(server, person)
    address = f"{server.base}/api/play/branches"
    made = post(address, json={"path": parent.name, "position": 2, "seat": 1}, trust_env=False)
    assert made.status_code == 201 and list(made.json()["seats"]) == ["1"]
    other = server.join(made.json()["seats"]["1"])
    play_out([other], random.Random(2))
    branch = read_replay(finished(server, other))
    assert verify(branch) is None and branch.header.players[1] == "human"
    assert [each.parent for each in branch.header.branches] == [parent.name]
    for wanted, status, error in (
        ({"path": parent.name, "position": 99, "seat": 0}, 422, "choose --position 0 to"),
        ({"path": parent.name, "position": 1, "seat": 7}, 422, "seats go from 0 to 1"),
        ({"path": "../x.jsonl", "position": 1, "seat": 0}, 404, "no such replay"),
        ({"path": parent.name, "position": -1, "seat": 0}, 400, "position"),
    ):
        answer = post(address, json=wanted)
        assert (answer.status_code, error in answer.json()["error"]) == (status, True)
    for each in (person, other):
        each.close()


def test_beyond_this_machine_only_tables_are_served(tmp_path: Path) -> None:
    command = "kuhn_poker --seat 0=human --seat 1=human --host 0.0.0.0"
    with play_server(command, tmp_path) as served:
        port = served.base.rpartition(":")[2]
        base = f"http://127.0.0.1:{port}"
        headers = {"Host": f"arena.example:{port}"}
        assert get(f"{base}/play", headers=headers).status_code == 200
        assert "/page/play.js" in get(base, headers=headers).text
        for path in (
            "api/games",
            "api/home",
            "report/run/x",
            "api/timeline?path=x.jsonl",
            "api/comments?path=x.jsonl",
        ):
            answer = get(f"{base}/{path}", headers=headers)
            assert answer.status_code == 404, path
        assert get(f"{base}/api/play/form").status_code == 403
        local = PlayProcess(served.process, served.out, base, served.tokens)
        people = [local.join(token) for token in served.tokens[:2]]
        people[0].wait("turn")
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(SECONDS) == 0
    # The unfinished game is kept.
    assert len(list(served.out.glob("*.jsonl.part"))) == 1


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("play kuhn_poker --set clock=5", "clock needs --web"),
        ("play kuhn_poker --web --seat 0=bot:random", "add --seat 0=human"),
        ("play kuhn_poker --web --games 3", "one game is played"),
        ("play kuhn_poker --web --dry-run", "--dry-run, --json: not with --web"),
        (
            "play kuhn_poker --web --set assist=all",
            "choose none, notes, deductions or posterior",
        ),
        ("play kuhn_poker --web --seat 0=human --seat 1=bot:nope", "no bot 'nope'"),
        ("play kuhn_poker --web --host no.such.name.invalid", "--host no.such.name.invalid"),
    ],
)
def test_wrong_commands(command: str, error: str, tmp_path: Path) -> None:
    run = arena(command, cwd=tmp_path)
    assert run.returncode == 2 and error in run.stderr.replace("\n", " ")
    assert "Traceback" not in run.stderr
