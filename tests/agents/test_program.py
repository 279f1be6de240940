"""Programs at the table: `agent:COMMAND` with real processes, also with broken ones."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from command_line import ENVIRONMENT
from command_line import arena as arena_run
from other_worlds import world_pairs
from preloaded import arena_command

import arena
from arena.agents.agent import RandomBot, Seat
from arena.agents.program import MAX_LISTED, MAX_STDERR, ProgramAgent
from arena.core.errors import UsageError
from arena.core.event import Decision
from arena.core.observation import Observation
from arena.episodes.match import act_out, decide
from arena.episodes.record import DecisionLine, Episode
from arena.episodes.replay import read_replay, verify
from arena.llm import environment

EXAMPLES = Path("docs/examples").absolute()
PYTHON = f"agent:{sys.executable} {EXAMPLES / 'agent.py'}"
READY = "import json, sys, time, os\ninput(); print('{}', flush=True)\n"
"""A program that has answered the first message."""

JOIN = "".join(
    json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    for message in (
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "join", "arguments": {}}},
    )
).encode()
"""What an MCP client sends to take a seat."""

Write = Callable[[str], str]


@pytest.fixture
def program(tmp_path: Path) -> Write:
    """Return a function that writes a program and returns its SPEC."""

    def write(source: str) -> str:
        path = tmp_path / f"program{len(list(tmp_path.iterdir()))}.py"
        path.write_text(source)
        return f"agent:{sys.executable} {path}"

    return write


@pytest.fixture(autouse=True)
def _no_process_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    started = [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(
            str(each) in " ".join(process.info["cmdline"] or ()) for each in (tmp_path, EXAMPLES)
        )
    ]
    # A killed process may be seen for a moment on a machine that is busy.
    assert not psutil.wait_procs(started, timeout=10)[1]


def play(spec: str, game: str = "kuhn_poker", seed: int = 3, seconds: float = 3600.0) -> Episode:
    made = arena.make_game(game)
    specs = [spec, *["bot:random"] * (made.num_players - 1)]
    return asyncio.run(arena.play(arena.Match(made, specs, seed, decision_seconds=seconds)))


def failures(episode: Episode) -> list[str]:
    return [ply.decision.failure or "" for ply in episode.plies if ply.player == 0]


def two_decisions(spec: str, seconds: float = 3600.0) -> list[str]:
    """Return the failures of a game in which seat 0 decides several times."""
    episode = play(spec, "goofspiel", seconds=seconds)
    *texts, forced = failures(episode)
    assert len(texts) > 1 and not forced
    return texts


@pytest.mark.parametrize("game", ["kuhn_poker", "cluedo", "negotiation"])
def test_example_plays_every_game(game: str) -> None:
    episode = play(PYTHON, game)
    details = [ply.decision.details for ply in episode.plies if ply.player == 0]
    assert not any(failures(episode))
    first = next(each for each in details if each)
    assert first["program"] == "random.py"
    assert first["comment"] == "drawn at random"
    assert str(first["stderr"]).startswith("I am ")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_javascript_example_plays() -> None:
    episode = play(f"agent:node {EXAMPLES / 'agent.mjs'}", "cluedo")
    assert not any(failures(episode))


def test_messages(program: Write, tmp_path: Path) -> None:
    log = tmp_path / "log"
    spec = program(
        "import json, sys\n"
        f"log = open({str(log)!r}, 'w')\n"
        "for line in sys.stdin:\n"
        "    print(line, end='', file=log, flush=True)\n"
        "    message = json.loads(line)\n"
        "    print(json.dumps({'action': message.get('legal_actions', [''])[0]}), flush=True)\n"
    )
    episode = play(spec, "leduc_poker")
    assert not any(failures(episode))
    start, *turns = [json.loads(line) for line in log.read_text().splitlines()]
    assert (start["type"], start["protocol"], start["game"]) == ("start", 1, "leduc_poker")
    assert start["seat"] == 0 and "Jack" in start["rules"]
    assert [turn["turn"] for turn in turns] == [*range(len(turns))]
    assert all(turn["legal_actions"] and not turn["left_out"] for turn in turns)
    # The events of all messages are those that the seat has witnessed, each once.
    sent = [event for turn in turns for event in turn["events"]]
    seen = [e.to_json() for p in episode.plies for e in p.events if e.seen_by(0)]
    assert sent == json.loads(json.dumps(seen))[: len(sent)]
    assert turns[0]["text"].startswith("You are")


def test_long_lists_are_cut(program: Write) -> None:
    game = arena.make_game("negotiation")
    spec = program(
        READY + "m = json.loads(input()); print(len(m['legal_actions']), m['left_out'], "
        "file=sys.stderr); print(json.dumps({'action': m['legal_actions'][0]}), flush=True)\n"
    )
    ply = next(ply for ply in play(spec, "negotiation").plies if ply.player == 0)
    listed, left_out = map(int, str(ply.decision.details["stderr"]).split())
    assert listed <= MAX_LISTED
    assert listed + left_out <= len(game.actions)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("1 / 0", "ZeroDivisionError"),
        ("print('hello')", "wrote 'hello' instead of a line with a JSON object"),
        ("print('[1]')", "wrote '[1]'"),
        ("print('[' * 60000)", "instead of a line with a JSON object"),
        ("print('x' * 10**8)", "a line of more than 65,536 bytes"),
        ("import sys; sys.stdout.buffer.write(bytes(range(256)) * 10**5)", "wrote"),
        (READY + "input(); os.kill(os.getpid(), 9)", "ended by signal 9 (Killed)"),
        (READY + "input(); os.close(1); sys.stdin.read()", "has closed its standard output"),
        (READY + "input(); time.sleep(60)", "gave no answer within 1 seconds"),
        (READY + "input()\nwhile True: pass", "gave no answer within 1 seconds"),
        (
            READY + "input()\nif os.fork(): os._exit(0)\ntime.sleep(60)",
            "the program has ended with exit code 0",
        ),
        (
            READY + "input()\nfor _ in range(20):\n    os.fork() or time.sleep(60)\ntime.sleep(60)",
            "gave no answer within 1 seconds",
        ),
    ],
)
def test_broken_program_costs_its_seat_only(program: Write, source: str, reason: str) -> None:
    started = time.perf_counter()
    # On a loaded machine other faults take more than a second to be seen.
    texts = two_decisions(program(source), seconds=1.0 if "within 1 seconds" in reason else 10.0)
    # It is stopped at once: the later decisions are fallback moves without a wait.
    assert all(reason in text for text in texts), texts
    assert all("\n" not in text and len(text) <= 500 for text in texts)
    assert time.perf_counter() - started < 20


def test_start_limit(program: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARENA_AGENT", '{"start_seconds": 0.5}')
    texts = two_decisions(program("import time; time.sleep(60)"))
    assert "did not answer the first message within 0.5 seconds" in texts[0]


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS of another process: Linux")
def test_memory_limit(program: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARENA_AGENT", '{"memory_gb": 0.5}')
    texts = two_decisions(program(READY + "input(); 'x' * 10**9"))
    assert "MemoryError" in texts[0]


@pytest.mark.parametrize("answer", ['{"action": "fly away"}', '{"action": 7}', "{}"])
def test_illegal_action_costs_one_move(program: Write, answer: str) -> None:
    spec = program(
        READY + f"input(); print({answer!r}, flush=True)\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'action': json.loads(line)['legal_actions'][0]}), flush=True)\n"
    )
    first, *later = two_decisions(spec)
    assert first and not any(later)


def test_standard_error_is_kept_and_bounded(program: Write) -> None:
    spec = program(READY + "print('x' * 10**7 + 'end', file=sys.stderr); input(); sys.exit(1)")
    ply = next(ply for ply in play(spec).plies if ply.player == 0)
    kept = str(ply.decision.details["stderr"])
    assert len(kept) <= MAX_STDERR and kept.strip().endswith("end")
    assert ply.decision.failure and len(ply.decision.failure) <= 500


def test_children_end_with_the_game(program: Write, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    spec = program(
        READY + "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'action': json.loads(line)['legal_actions'][0]}), flush=True)\n"
        "time.sleep(60)\n"
    )
    assert not any(failures(play(spec)))
    child = int(pid.read_text())
    for _ in range(100):
        if not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie":
            return
        time.sleep(0.05)
    pytest.fail("the child goes on")


def test_stopped_game_ends_its_programs(program: Write) -> None:
    async def stop() -> None:
        game = arena.make_game("kuhn_poker")
        match = arena.Match(game, [program(READY + "time.sleep(60)"), "bot:random"], 3)
        task = asyncio.ensure_future(arena.play(match))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stop())


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("agent", "name a program"),
        ("agent:", "name a program"),
        ("agent:'", "No closing quotation"),
        ("agent:no-such-program --fast", "there is no program 'no-such-program'"),
    ],
)
def test_wrong_command(spec: str, reason: str) -> None:
    seat = Seat(arena.make_game("kuhn_poker"), 0, random.Random(0))
    from arena.agents.seating import make_agent

    with pytest.raises(UsageError, match=reason):
        make_agent(spec, seat)


@pytest.mark.parametrize("name", ["kuhn_poker", "cluedo", "leduc_poker"])
def test_messages_do_not_depend_on_hidden_information(
    name: str, program: Write, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    spec = program(
        "import sys\n"
        f"log = open({str(log)!r}, 'a')\n"
        "for line in sys.stdin:\n"
        "    print(line, end='', file=log, flush=True); print('{}', flush=True)\n"
    )
    game, differ = arena.make_game(name), False

    async def messages(world: list[arena.Observation]) -> str:
        log.write_text("")
        agent = ProgramAgent(spec.partition(":")[2], Seat(game, 1, random.Random(0)))
        for observation in world:
            await agent.act(observation)
        await agent.close()
        return log.read_text()

    for mine, theirs in world_pairs(game, 1, games=4):
        sent = asyncio.run(messages(mine))
        assert sent == asyncio.run(messages(theirs))
        differ |= bool(sent)
    assert differ


def test_commands_play_programs(program: Write, tmp_path: Path) -> None:
    played = arena_run("play kuhn_poker --games 12 --seat", f"0={PYTHON}", cwd=tmp_path)
    assert played.returncode == 0, played.stderr
    assert "warning" not in played.stderr
    broken = program("print('hello')")
    found = arena_run("play kuhn_poker --no-watch --seat", f"0={broken}", cwd=tmp_path)
    assert found.returncode == 1
    warning, error = found.stderr.splitlines()
    assert "wrote 'hello'" in warning and error.endswith("made no legal move in any game")
    crash = program("raise ImportError('rules')")
    found = arena_run("play cluedo --no-watch --seed 4 --seat", f"0={crash}", cwd=tmp_path)
    assert found.returncode == 1 and "says: ImportError: rules" in found.stderr
    few = ("--games", "4", "--json")
    rated = arena_run("eval kuhn_poker --baseline bot:random --player", PYTHON, *few, cwd=tmp_path)
    assert rated.returncode == 0, rated.stderr
    both = ("--player", PYTHON, "--player", "bot:random", *few)
    table = arena_run("tournament kuhn_poker", *both, cwd=tmp_path)
    assert table.returncode == 0, table.stderr


@pytest.mark.parametrize(
    ("command", "number", "ignored"),
    [
        ("play kuhn_poker --no-watch --seed 3 --out out --seat 0={}", signal.SIGTERM, False),
        ("play kuhn_poker --no-watch --seed 3 --out out --seat 0={}", signal.SIGHUP, True),
        ("eval kuhn_poker --games 4 --workers 2 --out out --player {}", signal.SIGHUP, False),
        ("mcp kuhn_poker --out out --seat 1=mcp --seat 0={}", signal.SIGTERM, False),
    ],
)
def test_a_signal_ends_programs_with_their_children(
    command: str, number: signal.Signals, ignored: bool, program: Write, tmp_path: Path
) -> None:
    """`timeout`, a batch system and a closed terminal; `ignored`: a job in the background."""
    pytest.importorskip("mcp") if command.startswith("mcp") else None
    spec = program(
        READY + f"input(); os.fork(); open({str(tmp_path / 'r')!r}, 'w'); time.sleep(99)"
    )
    asked = tmp_path / "r"
    words = [word.format(spec) for word in command.split()]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-m", "arena", *words] if ignored else [*arena_command(), *words],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_IGN) if ignored else None,  # noqa: PLW1509
    ) as running:
        assert running.stdin is not None
        if command.startswith("mcp"):
            running.stdin.write(JOIN)
            running.stdin.flush()
        while not asked.exists():
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(number)
        said = running.stderr.read().decode() if running.stderr else ""
        assert running.wait(20) == 128 + number, said
    assert "Traceback" not in said
    if command.startswith("play"):
        assert "the unfinished game is kept" in said
        (part,) = (tmp_path / "out").glob("*.part")
        assert read_replay(part).moves, "held back while the program could read it"
    # `_no_process_is_left` looks for the program and its child.


KEYS = {"OPENAI_API_KEY": "sk-PLANTED-1a2b3c4d5e6f", "HF_TOKEN": "hf_PLANTED0987654321"}
SPY = """
import glob, json, os, sys
tell = lambda answer: print(json.dumps(answer), flush=True)
input(); tell({"name": os.environ["HF_TOKEN"]})
while True:
    legal = json.loads(input())["legal_actions"]
    (part,) = glob.glob("out/*.part")
    print(*os.environ.items(), file=sys.stderr)
    print("x" * 3_990 + os.environ["HF_TOKEN"], end="", file=sys.stderr, flush=True)
    if len(legal) < 4:
        print("x" * 60 + os.environ["HF_TOKEN"], flush=True)
    lines = len(open(part).readlines())
    tell({"action": legal[0], "comment": f"{lines} line, {open('.env').read()}"})
