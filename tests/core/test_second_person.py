"""Texts for the person who plays: "you" in the sentences of all games, and the end of a game."""

from __future__ import annotations

import random
import re

import pytest

from arena.core.action import CHANCE
from arena.core.outcome import Outcome
from arena.core.views.ending import ending
from arena.core.views.second_person import second_person
from arena.plugins.loader import make_game

GAMES = (
    *("avalon", "battleship", "cluedo", "cluedo:variant=classic", "codenames", "goofspiel"),
    *("hanabi", "kuhn_poker", "leduc_poker", "liars_dice", "negotiation", "tictactoe", "werewolf"),
)
# "as" of "count as" and the like is no verb.
_THIRD_PERSON = re.compile(r"\b[Yy]ou (?!for\b)[a-z]+(?<!s)s\b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Player 1 holds Rope, Hall.", "You hold Rope, Hall."),
        ("Turn 5: Player 1.", "Turn 5: your turn."),
        ("Player 2 shows Player 1: Rope.", "Player 2 shows you: Rope."),
        ("Player 0, Player 1 cannot refute.", "Player 0, you cannot refute."),
        (
            "Player 1 accuses Plum, Rope, Hall, and is wrong: out, but still shows cards.",
            "You accuse Plum, Rope, Hall, and are wrong: out, but still show cards.",
        ),
        ("Player 1 passes and gives no clue.", "You pass and give no clue."),
        ("Player 1 (Seer) is eliminated.", "You (Seer) are eliminated."),
        ("Player 2 names Player 1, who is Merlin.", "Player 2 names you, who are Merlin."),
        ("Player 0 bids 4, Player 1 bids 1.", "Player 0 bids 4, you bid 1."),
        ("Mission 1 of Player 1, Player 2 fails.", "Mission 1 of you, Player 2 fails."),
        ("The ships of Player 1 were at a1.", "Your ships were at a1."),
        ("It is Player 1's turn.", "It is your turn."),
        ("Player 1 plays slot 1: it does not fit.", "You play slot 1: it does not fit."),
        ('Player 1: "I think Player 1 is good"', 'You: "I think Player 1 is good"'),
        ("You are Player 1, guesser of blue.", "You are Player 1, guesser of blue."),
        ("Player 10 holds Rope. Player 1 draws.", "Player 10 holds Rope. You draw."),
    ],
)
def test_sentences(text: str, expected: str) -> None:
    assert second_person(text, "Player 1") == expected


def test_names_that_may_be_words_stay() -> None:
    assert (
        second_person("White moves. Mrs White waits.", "White") == "White moves. Mrs White waits."
    )


@pytest.mark.parametrize("spec", GAMES)
def test_all_games_address_the_reader(spec: str) -> None:
    name, _, option = spec.partition(":")
    game = make_game(name, **dict([option.split("=")] if option else []))
    state, rng = game.initial_state(), random.Random(4)
    while not state.is_terminal and state.turn < 30:
        player = state.to_act[0]
        if player == CHANCE:
            state.apply(player, state.sample_chance(rng))
        else:
            state.apply(player, rng.choice(state.legal_actions(player).actions))
    sentences = [game.text.narrate(event) for event in state.log.events]
    assert any("Player 0" in sentence for sentence in sentences)
    for seat, own in enumerate(game.seat_names):
        for sentence in sentences:
            text = second_person(sentence, own)
            assert own not in re.sub('"[^"]*"', "", text), text
            # A list of players may end with the reader, before the verb of another subject.
            if not re.search(r"Player \d+,? (?:and )?you", text):
                assert not _THIRD_PERSON.search(text), text
            assert seat or "Player 0" not in text or sentence == text


@pytest.mark.parametrize(
    ("spec", "outcome", "seat", "expected"),
    [
        (
            "cluedo",
            Outcome("terminated", "Player 3 made the right accusation", (0.0, 0.0, 0.0, 1.0)),
            0,
            "You lost: Player 3 made the right accusation.",
        ),
        (
            "cluedo",
            Outcome("terminated", "Player 3 made the right accusation", (0.0, 0.0, 0.0, 1.0)),
            3,
            "You won: you made the right accusation.",
        ),
        (
            "cluedo",
            Outcome("terminated", "every player has made a false accusation", (0.0,) * 4),
            1,
            "No player won: every player has made a false accusation.",
        ),
        (
            "cluedo",
            Outcome("truncated", "stopped after 9 turns", (0.0,) * 4),
            None,
            "No result: stopped after 9 turns.",
        ),
        (
            "kuhn_poker",
            Outcome("terminated", "Player 1 folds", (1.0, -1.0)),
            1,
            "You lost: you fold. Return: Player 0 +1 chip, you −1 chip.",
        ),
        (
            "kuhn_poker",
            Outcome("terminated", "Player 1 has the higher card", (-2.0, 2.0)),
            None,
            "Player 1 won: Player 1 has the higher card. "
            "Return: Player 0 −2 chips, Player 1 +2 chips.",
        ),
        (
            "leduc_poker",
            Outcome("terminated", "both hands are equal", (0.0, 0.0)),
            0,
            "Draw: both hands are equal. Return: you 0 chips, Player 1 0 chips.",
        ),
        (
            "hanabi",
            Outcome("terminated", "the deck is empty; score 17 of 25", (17.0, 17.0), (), (0, 0)),
            0,
            "The game is over: the deck is empty; score 17 of 25. Score: 17 points for all.",
        ),
        (
            "werewolf",
            Outcome(
                "terminated",
                "all werewolves are dead: the village wins",
                (1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0),
                (),
                (0, 0, 1, 0, 0, 0, 0),
            ),
            2,
            "Your team lost: all werewolves are dead: the village wins.",
        ),
    ],
)
def test_ends_in_plain_words(spec: str, outcome: Outcome, seat: int | None, expected: str) -> None:
    assert ending(make_game(spec), outcome, seat) == expected
