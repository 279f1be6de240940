"""The reader of replies: what it takes for an action, what it calls a failure, and how fast."""

from __future__ import annotations

import importlib
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from pathlib import Path
from typing import Any, get_args

import pytest
from function_calls import function_call
from hypothesis import given, settings
from hypothesis import strategies as st
from random_games import walk

from arena.agents.reply.phrasebook import Phrasebook
from arena.agents.reply.reader import correction, read_reply
from arena.core.action import CHANCE, Action, field_names
from arena.core.action_set import ActionTable
from arena.core.errors import ActionError
from arena.core.game import Game
from arena.core.observation import Observation
from arena.llm.backend import FinishReason
from arena.plugins.catalog import catalog, make_game
from games.cluedo.rules.board import SUSPECTS, WEAPONS
from games.goofspiel.game import Goofspiel
from games.tictactoe.game import TicTacToe

GAMES: list[tuple[str, dict[str, Any]]] = [
    ("tictactoe", {}),
    ("kuhn_poker", {}),
    ("goofspiel", {}),
    ("cluedo", {"players": 3}),
    ("cluedo", {"players": 2, "suspects": 3, "weapons": 2, "rooms": 4}),
    ("cluedo", {"variant": "classic", "players": 4, "theme": "us"}),
]


@cache
def observations(name: str, options: str) -> list[Observation]:
    """Decisions of each kind: one for each set of heads of the legal actions."""
    found = {}
    for seed in range(4):
        for state in walk(make_game(name, **json.loads(options)), seed):
            observation = state.observe(state.to_act[0])
            heads = {str(action).split()[0] for action in observation.legal_actions}
            found[tuple(sorted(heads))] = observation
    return list(found.values())


def decisions() -> list[Observation]:
    return [o for name, options in GAMES for o in observations(name, json.dumps(options))]


def decision(head: str, **options: Any) -> Observation:
    """A decision of Cluedo in which this head is legal."""
    every = observations("cluedo", json.dumps(options))
    return next(o for o in every if any(str(a).startswith(head) for a in o.legal_actions))


REASONS: tuple[FinishReason, ...] = get_args(FinishReason)

OTHER_NAMES = dict(
    pair
    for cards in (SUSPECTS, WEAPONS)
    for pair in (
        *zip(cards["uk"], cards["us"], strict=True),
        *zip(cards["us"], cards["uk"], strict=True),
    )
)


def prose(action: Action) -> str:
    head, _, rest = str(action).partition(" ")
    return f"So I {head} the " + " with the ".join(reversed(rest.split(", ")))


def fields(action: Action) -> dict[str, Any]:
    return {name: getattr(action, name) for name in field_names(action)}


def other_theme(action: Action) -> str:
    head, _, rest = str(action).partition(" ")
    return f"{head} {', '.join(OTHER_NAMES.get(name, name) for name in rest.split(', '))}"


def head_of(action: Action) -> str:
    return str(action).split()[0]


