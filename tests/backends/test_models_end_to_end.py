"""Games with models over real connections that fail: other seats and games are unaffected."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluedo_server import GAME, TESTS, environment, legal_answer, start
from command_line import wait_until
from misbehaving import ANSWERS, BROKEN, STATUSES, UNPROMISED, Misbehaving
from misbehaving import Ledger as Billed
from model_games import attempts_of
from preloaded import python_command
from scripted_table import check_sums

from arena.agents.chat import ChatOptions
from arena.episodes.files import ReplayWriter
from arena.episodes.job import run_jobs
from arena.episodes.match import Match, play
from arena.episodes.record import Episode
from arena.episodes.replay import read_replay, verify
from arena.evaluation.analysis import episode_of
from arena.llm.ledger import Tally
from arena.llm.service import LLMService
from arena.llm.settings import Settings
from arena.plugins.catalog import make_game

CLUEDO = make_game("cluedo", variant="cards", players=3)
LETHAL = {"unauthorized", "forbidden", "spent"}
"""A key that is wrong or spent ends the run, as it should."""
PAID = {"billed_error", "finish_error"}
"""Are in the bill but in no replay; a test of the ledger has them."""
FAULTS = sorted({*ANSWERS, *STATUSES, *BROKEN, *UNPROMISED} - {"ok"} - LETHAL - PAID)

# Under which word the ledger counts what the server has done.
CAUSES = {
    **dict.fromkeys(("rate_limit", "rate_limit_after", "rate_limit_date"), "rate_limit"),
    **dict.fromkeys(("server_error", "bad_gateway", "unavailable"), "server_error"),
    **dict.fromkeys(("hang", "hang_in_body", "request_timeout"), "timeout"),
    **dict.fromkeys(("reset", "cut"), "connection"),
    "bad_request": "bad_request",
    **dict.fromkeys(("not_found", "redirect"), "configuration"),
    **dict.fromkeys(UNPROMISED, "bad_response"),
    "context": "context_length",
    "filtered": "refused",
}
LIMITS = {"backoff": 0.01, "max_backoff": 0.05, "read_timeout": 5.0, "concurrency": 32}


def seat_of_model(seed: int) -> int:
    return seed % CLUEDO.num_players


def flaky_games(spec: str, games: int, out: Path) -> tuple[list[Episode], Tally]:
    notices: list[str] = []

    async def go() -> tuple[list[Episode], Tally]:
        async with LLMService(Settings.load(service=LIMITS), notify=notices.append) as llm:

            async def play_one(seed: int) -> Episode:
                specs = ["bot:novice"] * CLUEDO.num_players
                specs[seat_of_model(seed)] = spec
                match = Match(CLUEDO, specs, seed, max_turns=4, chat=ChatOptions())
                writer = ReplayWriter(out, f"game{seed}")
                return await play(match, match.seat(llm), watchers=[writer])

            episodes = [episode async for episode in run_jobs(range(games), play_one, 32)]
            return episodes, llm.ledger.tally(spec)

    result = asyncio.run(go())
    others = [line for line in notices if "a reply was cut off" not in line]
    assert not others, "such a provider is flaky, not down"
    return result


def assert_equals(tally: Tally, billed: Billed, causes: dict[str, str]) -> None:
    """Compare the ledger with the independent counts of the server."""
    failed: Counter[str] = Counter()
    for behaviour, count in billed.behaviours.items():
        if behaviour not in ANSWERS:
            failed[causes[behaviour]] += count
    assert tally.failed_attempts == failed
    assert tally.attempts == billed.requests
    assert tally.answered == billed.answered
    assert tally.prompt_tokens == billed.prompt_tokens
    assert tally.completion_tokens == billed.completion_tokens


@pytest.mark.parametrize("prefix", ["openrouter", "cohere", "http"])
def test_a_flaky_provider_spoils_no_game_and_no_bill(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    games = 50
    with Misbehaving(legal_answer, fail_rate=0.2, faults=FAULTS, retry_after=0.02) as server:
        # Each fault once for sure, and as rare as those that are drawn after these.
        server.script(name for fault in FAULTS for name in (fault, "ok", "ok", "ok", "ok"))
        monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-1")
        monkeypatch.setenv("OPENROUTER_API_BASE", server.openai_url)
        monkeypatch.setenv("COHERE_API_KEY", "co-1")
        monkeypatch.setenv("COHERE_API_BASE", server.cohere_url)
        spec = f"{server.openai_url}#tiny" if prefix == "http" else f"{prefix}:tiny"
        episodes, tally = flaky_games(spec, games, tmp_path)
        assert not server._script, "the games end before the faults"
    assert len(episodes) == games and all(episode.outcome for episode in episodes)
    for episode in episodes:
        seats = {failure.player for failure in episode.failures}
        assert seats <= {seat_of_model(episode.header.seed)}
    assert any(episode.failures for episode in episodes), "the faults were felt"
    check_sums(tally)
    assert_equals(tally, server.ledger, {**CAUSES, "error_in_200": "rate_limit"})
    if prefix == "cohere":
        assert tally.unknown_cost == tally.answered
    else:
        assert tally.cost == pytest.approx(server.ledger.cost) and not tally.unknown_cost
    replays = [read_replay(path) for path in tmp_path.glob("*.jsonl")]
    assert len(replays) == games and [verify(replay) for replay in replays] == [None] * games
    attempts = [attempt for replay in replays for attempt in attempts_of(episode_of(replay))]
    assert sum(a.failure != "provider_error" for a in attempts) == tally.answered
    assert sum(a.prompt_tokens for a in attempts) == tally.prompt_tokens
    assert sum(a.completion_tokens for a in attempts) == tally.completion_tokens


LIFETIME = 30
"""The server's answers before it dies: some of the twelve games are finished then, and some not."""


