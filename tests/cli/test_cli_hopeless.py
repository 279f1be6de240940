"""Runs that cannot succeed end at once, with the reason and the remedy, never with exit code 0."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluedo_server import GAME, arena
from misbehaving import Misbehaving

# Behaviour of the server at every request -> words of the one line that ends the run.
HOPELESS = {
    "not_found": ["answered 404", "check the name of the model and the URL"],
    "redirect": ["answered 302", "check the name of the model and the URL"],
    "unauthorized": ["answered 401", "check the API key"],
    "wrong_type": ["text/html instead of JSON", "check the URL"],
    "invalid_json": ["invalid JSON", "check the URL"],
    "rate_limit_after": ["asks to wait 3600 s", "patience"],
    "empty": ["10 of 10 decisions were fallback moves", "empty in attempt", "max_fallbacks"],
    "truncated": ["10 of 10 decisions were fallback moves", "truncated", "--max-tokens"],
}
QUICK = "[service]\nbackoff = 0.01\nmax_backoff = 0.02\nmax_retries = 2\n"


@pytest.mark.parametrize("behaviour", HOPELESS)
def test_a_hopeless_set_up_ends_before_the_first_game_does(behaviour: str, tmp_path: Path) -> None:
    (tmp_path / "arena.toml").write_text(QUICK)
    with Misbehaving(fail_rate=1, faults=[behaviour], retry_after=3600) as server:
        spec = f"{server.openai_url}#tiny"
        done = arena(f"{GAME} --seat 0={spec} --games 1 --max-turns 300 --out out", tmp_path)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("arena: "))
    assert all(word in line for word in [server.openai_url, *HOPELESS[behaviour]]), line
    assert not list((tmp_path / "out").glob("*.jsonl"))


@pytest.mark.parametrize("behaviour", ["not_found", "unauthorized", "wrong_type"])
def test_a_hopeless_provider_ends_a_run_of_many_games(behaviour: str, tmp_path: Path) -> None:
    (tmp_path / "arena.toml").write_text(QUICK)
    with Misbehaving(fail_rate=1, faults=[behaviour]) as server:
        command = (
            f"eval cluedo --players 3 --player {server.openai_url}#tiny --baseline bot:novice "
            "--games 50 --seed 1 --out out --set scored=0"
        )
        done = arena(command, tmp_path)
        requests = server.ledger.requests
    assert done.returncode == 1
    assert requests <= 40  # The games in play, and retries where the fault may go away.
    assert HOPELESS[behaviour][0] in done.stderr


def test_an_evaluation_of_fallback_moves_is_not_called_a_result(tmp_path: Path) -> None:
    with Misbehaving(fail_rate=1, faults=["empty"]) as server:
        spec = f"{server.openai_url}#tiny"
        command = (
            f"eval cluedo --players 3 --player {spec} --baseline bot:novice --games 6 --seed 1 "
            "--out out --set scored=0 --max-turns 9"
        )
        stopped = arena(command, tmp_path)
        played = arena(f"{command} --set max_fallbacks=0 --out all", tmp_path)
    assert stopped.returncode == 1 and "fallback moves" in stopped.stderr
    assert "has not been measured" in played.stdout
    assert played.returncode == 1
    assert played.stderr.splitlines()[-1].startswith(f"arena: {spec} made no legal move")


def test_a_program_that_never_moves_is_a_failure(tmp_path: Path) -> None:
    done = arena("eval kuhn_poker --player agent:false --games 3 --out out", tmp_path)
    assert done.returncode == 1
    assert "has not been measured" in done.stdout
    assert "arena: agent:false made no legal move" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        f"{GAME} --seat 0={{}} --max-turns 3 --out out",
        "eval kuhn_poker --player {} --games 2 --out out",
    ],
)
def test_a_model_that_never_answers_is_a_failure(command: str, tmp_path: Path) -> None:
    with Misbehaving(fail_rate=1, faults=["bad_request"]) as server:
        spec = f"{server.openai_url}#tiny"
        done = arena(command.format(spec), tmp_path)
    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert error.startswith(f"arena: {spec} answered none of ") and "(bad_request)" in error
    assert len(list((tmp_path / "out").glob("*.ledger.json"))) == 1
