"""Families of games: the seam, with a family of a test plugin, and missing libraries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from arena import make_game
from arena.agents.seating import bot_names
from arena.cli import run
from arena.core.errors import MissingDependency, UsageError
from arena.core.game import Game
from arena.plugins.catalog import FamilyGame, catalog
from arena.testing.conformance import check_replay
from games.goofspiel.game import Goofspiel


class CardFamily:
    """One game in two decks, each under a name of its own."""

    def game_class(self, name: str) -> type[Game]:
        if name not in ("short", "long"):
            raise UsageError(f"there is no game 'cards/{name}'")
        return card_game(name)

    def games(self) -> Sequence[FamilyGame]:
        listed = FamilyGame("cards/short", "a short game", "2-4", "imperfect", ("arrays",))
        return [listed, FamilyGame("cards/long", "broken", "", "", problem="no deck")]


@cache
def card_game(name: str) -> type[Game]:
    own = {"name": f"cards/{name}", "summary": "cards", "default_bots": ("random", "random")}
    return type(name, (Goofspiel,), own)


CARDS = CardFamily()


@pytest.fixture
def cards() -> Iterator[None]:
    kept = catalog().entries_by_kind()
    catalog().add("game_family", "cards", "test_families:CARDS", "games of cards")
    catalog().add("bot", "cards/*/careful", "arena.agents.agent:RandomBot", "any card")
    catalog().add("bot", "cards/short/quick", "arena.agents.agent:RandomBot", "any card")
    yield
    catalog().restore(kept)


@pytest.mark.usefixtures("cards")
def test_a_game_of_a_family_is_played_and_its_replay_finds_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["play", "cards/short:cards=3", "--players", "3", "--seed", "1", "--json"]
    assert run([*command, "--out", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["game"] == "cards/short"
    [replay] = tmp_path.glob("*.jsonl")
    assert replay.name == "cards-short-3p-seed1.jsonl"
    assert run(["replay", "verify", str(replay)]) == 0
    check_replay(make_game("cards/short", cards=3), 1)


@pytest.mark.usefixtures("cards")
def test_options_after_the_name_are_options() -> None:
    assert make_game("cards/short:cards=3,prizes=descending").options == (
        Goofspiel(cards=3, prizes="descending").options
    )
    assert make_game("goofspiel:cards=3") == Goofspiel(cards=3)
    with pytest.raises(UsageError, match="'cards' is given twice"):
        make_game("cards/short:cards=3", cards=4)
    with pytest.raises(UsageError, match="'cards' is not NAME=VALUE"):
        make_game("cards/short:cards")
    with pytest.raises(UsageError, match="has no option 'decks'"):
        make_game("cards/short:decks=3")


@pytest.mark.usefixtures("cards")
def test_bots_of_a_game_of_its_family_and_of_all_games() -> None:
    assert bot_names("cards/short") == ["quick", "careful", "random", "easy"]
    assert bot_names("cards/long") == ["careful", "random", "easy"]


@pytest.mark.usefixtures("cards")
def test_families_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "games"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "cards/GAME games of cards Rules" in printed
    assert run(["list", "games", "cards"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["cards/short", "2-4", "players", "imperfect", "arrays"]
    assert lines[1].endswith("not playable: no deck")
    assert run(["list", "games", "cards", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["games"][0]["players"] == "2-4"
    assert run(["list", "games", "cards/short"]) == 0
    assert "bots: quick, careful, random" in capsys.readouterr().out


@pytest.mark.usefixtures("cards")
def test_wrong_names_of_families(capsys: pytest.CaptureFixture[str]) -> None:
    for name, message in (
        ("cards", "'cards' is a family of games: 'arena list games cards' lists them"),
        ("cards/medium", "there is no game 'cards/medium'"),
        ("dice/short", "there is no game 'dice/short'"),
    ):
        assert run(["play", name]) == 2
        error = capsys.readouterr().err
        assert message in error and len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("open_spiel/kuhn_poker", "open-spiel"),
        ("textarena/KuhnPoker-v0", "textarena"),
    ],
)
def test_a_missing_library_is_an_error_that_names_the_extra(
    name: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arena.plugins.catalog.find_spec", lambda package: None)
    for module in ("open_spiel.library", "textarena"):
        forget_imports(f"games.adapters.{module}")
    with pytest.raises(MissingDependency, match=rf"pip install .*\[{extra}\]"):
        make_game(name)


def forget_imports(module: str) -> None:
    """Forget what the functions of a module have cached, where the libraries are installed."""
    from importlib import import_module

    for value in vars(import_module(module)).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()