DISGUISES: dict[str, Callable[[Action, Action], str]] = {
    "as it is": lambda action, other: str(action),
    "upper case": lambda action, other: str(action).upper(),
    "markdown": lambda action, other: f"### Answer\n**`{action}`**!",
    "no punctuation": lambda action, other: str(action).replace(",", "").replace(".", ""),
    "with joining words, turned round": lambda action, other: prose(action),
    "behind reasoning": lambda action, other: (
        f"Let me think. I could {other}, but no. Perhaps {other}? No.\nMy answer: {action}."
    ),
    "behind a think block": lambda action, other: f"<think>{other}</think>\n\n{action}",
    "before a think block": lambda action, other: f"{action}\n<think>or {other}?</think>",
    "opened in the prompt": lambda action, other: f"Maybe {other}.</think>{action}",
    "before an unclosed think block": lambda action, other: f"{action}\n<THINK>or {other}?",
    "JSON": lambda action, other: json.dumps({"action": str(action), "reason": f"Not {other}"}),
    "JSON in a fence": lambda action, other: (
        f"{other}?\n```json\n{json.dumps({'idea': str(other), 'move': str(action)}, indent=1)}\n```"
    ),
    "JSON with fields": lambda action, other: json.dumps(
        {"why": str(other)} | dict(reversed(fields(action).items())) | {"action": head_of(action)}
    ),
    "nested JSON": lambda action, other: json.dumps(
        {"action": {"type": type(action).__name__, **fields(action)}}
    ),
    "a tool call": lambda action, other: json.dumps(
        {"name": "act", "arguments": json.dumps({"action": str(action)})}
    ),
    "a tag": lambda action, other: f"<answer>{action}</answer>",
    "other theme": lambda action, other: other_theme(action),
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_every_legal_action_is_read_in_every_disguise(disguise: str) -> None:
    rng = random.Random(7)
    for observation in decisions():
        legal = observation.legal_actions
        for action in rng.sample(legal, min(len(legal), 40)):
            other = rng.choice([a for a in legal if a != action])
            reply = DISGUISES[disguise](action, other)
            reading = read_reply(reply, observation)
            assert (reading.action, reading.failure) == (action, None), reply


def test_a_third_party_game_needs_nothing_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "plugin"))
    nim: Game = importlib.import_module("nim_game.rules").Nim()
    state = nim.initial_state()
    observation = state.observe(state.to_act[0])
    rng = random.Random(7)
    for name, disguise in DISGUISES.items():
        if name == "with joining words, turned round":
            continue
        for action in observation.legal_actions:
            other = rng.choice([a for a in observation.legal_actions if a != action])
            assert read_reply(disguise(action, other), observation).action == action
    spoken = str(observation.legal_actions[0]).replace("from", "sticks from heap")
    assert read_reply(f"I'll {spoken}.", observation).action == observation.legal_actions[0]


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        (
            "I suggest that Mustard did it with the knife in the billiard room",
            "suggest Colonel Mustard, Dagger, Billiard Room",
        ),
        (
            "Suggestion: Mr. Green, lead pipe, dining room",
            "Reverend Green, Lead Piping, Dining Room",
        ),
        ("suggest Kitchen, Rope, Green", "suggest Reverend Green, Rope, Kitchen"),
        ("suggest that Mrs Peacock did it, gun, ball room", "Mrs Peacock, Revolver, Ballroom"),
        (
            "My final accusation: Rev Green, gun, ball room",
            "accuse Reverend Green, Revolver, Ballroom",
        ),
        ("Mustard would be a guess. I pass.", "end turn"),
        ("I end my turn", "end turn"),
        ("done", "end turn"),
        ('{"action": "pass"}', "end turn"),
        ("I suggest Plum, Rope, Hall. This is why.", "suggest Professor Plum, Rope, Hall"),
        ("I don't accuse Plum, Rope, Hall. suggest Mrs White, Rope, Hall", "Mrs White, Rope, Hall"),
        (
            "- **Suspect:** Plum\n- **Weapon:** Rope\n- **Room:** Hall\n\naccuse",
            "accuse Professor Plum, Rope, Hall",
        ),
        ("Suggest:\n- **Suspect:** Plum\n- **Weapon:** Rope\n- **Room:** Hall", "Plum, Rope, Hall"),
    ],
)
def test_ways_to_suggest(reply: str, action: str) -> None:
    reading = read_reply(reply, decision("suggest", players=3))
    assert str(reading.action or reading.failure).endswith(action)


def test_only_the_arguments_will_do_where_they_fit_one_action() -> None:
    show = decision("show", players=3)
    for action in show.legal_actions:
        card = str(action).removeprefix("show ")
        for reply in (
            card,
            f"The {card}.",
            f"It was a good guess.\n\n**{card}**",
            f"reveal {card}",
        ):
            assert read_reply(reply, show).action == action, reply
    move = decision("move", variant="classic", players=4, theme="us")
    assert str(read_reply("the kitchen", move).action) == "move Kitchen"
    assert str(read_reply("I'll head for the dining room", move).action) == "move Dining Room"


