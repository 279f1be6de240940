"""System prompts by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from arena.agents.chat import AnswerForm, ChatOptions, opening, system_message, system_prompt
from arena.core.errors import UsageError
from arena.llm.backend import Request, estimate_prompt
from arena.plugins.catalog import catalog, make_game

CLUEDO = make_game("cluedo", players=3)


@pytest.mark.parametrize("answers", ["text", "json", "tools"])
@pytest.mark.parametrize("name", catalog().names("game"))
def test_the_bundled_prompts(name: str, answers: AnswerForm) -> None:
    game = make_game(name)
    usual = system_message(game, answers).content
    assert system_prompt("rules", game, answers) == usual
    brief = system_prompt("brief", game, answers)
    assert len(brief) < len(usual) and game.text.rules() not in brief
    assert ("JSON" in brief) == (answers == "json")
    assert ("function" in brief) == (answers == "tools")


@pytest.mark.parametrize("name", catalog().names("game"))
def test_games_share_no_prefix_that_a_cache_of_prompts_holds(name: str) -> None:
    """So a first request ahead of the others would not warm a cache for them (guide "Costs")."""
    shared = opening(make_game(name), ChatOptions(answers="tools"))
    request = Request((shared,))
    assert estimate_prompt(request) < 1024, "OpenAI's shortest prefix"


def test_brief_shows_one_action_of_each_kind() -> None:
    line = system_prompt("brief", make_game("cluedo", variant="classic")).splitlines()[0]
    shown = line.partition("look like: ")[2].split(" | ")
    words = ["suggest", "accuse", "show", "end", "roll", "passage", "move"]
    assert [action.split()[0] for action in shown] == words
    assert all(str(CLUEDO.actions.parse(action)) == action for action in shown[:4])


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("\ufeffWin at all costs.\n{rules}\n{answer}\nDetails: {details}\n")
    usual = system_message(CLUEDO, "json").content
    assert system_prompt(str(path), CLUEDO, "json") == f"Win at all costs.\n{usual}"
    path.write_text("\n")
    with pytest.raises(UsageError, match="the file is empty"):
        system_prompt(str(path), CLUEDO)
    with pytest.raises(UsageError, match=r"absent.txt: .*No such file"):
        system_prompt(str(tmp_path / "absent.txt"), CLUEDO)


def test_the_limit_of_turns_is_stated() -> None:
    limit = "The game ends undecided after turn 40."
    assert limit in system_message(CLUEDO, "text", 40).content
    assert "undecided" not in system_message(CLUEDO).content


def test_no_prompt() -> None:
    with pytest.raises(UsageError, match="--prompt brif: choose rules, brief or a file.txt"):
        system_prompt("brif", CLUEDO)
