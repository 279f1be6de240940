"""Codenames: rules, clues, texts, view and measures."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from random_games import plies

from arena import (
    CHANCE,
    Outcome,
)
from arena.agents.reply.reader import correction, read_reply
from arena.core.action import Step
from arena.core.errors import IllegalAction, InvalidAction
from arena.core.view import draw_tabletop
from arena.testing import check_game
from games.codenames.rules import (
    PASS,
    Clue,
    Codenames,
    CodenamesState,
    DealKey,
    DealWords,
    GuessWord,
    KeyDealt,
)

TABLE = (
    *("lion", "apple", "crown", "river"),
    *("piano", "hammer", "moon"),
    *("bread", "shark", "window", "tiger", "rose"),
)
KEY = ("blue",) * 4 + ("orange",) * 3 + ("neutral",) * 4 + ("assassin",)


def small(players: int = 4) -> Codenames:
    return Codenames(rows=3, columns=4, players=players)


def after(*moves: str, game: Codenames | None = None) -> CodenamesState:
    """The position after these moves, on the table above."""
    state = (game or small()).initial_state()
    state.apply(CHANCE, DealWords(TABLE))
    state.apply(CHANCE, DealKey(KEY))
    for move in moves:
        state.apply(state.to_act[0], state.parse(move))
    return state


def legal(state: CodenamesState) -> set[str]:
    return set(map(str, state.legal_actions(state.to_act[0])))


# Set-up


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [(5, 5, (9, 8, 7)), (3, 4, (4, 3, 4)), (4, 4, (6, 5, 4)), (3, 3, (3, 2, 3))],
)
def test_key_keeps_the_proportions(rows: int, columns: int, expected: tuple[int, ...]) -> None:
    game = Codenames(rows=rows, columns=columns)
    state, rng = game.initial_state(), random.Random(3)
    for _ in range(2):
        state.apply(CHANCE, state.sample_chance(rng))
    found = Counter(state.key.values())
    assert (found["blue"], found["orange"], found["neutral"], found["assassin"]) == (*expected, 1)
    assert tuple(state.key) == state.words


def test_impossible_deals_are_refused() -> None:
    state = small().initial_state()
    with pytest.raises(InvalidAction, match="possible result of chance"):
        state.parse("words nonsense")
    with pytest.raises(IllegalAction):
        state.apply(CHANCE, DealWords(TABLE[:11] + TABLE[:1]))
    state.apply(CHANCE, DealWords(TABLE))
    with pytest.raises(IllegalAction):
        state.apply(CHANCE, DealKey(("blue",) * 12))
    assert state.parse(str(DealKey(KEY))) == DealKey(KEY)


# Clues


@pytest.mark.parametrize(
    ("written", "clue"),
    [
        ("clue animal 2", "animal 2"),
        ("CLUE Animal: 2", "animal 2"),
        ('clue "sea-food" (3).', "sea-food 3"),
        ("clue: music, 0", "music 0"),
    ],
)
def test_clue_is_read_in_many_forms(written: str, clue: str) -> None:
    action = after().parse(written)
    assert action == Clue(clue)
    assert isinstance(action, Clue)
    assert f"{action.word} {action.number}" == clue


@pytest.mark.parametrize(
    "written",
    [
        "clue",
        "clue animal",
        "clue 2",
        "clue wild animal 2",
        "clue animal 10",
        "clue animal -1",
        "clue <b>animal</b> 2",
        "clue tier3 2",
        "clue éclair 2",
        "clue ani\x07mal 2",
        "clue -animal 2",
        "clue " + "x" * 1_000_000 + " 2",
    ],
)
def test_bad_clues_are_refused_in_one_line(written: str) -> None:
    state = after()
    with pytest.raises(InvalidAction) as error:
        state.parse(written)
    assert "\n" not in str(error.value) and len(str(error.value)) < 200
    assert state.to_act == (0,)


@pytest.mark.parametrize("word", ["lion", "stallion", "app", "riv-er", "riverside", "a"])
def test_clue_must_not_name_a_hidden_word(word: str) -> None:
    state = after()
    with pytest.raises(IllegalAction, match="on the table; choose another word"):
        state.apply(0, Clue(f"{word} 1"))
    assert state.to_act == (0,)


def test_clue_may_name_a_revealed_word() -> None:
    state = after("pass", "guess lion", "pass", "guess moon")
    assert Clue("lions 1") in state.legal_actions(0)
    assert Clue("apples 1") not in state.legal_actions(0)


def test_a_model_learns_why_its_clue_is_refused() -> None:
    observation = after().observe(0)
    for reply, reason in (
        ("Action: clue lions 2", "the clue 'lions' must not contain, or be contained in, the word"),
        ('{"action": "clue", "text": "wild cats 2"}', "give one word of letters and hyphens"),
    ):
        reading = read_reply(reply, observation)
        assert reading.action is None
        assert reason in correction(reading, observation)
    assert read_reply("**Clue:** FELINE, 2", observation).action == Clue("feline 2")


# Guesses


def test_own_words_allow_one_guess_more_than_the_number() -> None:
    state = after("clue animal 1")
    assert state.to_act == (2,)
    assert legal(state) == {f"guess {word}" for word in TABLE}  # The first one is an obligation.
    state.apply(2, GuessWord("lion"))
    assert "stop" in legal(state)
    state.apply(2, GuessWord("apple"))
    assert state.to_act == (1,)
    assert state.turn == 2


@pytest.mark.parametrize("word", ["bread", "piano"])
def test_another_word_ends_the_turn(word: str) -> None:
    state = after("clue animal 5", f"guess {word}")
    assert state.to_act == (1,)
    assert "all" not in state.game.text.narrate(state.log.events[-1])
    assert not any(state.returns())


@pytest.mark.parametrize("move", ["pass", "clue animal 0"])
def test_pass_and_zero_allow_exactly_one_guess(move: str) -> None:
    state = after(move)
    assert "stop" not in legal(state)
    state.apply(2, GuessWord("lion"))
    assert state.to_act == (1,)


def test_assassin_loses() -> None:
    state = after("clue flower 1", "guess rose")
    assert state.is_terminal
    assert state.returns() == (0, 1, 0, 1)
    assert state.reason() == "blue has revealed the assassin"


def test_last_word_wins_whoever_reveals_it() -> None:
    own = after("clue x-ray 9", "guess lion", "guess apple", "guess crown", "guess river")
    assert own.returns() == (1, 0, 1, 0)
    moves = ["clue x-ray 9", "guess lion", "guess piano", "clue tool 2", "guess hammer", "stop"]
    given_away = after(*moves, "pass", "guess moon")
    assert given_away.is_terminal
    assert given_away.returns() == (0, 1, 0, 1)
    assert given_away.reason() == "all words of orange are found"


def test_guessers_of_a_team_take_turns() -> None:
    state, seats = after(game=small(players=8)), list[int]()
    for word in ("lion", "piano", "apple", "hammer", "crown", "bread", "shark"):
        state.apply(state.to_act[0], PASS)
        seats += state.to_act
        state.apply(state.to_act[0], GuessWord(word))
    assert seats == [2, 3, 4, 5, 6, 7, 2]
    assert state.teams() == (0, 1) * 4
    assert state.roles() == ("clue giver",) * 2 + ("guesser",) * 6


# Secrets


def test_key_is_private_to_the_clue_givers() -> None:
    state = after("clue animal 2", "guess lion")
    for seat in range(4):
        keys = [event for event in state.observe(seat).events if isinstance(event, KeyDealt)]
        assert len(keys) == (seat < 2)
    secret = state.observe(2).text("deductions")
    assert "blue 3, orange 3, neutral 4, assassin 1" in secret
    assert "blue 27%, orange 27%, neutral 36%, assassin 9%" in secret


# Texts and view


def test_view_shows_owners_to_clue_givers_only() -> None:
    state = after("clue animal 2", "guess lion")
    labels = []
    for seat in (0, 2, None):
        events = state.log.events if seat is None else state.observe(seat).events
        table = draw_tabletop(state.game, events, seat)
        assert table is not None
        assert max(map(len, table.text().splitlines())) <= 78
        labels.append([tile.label for row in table.panels[0].panel().rows for tile in row.tiles])
    assert labels[0] == labels[2]
    assert labels[0][:2] == ["LION B", "apple b"] and labels[0][-1] == "rose a"
    assert labels[1][:2] == ["LION B", "apple"] and labels[1][-1] == "rose"


# Measures


def measured(*moves: str, end: str = "terminated") -> dict[str, list[tuple[float, float]]]:
    """Totals and weights by measure, in the order of the assessments."""
    game, sums = small(), dict[str, list[tuple[float, float]]]()
    assessor = game.analysis.assessor()
    assert assessor is not None
    made = [*plies(game, (DealWords(TABLE), DealKey(KEY), *moves))]
    assessments = [each for ply in made for each in assessor.ply(ply)]
    state = game.initial_state().apply_all(Step(ply.player, ply.decision.action) for ply in made)
    outcome = Outcome(end, "over", state.returns())  # type: ignore[arg-type]
    for each in (*assessments, *assessor.end(outcome)):
        for name, value in each.measurements.items():
            sums.setdefault(name, []).append((each.player, value.total))
    return sums


def test_measures_count_words_guesses_and_the_assassin() -> None:
    sums = measured("clue animal 2", "guess lion", "guess tiger", "clue flower 1", "guess rose")
    assert sums["words_per_clue"] == [(0, 1), (1, 0)]
    assert sums["right_guesses"] == [(2, 1), (2, 0), (3, 0)]
    assert sums["assassin"] == [(0, 0), (1, 1), (2, 0), (3, 1)]


def test_conformance_of_other_options() -> None:
    check_game(Codenames(rows=3, columns=4, players=6), seeds=range(2))