def test_an_object_that_does_not_look_like_an_answer_is_read_as_prose() -> None:
    observation = decision("suggest", players=3)
    reply = json.dumps({"my guess now": "suggest Mrs White, Rope, Hall"})
    assert str(read_reply(reply, observation).action) == "suggest Mrs White, Rope, Hall"


def test_an_action_may_be_the_beginning_of_another() -> None:
    @dataclass(frozen=True, slots=True)
    class Draw(Action):
        words: str

        def __str__(self) -> str:
            return self.words

    class Cards(TicTacToe):
        actions = ActionTable([Draw("draw"), Draw("draw 2"), Draw("keep")])

    book = Phrasebook(Cards())
    for text in ("draw", "draw 2"):
        assert [str(found.actions[0]) for found in book.mentions(f"i {text}, yes")] == [text]


def test_a_name_that_the_game_does_not_have_is_nobodys() -> None:
    observation = decision("suggest", players=3)
    for words in ("suggest Chef White, Rope, Hall", "So guess Chef White, Rope, Hall"):
        assert read_reply(words, observation).action is None, words


def test_what_the_board_fixes_may_be_left_out() -> None:
    inside = decision("suggest", variant="classic", players=4, theme="us")
    first = inside.legal_actions[0]
    reply = str(first).rpartition(",")[0]
    assert read_reply(reply, inside).action == first
    assert read_reply(f"Action: {reply}, for many reasons.", inside).failure == "ambiguous"


FAILURES: list[tuple[str, dict[str, str], str, str]] = [
    ("", {}, "empty", "empty"),
    (" \n\u200b\x00", {}, "empty", "empty"),
    ("<think>suggest Plum, Rope, Hall", {}, "empty", "empty"),
    ("<think>suggest Plum, Rope, Hall", {"finish_reason": "length"}, "truncated", "cut off"),
    ("Let me see, I might sugg", {"finish_reason": "length"}, "truncated", "cut off"),
    ("", {"refusal": "No."}, "refused", "parlour game"),
    ("suggest", {"finish_reason": "content_filter"}, "refused", "parlour game"),
    ("I'm sorry, but I can't help with that.", {}, "refused", "parlour game"),
    ("I cannot assist with accusing people of murder.", {}, "refused", "parlour game"),
    ("show Rope", {}, "illegal", "'show Rope' is not allowed now"),
    ("The best is to show Rope, in my opinion.", {}, "illegal", "'show Rope' is not allowed now"),
    ('{"action": "show", "card": "Rope"}', {}, "illegal", "not allowed"),
    ("suggest Miss Scarlett", {}, "ambiguous", "Name the weapon and the room too"),
    ("I think I will suggest Plum, with care, since it may be him", {}, "ambiguous", "the weapon"),
    ("suggest", {}, "ambiguous", "Name the suspect, the weapon and the room too"),
    ("Plum, Rope, Hall", {}, "ambiguous", "suggest, accuse. Say which"),
    ("suggest Plum, Plum, Green", {}, "illegal", "not allowed"),
    ("accuse Plum, Rope, Hall or end turn", {}, "undecided", "names several actions"),
    ("The weather is fine.", {}, "unparsable", "No action was found"),
    ("I will not accuse Plum, Rope, Hall", {}, "unparsable", "No action was found"),
    (
        *("Mustard holds the rope, which he has shown to the third player, I am sure of it", {}),
        *("unparsable", "No action was found"),
    ),
]


@pytest.mark.parametrize(("reply", "how", "failure", "told"), FAILURES)
def test_failures_and_their_corrections(
    reply: str, how: Mapping[str, Any], failure: str, told: str
) -> None:
    observation = decision("suggest", players=3)
    reading = read_reply(reply, observation, **how)
    assert (reading.action, reading.failure) == (None, failure)
    text = correction(reading, observation)
    assert told in text
    assert text.endswith(f"For example: {observation.legal_actions[0]}")
    assert len(text) < 300


