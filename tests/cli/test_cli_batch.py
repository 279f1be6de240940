"""`--batch` in real processes: killed runs pay for nothing twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_server import BatchServer
from chat_players import plays_kuhn
from cluedo_server import arena, start
from command_line import wait_until
from provider_formats import words_in

from arena.evaluation.store import Results

GAMES = 12
SPECS = ("openai:gpt-4o-mini", "anthropic:claude-haiku-4-5")
PRICES = {SPECS[0]: (0.075e-6, 0.3e-6), SPECS[1]: (0.5e-6, 2.5e-6)}
"""Half of the usual ones, in US dollars per token."""


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer(plays_kuhn) as running:
        yield running


def variables(server: BatchServer) -> dict[str, str]:
    return {
        "OPENAI_BASE_URL": server.openai_url,
        "ANTHROPIC_API_BASE": server.url,
        "ARENA_SERVICE": '{"batch_seconds": 0.3}',
        "OPENAI_API_KEY": "sk-planted-0123456789",
        "ANTHROPIC_API_KEY": "sk-planted-0123456789",
    }


def command(spec: str, out: str) -> str:
    return (
        f"eval kuhn_poker --player {spec} --games {GAMES} --seed 3 --workers 1 --batch --out {out}"
    )


def kill_at(server: BatchServer, flags: str, folder: Path, batches: int, paid: int = 0) -> None:
    """Start a run, and kill it while it waits for its batch of this number, which never ends."""
    with start(flags, folder, **variables(server)) as running:
        wait_until(lambda: len(server.paid) == paid)
        server.looks = 10**9
        # The server has accepted it; the run may not know yet.
        wait_until(lambda: len(server.batches) == batches)
        running.kill()


def release(server: BatchServer) -> None:
    server.looks = 1
    for state in server.states.values():
        state["left"] = 1


def outcomes(folder: Path) -> list[tuple[object, ...]]:
    """What was played, without times."""
    with Results.read(folder) as results:
        return [
            (game.slot, game.status, game.decisions, [seat.returns for seat in game.seats])
            for game in results.games()
        ]


@pytest.mark.parametrize("spec", SPECS)
def test_a_killed_run_goes_on_and_pays_for_nothing_twice(
    server: BatchServer, spec: str, tmp_path: Path
) -> None:
    kill_at(server, command(spec, "run"), tmp_path, 1)
    release(server)
    # The second session picks up the first batch, and is killed in its second one.
    resumed = f"{command(spec, 'run')} --resume"
    kill_at(server, resumed, tmp_path, 2, GAMES)
    release(server)
    done = arena(f"{resumed} --json", tmp_path, **variables(server))
    assert done.returncode == 0, done.stderr
    assert len(server.batches) == 2 and not server.direct
    assert len(server.paid) == len(set(server.paid)) == sum(map(len, server.batches.values()))
    assert "of an earlier session is picked up" in done.stderr
    # All that was paid, in all sessions, is in the replays.
    prompt, reply = PRICES[spec]
    cost = sum(prompt * words_in(body) + reply * 2 for body in server.bodies)
    (player,) = json.loads(done.stdout.splitlines()[-1])["players"]
    assert player["measures"]["cost"]["value"] == pytest.approx(cost / GAMES, abs=1e-6)
    if spec == SPECS[0]:  # The same games as without a kill.
        assert arena(command(spec, "whole"), tmp_path, **variables(server)).returncode == 0
        assert outcomes(tmp_path / "run") == outcomes(tmp_path / "whole")


def test_a_spent_budget_loses_no_answer(server: BatchServer, tmp_path: Path) -> None:
    """All games go on together, so most are cut off; --resume goes on with what was paid."""
    flags = f"{command(SPECS[1], 'run')} --max-tokens 20"
    stopped = arena(f"{flags} --max-cost 0.0005", tmp_path, **variables(server))
    assert stopped.returncode == 1 and "the budget is spent" in stopped.stderr
    paid = len(server.paid)
    assert paid > 0
    direct = arena(f"{flags} --resume".replace(" --batch", ""), tmp_path, **variables(server))
    assert direct.returncode == 2 and "was made with batch = True" in direct.stderr
    done = arena(f"{flags} --resume", tmp_path, **variables(server))
    assert done.returncode == 0, done.stderr
    assert len(server.paid) == len(set(server.paid)) > paid


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("bot:random", "--batch is for hosted models"),
        ("http://127.0.0.1:1/v1#x", "has no batch endpoint at half the price"),
    ],
)
def test_players_without_batches(spec: str, word: str, tmp_path: Path) -> None:
    refused = arena(command(spec, "run"), tmp_path)
    assert refused.returncode == 2 and word in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1 and not (tmp_path / "run").exists()


def test_the_dry_run_is_at_half_the_price(tmp_path: Path) -> None:
    estimate = f"{command(SPECS[0], 'run')} --dry-run --json --chat fresh"
    batched, usual = (
        json.loads(arena(flags, tmp_path).stdout)
        for flags in (estimate, estimate.replace(" --batch", ""))
    )
    assert batched["cost"] == pytest.approx(usual["cost"] / 2)
