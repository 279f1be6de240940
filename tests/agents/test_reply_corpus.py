"""Replies as models write them, each with the action that its author means.

`corpus.jsonl` was used to write the rules of the parser, `heldout.jsonl` only to check them: do not
adapt rules to a reply of the second file. `"means": null` marks replies without one legal action.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from random_games import walk

from arena.agents.reply.reader import read_reply
from arena.core.observation import Observation
from arena.plugins.catalog import make_game

FOLDER = Path(__file__).parent / "replies"

# Name -> game, options, and the first words of the legal actions that the decision offers.
SITUATIONS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "turn": ("cluedo", {"players": 3}, ("suggest", "accuse", "end")),
    "after": ("cluedo", {"players": 3}, ("accuse", "end")),
    "show": ("cluedo", {"players": 3}, ("show", "show", "show")),
    "roll": (
        *("cluedo", {"variant": "classic", "players": 4}),
        ("roll", "passage", "suggest", "accuse"),
    ),
    "move": ("cluedo", {"variant": "classic", "players": 4}, ("move",)),
    "kuhn": ("kuhn_poker", {}, ("pass", "bet")),
    "tictactoe": ("tictactoe", {}, ("mark",)),
    "goofspiel": ("goofspiel", {}, ("bid",)),
}


@cache
def situation(name: str) -> Observation:
    """Return the first decision that offers the actions of a situation."""
    game, options, heads = SITUATIONS[name]
    states = (state for seed in range(200) for state in walk(make_game(game, **options), seed))
    for state in states:
        observation = state.observe(state.to_act[0])
        offered = [str(action).split()[0] for action in observation.legal_actions]
        if tuple(offered) == heads or tuple(dict.fromkeys(offered)) == heads:
            return observation
    raise LookupError(name)


def replies(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()]


def judge(row: dict[str, Any]) -> str:
    """Return "right", "asked again", "wrong" or "wrong and irrevocable"."""
    observation = situation(row["situation"])
    how = {key: row[key] for key in ("finish_reason", "refusal") if key in row}
    action = read_reply(row["reply"], observation, **how).action
    if row["means"] == (None if action is None else str(action)):
        return "right"
    if action is None:
        return "asked again"
    return "wrong and irrevocable" if observation.game.is_irrevocable(action) else "wrong"


@pytest.mark.parametrize("name", ["corpus", "heldout"])
def test_replies_mean_what_their_authors_marked(name: str) -> None:
    rows = replies(name)
    assert len(rows) >= 150
    verdicts = {row["id"]: judge(row) for row in rows}
    counts = Counter(verdicts.values())
    print(f"{name}: {len(rows)} replies, {counts['right'] / len(rows):.1%} as meant, {counts}")
    assert not [name for name, verdict in verdicts.items() if verdict == "wrong and irrevocable"]
    assert not [name for name, verdict in verdicts.items() if verdict == "wrong"]
    assert counts["right"] >= 0.94 * len(rows)