def test_not_every_cannot_is_a_refusal() -> None:
    observation = decision("suggest", players=3)
    assert read_reply("I can't decide between the two.", observation).failure == "unparsable"
    reply = "I can't help it.\nAction: suggest Plum, Rope, Hall"
    assert str(read_reply(reply, observation).action) == "suggest Professor Plum, Rope, Hall"


def test_an_action_that_is_declined_or_only_offered_is_not_taken() -> None:
    observation = decision("suggest", players=3)
    for reply in (
        "I do not want to accuse Plum, Rope, Hall.",
        "I'm not ready to accuse Plum, Rope, Hall yet.",
        "suggest SUSPECT, WEAPON, ROOM | accuse SUSPECT, WEAPON, ROOM | end turn.",
        "suggest White, Rope, Hall. (Avoid: accuse Plum, Rope, Hall)",
    ):
        assert read_reply(reply, observation).action is None, reply


@pytest.mark.parametrize(
    "other", ["end turn", "accuse Plum, Rope, Hall", "something else", "show Rope"]
)
@pytest.mark.parametrize("mark", ["", "Action: "])
def test_a_choice_of_two_is_no_action(mark: str, other: str) -> None:
    """A grammar that is repeated, with one of its forms filled in."""
    observation = decision("suggest", players=3)
    for pair in (f"suggest White, Rope, Hall | {other}", f"{other} | suggest White, Rope, Hall"):
        reading = read_reply(mark + pair, observation)
        assert reading.action is None, pair
        assert reading.failure in ("unparsable", "ambiguous", "undecided", "illegal")


CUT_CALLS = (
    '<tool_call>\n{"name": "EndTurn", "arguments": {"thoughts": "Action: end turn',
    '{"name": "EndTurn", "arguments": {"thoughts": "so, Action: end turn.\\nHm',
    'Well.\n<tool_call>\n{"name": "EndTurn"',
    "<tool_call>",
)


@pytest.mark.parametrize("reply", CUT_CALLS)
def test_a_call_that_was_cut_off_is_no_action(reply: str) -> None:
    observation = decision("end", players=3)
    assert read_reply(reply, observation, "length").failure == "truncated"
    whole = '<tool_call>\n{"name": "EndTurn", "arguments": {"thoughts": "x"}}\n</tool_call>'
    assert str(read_reply(whole, observation, "length").action) == "end turn"


FORMS = (
    "ｅｎｄ　ｔｕｒｎ",
    "Ａｃｔｉｏｎ： ｅｎｄ ｔｕｒｎ",
    "𝐀𝐜𝐭𝐢𝐨𝐧: 𝐞𝐧𝐝 𝐭𝐮𝐫𝐧",
    '｛"action": "ｅｎｄ ｔｕｒｎ"｝',
)


@pytest.mark.parametrize("reply", FORMS)
def test_full_width_letters_are_read(reply: str) -> None:
    observation = decision("end", players=3)
    assert str(read_reply(reply, observation).action) == "end turn"


def test_numbers_are_not_picked_up_from_far_away() -> None:
    observation = next(iter(walk(Goofspiel(), 0))).observe(0)
    assert read_reply("If I bid high, then player 3 is first, I fear.", observation).action is None
    assert str(read_reply("I bid my card 3.", observation).action) == "bid 3"


def test_without_any_legal_action() -> None:
    state = TicTacToe().initial_state()
    waiting = state.observe(1)
    for reply in ("mark 1 1", "mark", "", "hello", "1 1"):
        reading = read_reply(reply, waiting)
        assert reading.action is None
        assert "For example" not in correction(reading, waiting)


# Fuzz: whatever comes, no error, and nothing illegal.