@pytest.fixture
def port() -> int:
    """One that was free a moment ago."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        found: int = listening.getsockname()[1]
    return found


class Server:
    """A process that dies and can be started again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._process: subprocess.Popen[str] | None = None

    def start(self, *answers: int) -> None:
        """Start it; after so many answers it dies."""
        script = str(TESTS / "support" / "cluedo_server.py")
        self._process = subprocess.Popen(
            [*python_command(), script, str(self._port), *map(str, answers)],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout and self._process.stdout.readline().startswith("http")

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None


@pytest.fixture
def server(port: int) -> Iterator[Server]:
    running = Server(port)
    running.start(LIFETIME)
    yield running
    running.kill()


def run_that_loses_its_server(cwd: Path, port: int, patience: float) -> subprocess.Popen[str]:
    """Twelve games, three at once, whose server dies when some are finished and some are not."""
    (cwd / "short.toml").write_text(
        f"[service]\nbackoff = 0.05\nmax_backoff = 0.2\nbreaker_failures = 3\n"
        f"patience = {patience}\n"
    )
    command = (
        f"{GAME} --seat 0=http://127.0.0.1:{port}/v1#tiny --games 12 --max-concurrent 3 "
        "--max-turns 6 --out out --json"
    )
    return start(command, cwd, ARENA_CONFIG="short.toml")


def lines_with(path: Path, words: str) -> list[str]:
    return [line for line in path.read_text().splitlines() if words in line]


def test_a_server_that_is_started_again_costs_nothing_but_time(
    tmp_path: Path, port: int, server: Server
) -> None:
    playing = run_that_loses_its_server(tmp_path, port, patience=120)
    stderr = tmp_path / "stderr"
    wait_until(lambda: lines_with(stderr, "waiting up to 120 s"))
    server.kill()
    server.start()
    stdout, _ = playing.communicate(timeout=120)
    assert playing.returncode == 0, stderr.read_text()
    assert len(lines_with(stderr, "waiting up to")) == len(lines_with(stderr, "is back")) == 1
    assert "fallback" not in stderr.read_text()
    result = json.loads(stdout)
    assert len(result["games"]) == 12
    total = result["ledger"]["total"]
    assert total["failed"] == 0 and total["retries"]["connection"] > 0
    replays = [read_replay(path) for path in (tmp_path / "out").glob("*.jsonl")]
    assert len(replays) == 12 and all(verify(replay) is None for replay in replays)
    assert not any(getattr(move, "failure", None) for replay in replays for move in replay.moves)
    assert not list((tmp_path / "out").glob("*.part"))


@pytest.mark.usefixtures("server")
def test_a_server_that_stays_dead_ends_the_run_and_all_is_kept(tmp_path: Path, port: int) -> None:
    playing = run_that_loses_its_server(tmp_path, port, patience=1)
    stdout, _ = playing.communicate(timeout=120)
    assert playing.returncode == 1
    out, stderr = tmp_path / "out", tmp_path / "stderr"
    finished, unfinished = list(out.glob("*.jsonl")), list(out.glob("*.part"))
    (fault,) = lines_with(stderr, "arena: ")
    assert f"http://127.0.0.1:{port}/v1: no answer for 1 s" in fault
    assert "finished games are kept" in fault
    assert len(lines_with(stderr, "waiting up to")) == 1 and not lines_with(stderr, "is back")
    assert lines_with(stderr, f"{len(finished)} of 12 games finished")
    assert lines_with(stderr, f"{len(unfinished)} unfinished games kept")
    replays = [read_replay(path) for path in finished]
    assert len(json.loads(stdout)["games"]) == len(finished)
    assert 0 < len(replays) < 12 and all(replay.outcome for replay in replays)
    assert all(verify(replay) is None for replay in replays)
    assert unfinished and all(verify(read_replay(path)) is None for path in unfinished)
    (ledger,) = out.glob("*.ledger.json")
    total = json.loads(ledger.read_text())["total"]
    assert total["answered"] > 0 and total["failures"].keys() <= {"stopped", "cancelled"}
    assert total["calls"] == total["answered"] + total["failed"]
