"""`--dry-run` of play, eval and tournament: an estimate that asks nothing and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluedo_server import legal_answer
from misbehaving import Misbehaving

from arena.cli import run

CARDS = "cluedo -o variant=cards --players 3"
MODEL = "openai:gpt-4o-mini"
COMMANDS = (
    f"play {CARDS} --seat 0={MODEL} --games 20 --seed 1 --out games",
    f"eval {CARDS} --player {MODEL} --against bot:novice --games 20 --seed 1",
    f"tournament {CARDS} --player {MODEL} --player bot:novice --games 20 --seed 1",
)
REASONS = "x " * 200
"""About 100 tokens, as the estimate assumes."""


def answer(body: Any) -> str:
    """A legal answer in Goofspiel, where all games are equally long, and in Cluedo."""
    question = body["messages"][-1]["content"]
    _, bids, actions = question.rpartition("Your actions: ")
    action = actions.split(" | ")[0].strip() if bids else legal_answer(body).rpartition(". ")[2]
    return f"{REASONS}\nAction: {action}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Misbehaving]:
    """A server without usage, so that the ledger counts characters, at OpenAI's address."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "made-up")
    with Misbehaving(answer, usage=False) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.openai_url)
        yield running


def estimate(command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The JSON of a dry run."""
    capsys.readouterr()
    assert run(f"{command} --dry-run --json".split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def text_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run(f"{command} --dry-run".split()) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dry_run_asks_nothing_and_writes_nothing(
    command: str, server: Misbehaving, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = estimate(command, capsys)
    text = text_of(command, capsys)
    assert not server.asked and not list(tmp_path.iterdir())
    ((spec, model),) = found["backends"].items()
    assert (spec, found["games"]) == (MODEL, 20) and 5 < model["calls"] / 20 < 40
    # The cost by hand: litellm's prices of a prompt's, a cached and a reply's token.
    by_hand = (
        1.5e-7 * (model["prompt_tokens"] - model["cached_tokens"])
        + 7.5e-8 * model["cached_tokens"]
        + 6e-7 * model["completion_tokens"]
    )
    assert model["cost"] == pytest.approx(by_hand) == pytest.approx(found["cost"])
    assert f"Total: 20 games; cost: ${found['cost']:.4f}." in text


@pytest.mark.parametrize("chat", ["append", "fresh"])
@pytest.mark.parametrize(
    ("game", "factor"),
    [
        # All games of Goofspiel are equally long.
        ("goofspiel --players 3", 1.05),
        # The server's player always suggests the same; the stand-in is a good player.
        (CARDS, 1.6),
    ],
)
def test_the_estimate_agrees_with_the_ledger_of_the_same_match(
    game: str,
    factor: float,
    chat: str,
    server: Misbehaving,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = f"play {game} --seat 0={MODEL} --seed 1 --games 6 --chat {chat}"
    found = estimate(command, capsys)
    assert not server.asked
    assert run(f"{command} --out games".split()) == 0
    (path,) = (tmp_path / "games").glob("*.ledger.json")
    total = json.loads(path.read_text())["total"]
    model = found["total"]
    pairs = (
        (total["calls"], model["calls"]),
        (total["prompt_tokens"], model["prompt_tokens"]),
        (total["completion_tokens"], model["completion_tokens"]),
    )
    for real, estimated in pairs:
        assert 1 / factor <= real / estimated <= factor, pairs


def test_an_unknown_price_is_called_unknown_until_the_flags_state_one(
    server: Misbehaving, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"play {CARDS} --seat 0={server.openai_url}#tiny --games 20"
    assert estimate(command, capsys)["cost"] is None
    assert "cost: unknown. --set price_in=… --set price_out=…" in text_of(command, capsys)
    model = estimate(f"{command} --set price_in=1 --set price_out=2", capsys)["total"]
    by_hand = (model["prompt_tokens"] + 2 * model["completion_tokens"]) / 1e6
    assert model["cost"] == pytest.approx(by_hand) and model["cached_tokens"] == 0
    # A model of a provider is refused, as it would be without --dry-run.
    assert run(f"play {CARDS} --seat 0=openai:unheard --max-cost 2 --dry-run".split()) == 2
    assert "its price is unknown" in capsys.readouterr().err
    assert not server.asked


def test_a_dry_run_needs_no_key(
    server: Misbehaving, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_key = estimate(COMMANDS[0], capsys)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert estimate(COMMANDS[0], capsys) == with_key
    assert run(COMMANDS[0].split()) == 2 and not server.asked


def test_a_model_in_two_seats_and_a_model_that_thinks(
    server: Misbehaving, capsys: pytest.CaptureFixture[str]
) -> None:
    game = "play goofspiel --players 3 --games 10 --seed 1"
    one = estimate(f"{game} --seat 0={MODEL}", capsys)["total"]
    two = estimate(f"{game} --seat 0={MODEL} --seat 1={MODEL}", capsys)["total"]
    assert two["calls"] == pytest.approx(2 * one["calls"])
    assert two["cost"] / one["cost"] == pytest.approx(2, rel=0.05)
    command = "play cluedo -o variant=cards --players 3 --games 10 --seed 1"
    plain = estimate(f"{command} --seat 0={MODEL}", capsys)["total"]
    asked = estimate(f"{command} --seat 0={MODEL} --set beliefs=true", capsys)["total"]
    # Cluedo asks no question about beliefs where a card is shown.
    assert 1.5 * plain["calls"] < asked["calls"] <= 2 * plain["calls"]
    for flags, thinking in (("", 1500), ("--reasoning-effort high", 4000)):
        o3 = estimate(f"{game} --seat 0=openai:o3-mini {flags}", capsys)["total"]
        assert o3["completion_tokens"] == pytest.approx(
            one["completion_tokens"] + thinking * one["calls"]
        )
    assert not server.asked


def test_a_resumed_run_counts_the_missing_games(
    server: Misbehaving, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluation = f"eval goofspiel --player {MODEL} --seed 3 --out eval"
    assert run(f"{evaluation} --games 2".split()) == 0
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    asked = server.ledger.requests
    # One deal more than before, and the finished ones are left out.
    assert estimate(f"{evaluation} --games 6 --resume", capsys)["games"] == 4
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert after == files and server.ledger.requests == asked


def test_without_models_a_run_costs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "No model would be asked: the run costs nothing." in text_of(f"play {CARDS}", capsys)


def test_with_until_ci_the_estimate_is_a_maximum(
    server: Misbehaving, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"eval goofspiel --player {MODEL} --until-ci 0.05"
    assert "Total: at most 10,000 games" in text_of(command, capsys)
    assert not server.asked