LOOSE = [
    *("<think>", "</think>", "<think", "[THINK]", "```json\n", "```", "{", "}", "[", '"', ",", ":"),
    *('{"action":', '{"action": "', '"suspect": "', '"}', "{}", '{"a": 1}', "null", "\\", "\\u12"),
    *("not ", "don't ", "I ", "the ", "with ", "end my turn", "done", "pass", "knife", "Mr. Green"),
    *("\n\r\n\t\x00", "\x1b[31m", "\u200b", "\u202e", "İ", "ß", "ﬁ", "ｓｈｏｗ", "😀", "\ud800"),
    *(
        "i can't help",
        "sorry",
        "**",
        "_",
        "#",
        "0",
        "13",
        "-1",
        "9" * 50,
        "{" * 200,
        "NaN",
        "1e999",
    ),
]


@settings(max_examples=500)
@given(data=st.data(), glue=st.sampled_from(("", " ", "\n", ", ")), how=st.sampled_from(REASONS))
def test_any_text_at_all(data: st.DataObject, glue: str, how: FinishReason) -> None:
    observation = data.draw(st.sampled_from(decisions()))
    actions = st.sampled_from(observation.game.actions.actions)
    legal = st.sampled_from(observation.legal_actions.actions)
    texts = (actions | legal).map(str)
    cut = st.tuples(texts, st.integers(0, 30)).map(lambda pair: pair[0][pair[1] :])
    objects = texts.map(lambda text: json.dumps({"action": text})) | legal.map(
        lambda action: json.dumps(fields(action))
    )
    piece = texts | texts | cut | objects | st.sampled_from(LOOSE) | st.text(max_size=20)
    reading = read_reply(glue.join(data.draw(st.lists(piece, max_size=12))), observation, how)
    assert len(reading.excerpt) <= 120
    assert (reading.action is None) != (reading.failure is None)
    if reading.action is None:
        assert correction(reading, observation)
    else:
        assert reading.action in observation.legal_actions


# Speed