"""
"""Tells all that a program may find: what it was given, and files of the folder."""


def test_a_program_gets_no_keys_and_reads_no_cards_and_no_key_is_stored(
    program: Write, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("ART_API_KEY=art-PLANTED-qwertzuiop\n")
    command = "play goofspiel --seed 3 --out out --json"
    done = subprocess.run(
        [*arena_command(), *command.split(), "--seat", f"0={program(SPY)}"],
        cwd=tmp_path,
        env=ENVIRONMENT | KEYS | {"ARENA_AGENT_KEYS": "HF_TOKEN"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (path,) = (tmp_path / "out").glob("*.jsonl")
    replay = read_replay(path)
    assert done.returncode == 0 and verify(replay) is None
    mine = [move for move in replay.moves if isinstance(move, DecisionLine) and move.player == 0]
    assert mine[0].details["program"] == "***"
    assert mine[0].details["comment"] == "1 line, ART_API_KEY=***\n"
    assert any("a line with a JSON object" in (move.failure or "") for move in mine)
    for written in (path.read_text(), done.stdout, done.stderr):
        assert "PLANTED" not in written and "OPENAI_API_KEY" not in written
    said = [str(move.details["stderr"]) for move in mine if "stderr" in move.details]
    assert any(text.endswith("x***") for text in said)


def test_a_key_is_not_spoken_at_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gossip(RandomBot):
        async def act(self, observation: Observation) -> Decision:
            return Decision(observation.parse(f"say my key is {KEYS['HF_TOKEN']}"))

    monkeypatch.setenv("HF_TOKEN", KEYS["HF_TOKEN"])
    environment._keys.cache_clear()
    game = arena.make_game("avalon")
    state = game.initial_state()
    rng = random.Random(0)
    while not (state.to_act[0] >= 0 and state.legal_actions(state.to_act[0]).speech):
        act_out(state, rng, 1)
    seat = Seat(game, state.to_act[0], rng)
    seen = state.observe(seat.player)
    answer = asyncio.run(decide(Gossip(seat), seen, rng))
    environment._keys.cache_clear()
    assert "holds an API key" in str(answer.decision.failure)
    assert KEYS["HF_TOKEN"] not in str(answer.decision)


def test_replay_starts_no_program(tmp_path: Path) -> None:
    """A replay comes from others: the command in it must not run."""
    arena_run("play kuhn_poker --no-watch --seed 3 --seat", f"0={PYTHON}", cwd=tmp_path)
    (replay,) = (tmp_path / "runs" / "play").glob("*.jsonl")
    marker = tmp_path / "marker"
    replay.write_text(replay.read_text().replace(PYTHON, f"agent:touch {marker}"))
    assert f"agent:touch {marker}" in replay.read_text()
    verified = arena_run("replay verify", str(replay), cwd=tmp_path)
    assert verified.returncode == 0, verified.stderr
    branched = arena_run("replay branch --position 1", str(replay), cwd=tmp_path)
    assert branched.returncode == 2 and "--seat" in branched.stderr
    assert not marker.exists()


def test_a_page_starts_no_program() -> None:
    from replays.web.play.new_game import NewGames, WebGameForm

    form = WebGameForm(game="kuhn_poker", seats=["human", PYTHON])
    with pytest.raises(UsageError, match="may not play here"):
        NewGames().setup(form)