def median_seconds(replies: list[str], observation: Observation) -> float:
    seconds = []
    for reply in replies:
        begun = time.process_time()
        read_reply(reply, observation)
        seconds.append(time.process_time() - begun)
    return sorted(seconds)[len(seconds) // 2]


@pytest.mark.timed
def test_usual_replies_take_less_than_a_few_milliseconds() -> None:
    observation = decision("suggest", players=3)
    thought = (
        "Player 2 showed me the Rope, so the weapon is the Dagger or the Spanner, and Mrs White "
        "cannot be in the Hall. I could suggest Plum, Rope, Hall to learn about the Hall. "
    )
    endings = ("suggest Plum, Rope, Hall", "Green", "no idea", '{"action": "end turn"}')
    replies = [thought * times + f"\n{end}" for times in range(9) for end in endings]
    median_seconds(replies[:4], observation)
    assert median_seconds(replies * 5, observation) < 0.003


@pytest.mark.timed
@pytest.mark.parametrize(
    "unit", ["x", "Action: maybe\n", '{"a": "b"} ', "[[<<", "<think>a</think>"]
)
def test_a_reply_of_ten_megabytes_does_not_hold_up_the_event_loop(unit: str) -> None:
    observation = decision("suggest", players=3)
    reply = unit * (10_000_000 // len(unit))
    assert any(median_seconds([reply], observation) < 0.5 for _ in range(3))
    ending = reply + "</think>\nAction: suggest Plum, Rope, Hall"
    assert str(read_reply(ending, observation).action) == "suggest Professor Plum, Rope, Hall"


@pytest.mark.timed
@pytest.mark.parametrize(
    "unit",
    [
        "a ",
        "suggest ",
        "suggest rope hall ",
        '{"a":',
        "{",
        "<think>",
        "\n",
        "not accuse Plum, Rope, Hall ",
        "İ ",
        "a\u0301\u0323\u0301\u0323",
        "\u0301\u0323",
        "\n" * 15_999 + "x",
        "<notes>",
        "``` \n \n",
    ],
)
def test_a_megabyte_takes_bounded_time(unit: str) -> None:
    observation = decision("suggest", players=3)
    reply = unit * (1_000_000 // len(unit))
    # The best of three: other processes on the same cores slow one of them down.
    assert any(median_seconds([reply], observation) < 2 for _ in range(3))


# Moves that no model chose


def first_decision(name: str) -> Observation:
    state, rng = make_game(name).initial_state(), random.Random(3)
    while state.to_act == (CHANCE,):
        state.apply(CHANCE, state.sample_chance(rng))
    return state.observe(state.to_act[0])


TALK = (
    "{} is the obvious move, and a poor one.",
    "My first idea was {}.",
    "{} looks tempting.",
    "The last time somebody played {}.",
)
ANSWERS = (
    '```json\n{{"action": "{}"}}\n```',
    "Final answer: {}",
    "<action>{}</action>",
    "\\boxed{{{}}}",
    "```Answer: {}",
)
IMPOSSIBLE = {
    ("tictactoe", "mark 1 1"): ("mark 5 5", "mark 0 0", "place E5"),
    ("battleship", "shoot a1"): ("shoot k11", "shoot (0,0)", "fire at Z9"),
    ("avalon", "propose Player 0, Player 1"): ("propose Player 7, Player 8", "propose Bob, Alice"),
    ("kuhn_poker", "bet"): ("all in", "raise to 3"),
    ("leduc_poker", "call"): ("all in", "bet 5"),
    ("goofspiel", "bid 2"): ("bid 13", "play the ten"),
    ("hanabi", "play slot 1"): ("play slot 9", "hint Player 7 purple"),
    ("cluedo", "suggest Miss Scarlett, Candlestick, Kitchen"): ("suggest Dr Orchid, Taser, Attic",),
}


@pytest.mark.parametrize(
    ("name", "legal", "answer"),
    [(*known, answer) for known, answers in IMPOSSIBLE.items() for answer in answers],
)
def test_an_impossible_answer_is_not_replaced_by_a_move_in_prose(
    name: str, legal: str, answer: str
) -> None:
    seen = first_decision(name)
    assert legal in map(str, seen.legal_actions)
    for talk, form in product(TALK, ANSWERS):
        for reply in (
            f"{talk.format(legal)}\n{form.format(answer)}",
            f"{form.format(answer)}\n{talk.format(legal)}",
            form.format(f"{answer}, since {legal} is worse"),
        ):
            assert read_reply(reply, seen).action is None, reply
    # The answer is the mark, even if an action follows it.
    reading = read_reply(f"Answer: {answer}\n{legal}", seen)
    assert reading.action is None and answer.casefold()[:6] in reading.excerpt.casefold()


MARKS = (
    "Action: {}\n",
    "**Final answer:** `{}`\n",
    "<action>{}</action>",
    "\\boxed{{{}}}",
    '{{"action": "{}"}}',
    '<tool_call>{{"name": "act", "arguments": {{"action": "{}"}}}}</tool_call>',
    "```\n{}\n```",
)


@settings(max_examples=300)
@given(data=st.data())
def test_the_contract(data: st.DataObject) -> None:
    """See the docstring of the reader."""
    observation = data.draw(st.sampled_from(decisions()))
    texts = [*map(str, data.draw(st.permutations(observation.legal_actions[:9])))]
    actions = st.sampled_from(texts)
    talk = st.lists(st.sampled_from(TALK).flatmap(lambda t: actions.map(t.format)), max_size=3)
    marks = st.sampled_from(MARKS)
    before, after = "\n".join(data.draw(talk)), "\n".join(data.draw(talk))
    # 1. The last marked answer is the answer; if it is no legal action, there is none.
    earlier = "\n".join(data.draw(marks).format(data.draw(actions)) for _ in range(2))
    mark, answer = data.draw(marks), data.draw(actions | st.just("fold the table"))
    reply = f"{before}\n{earlier}\n{mark.format(answer)}\n{after}"
    reading = read_reply(reply, observation)
    assert str(reading.action) == (answer if answer in texts else "None"), reply
    if reading.action is None:
        assert reading.failure == "illegal" and "fold the table" in reading.excerpt
    # 2. Without a mark the last line counts. Several actions elsewhere are no answer.
    assert str(read_reply(f"{before}\n\n{texts[0]}", observation).action) == texts[0]
    if len(texts) > 1:
        both = f"First {texts[0]} was good for me, and then {texts[1]} was as good."
        assert read_reply(both, observation).action is None
    # 3. What was cut off has an action only in a complete mark, which begins or ends it.
    for cut in (f"{before}\n{texts[0]}", f"{before}\nAction: {texts[0]}", texts[0]):
        assert read_reply(cut, observation, "length").failure == "truncated"
    inside = f"For example:\n{mark.format(texts[0])}\nSo let me think"
    assert read_reply(inside, observation, "length").failure == "truncated"
    for whole in (f"For now:\n{mark.format(texts[0])}", f"{mark.format(texts[0])}\nI think that"):
        assert str(read_reply(whole, observation, "length").action) == texts[0]
    # 4. A number that does not belong to an action makes it another one.
    number = data.draw(st.sampled_from(("-3", "to 40", "2.5", "1,000", "½", "3/4")))
    for form in ("{}", "Action: {}", '{{"action": "{}"}}', "I will {}."):
        assert read_reply(form.format(f"{texts[0]} {number}"), observation).action is None


KEYS = ("name", "arguments")
"""Keys of the call of a function."""


@pytest.mark.parametrize("name", catalog().names("game"))
def test_the_answers_of_every_game_are_read(name: str) -> None:
    game, rng = make_game(name), random.Random(1)
    forms: list[Callable[[Action], str]] = [
        *(str, "Action: {}. That is best.".format, lambda action: f"Hm.\n**{action}**"),
        *(
            lambda action: json.dumps({"thoughts": "", "action": str(action)}),
            lambda action: json.dumps(
                {"name": function_call(action)[0], "arguments": function_call(action)[1]}
            ),
        ),
    ]
    for state in islice(walk(game, 1), 0, 12, 3):
        seen = state.observe(state.to_act[0])
        legal = seen.legal_actions
        for form, action in product(forms, rng.sample(legal, min(6, len(legal)))):
            assert read_reply(form(action), seen).action == action, form(action)
        for action in rng.sample(game.actions.actions, min(6, len(game.actions))):
            reply = f"{legal[0]} looks good.\nAction: {action}"
            assert read_reply(reply, seen).action == (action if action in legal else None), reply


@pytest.mark.parametrize(
    "reply",
    [
        "Let me look. Options:\nmark 1 1\nThat takes a corner. But wait, the centre may be better,",
        "We could answer\n\nmark 1 1\n\nor take the middle. Compare both: ",
        "The rules say to end with `Action: `, for example:\nAction: mark 2 3\nSo let me analyse",
        '{"action": "mark 1 1"} is the format. Now think',
        "Options:\n1. mark 1 1\n2. mark 2 2\nI choose option 1 unless",
    ],
)
def test_an_example_in_a_reply_that_was_cut_off_is_no_action(reply: str) -> None:
    assert read_reply(reply, first_decision("tictactoe"), "length").failure == "truncated"


@pytest.mark.parametrize(
    ("name", "replies"),
    [
        ("goofspiel", ("bid -3", "bid 3.5", "bid 3-4", "bid ½", "-2", "Action: -2", "bid \u22123")),
        ("goofspiel", ('{"action": "bid", "card": -2}', "Action: bid 2.0", "bid 3/4")),
        ("liars_dice", ("bid 2 -3", "bid 2.5 3", "bid -2 3")),
        ("negotiation", ("keep -1 0 1", "offer -1 1 1")),
        ("tictactoe", ("mark -1 2", '{"row": -1, "column": 2}')),
    ],
)
def test_a_sign_a_fraction_or_a_range_is_not_left_out(name: str, replies: Sequence[str]) -> None:
    seen = first_decision(name)
    for reply in replies:
        assert read_reply(reply, seen).action is None, reply
        with pytest.raises(ActionError):
            seen.parse(reply)
