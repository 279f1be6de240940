"""What pages draw of the games' tables: the facts of each scene, and the drawing in Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsing import PATIENCE, browsing
from known_deal import ENVELOPE, HANDS

from arena.core.action import CHANCE, Action
from arena.core.event import Event
from arena.core.game import Game, State
from arena.core.view import Scene, Tabletop
from arena.plugins.catalog import make_game
from arena.testing.conformance import check_drawing
from arena.testing.non_interference import check_non_interference
from arena.testing.positions import random_positions
from games.cluedo.facts import Facts
from games.cluedo.game import Cluedo
from games.cluedo.rules import board
from games.cluedo.rules.setting import (
    ROLL,
    Accuse,
    CardShown,
    DealCards,
    Dealt,
    EnvelopeSeen,
    HandDealt,
    Move,
    Show,
    Suggest,
    Throw,
)
from games.kuhn_poker.game import CardDealt, KuhnPoker, KuhnPokerState
from replays.analysis.scenes import scene_module

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route


def played(game: Game, *actions: Action) -> State:
    state = game.initial_state()
    for action in actions:
        state.apply(state.to_act[0], action)
    return state


def seen(state: State, seat: int | None = None) -> Any:
    """The scene of this position, through JSON and back."""
    scene = state.game.new_view(seat)
    assert isinstance(scene, Scene)
    for event in state.log.events if seat is None else state.log.witnessed[seat]:
        scene.update(event)
    return json.loads(json.dumps(scene.to_json()))


def cluedo(*actions: Action, **options: Any) -> State:
    return played(Cluedo(players=3, **options), DealCards(ENVELOPE, HANDS), *actions)


ASKED = Suggest("Mrs White", "Revolver", "Study")
"""Player 1 can refute it with the Revolver, or player 2 with the Study."""


# The facts


def test_a_suggestion_is_told_with_its_answers() -> None:
    before, after = cluedo(ASKED), cluedo(ASKED, Show("Revolver"))
    asked = {"player": 0, "cards": [*ASKED.triple], "unable": [], "refuter": 1, "shown": None}
    for seat in (None, 0, 1, 2):
        assert seen(before, seat)["suggestion"] == asked
    for seat in (None, 0, 1):
        assert seen(after, seat)["suggestion"] == {**asked, "shown": "Revolver"}
    assert seen(after, 2)["suggestion"] == asked


def test_a_seat_sees_its_own_hand_and_what_it_was_shown() -> None:
    scene = seen(cluedo(ASKED, Show("Revolver")), 0)
    cards = [card for kind in scene["deck"] for card in kind]
    signs = dict(zip(cards, scene["marks"], strict=True))
    assert {card for card in cards if signs[card][0] == "X"} == set(HANDS[0])
    assert signs["Revolver"] == "-X--"
    # It knows its own hand, so that nothing is open in its own column.
    assert {signs[card][0] for card in cards} == {"X", "-"}
    assert [signs[card] for card in ENVELOPE] == ["-..."] * 3
    everything = seen(cluedo())
    held = dict(zip(cards, everything["marks"], strict=True))
    assert [held[card] for card in ENVELOPE] == ["---X"] * 3


def test_a_false_accusation_stays_in_sight_until_the_next_turn_goes_on() -> None:
    wrong = Accuse("Mrs White", "Rope", "Study")
    scene = seen(cluedo(wrong), 2)
    assert (scene["player"], scene["turn"], scene["out"]) == (1, 2, [0])
    assert scene["accusation"] == {
        "player": 0,
        "cards": [*wrong.triple],
        "correct": False,
        "turn": 1,
    }
    assert seen(cluedo(wrong, ASKED), 2)["accusation"] is None
    right = seen(cluedo(Accuse(*ENVELOPE)), 2)
    assert right["accusation"]["correct"] and [row[3] for row in right["marks"]].count("X") == 3


def test_who_has_seen_the_envelope_does_not_take_the_last_unseen_cards_for_it() -> None:
    """Three cards that are not placed are the envelope only if it is not known already."""
    game = Cluedo(players=2, suspects=3, weapons=2, rooms=4)
    deck = game.deck
    envelope = deck.triples[0]
    others = [card for card in deck.cards if card not in envelope]
    events: list[Event] = [
        Dealt((3, 3), ()),
        HandDealt(0, tuple(others[:3])),
        EnvelopeSeen(0, envelope),
    ]
    facts = Facts(game, 0)

    def in_envelope() -> list[str]:
        return [card for card, signs in facts.signs().items() if signs[2] == "X"]

    for event in events:
        facts.update(event)
    assert in_envelope() == list(envelope)
    assert facts.signs()[others[5]][1] == "."
    facts.update(CardShown(1, 0, others[5]))
    assert facts.signs()[others[5]][1] == "X" and in_envelope() == list(envelope)


# The kit must notice each of these.


class CardsView:
    """The cards that the viewer has seen."""

    def __init__(self, game: Game, seat: int | None) -> None:
        self.cards: list[str | None] = [None, None]

    def update(self, event: Event) -> None:
        if isinstance(event, CardDealt):
            self.cards[event.player] = event.card

    def tabletop(self) -> Tabletop:
        return Tabletop((), ", ".join(map(str, self.cards)))


class Peeking(CardsView):
    """It keeps what every view has seen, and tells it the next one."""

    known: dict[int, str] = {}  # noqa: RUF012 - that it is shared is the fault

    def __init__(self, game: Game, seat: int | None) -> None:
        super().__init__(game, seat)
        self.cards = [self.known.get(player) for player in range(2)]

    def update(self, event: Event) -> None:
        super().update(event)
        self.known |= {player: card for player, card in enumerate(self.cards) if card}


class RevealingState(KuhnPokerState):
    """It leaves the deal where a view can find it."""

    def _apply(self, player: int, action: Action) -> None:
        super()._apply(player, action)
        Revealed.found = self.cards


class Revealed(CardsView):
    found: Any = ()

    def tabletop(self) -> Tabletop:
        return Tabletop((), str(self.found))


class Undrawn(CardsView):
    """Its module is not one that draws."""

    module = Path(__file__)

    def to_json(self) -> dict[str, object]:
        return {}


class Revealing(KuhnPoker):
    View = Revealed  # type: ignore[assignment]

    def initial_state(self) -> KuhnPokerState:
        return RevealingState(self)


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (type("Looked", (KuhnPoker,), {"View": Peeking})(), "depends on who looked"),
        (Revealing(), "can tell its world from another"),
        (type("Modules", (KuhnPoker,), {"View": Undrawn})(), "no function `draw`"),
    ],
)
def test_the_kit_finds_faulty_views(game: Game, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        for seed in range(4):
            check_drawing(game, seed)
            check_non_interference(game, seed)


# The drawing

PAGE = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="style.css">
<div class="scene" id="root"></div><script type="module" src="page.js"></script>"""
STYLE = "body { margin: 0 } .scene svg { max-width: 100%; height: auto }"
SCRIPT = """
const make = (create) => (tag, attributes, ...children) => {
  const element = create(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const h = make((tag) => document.createElement(tag));
const s = make((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
window.load = (name) => import(`./${name}.js`);
window.show = async (scene, context) => {
  const { draw } = await load(context.game);
  document.getElementById("root").replaceChildren(draw(scene, { ...context, h, s }));
};
"""
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'"
HOSTILE = "<img src=x onerror=alert(1)>\"'&amp;"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A page with the policy of the viewer's; whatever the browser complains about is a fault."""
    with browsing() as browser:
        page = browser.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.route("**/*", answer)
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto("http://scenes.test/")
        page.wait_for_function("() => Boolean(window.show)")
        yield page
    assert complaints == []


def answer(route: Route) -> None:
    """The page's own files and the module of the scene; nothing else may be asked for."""
    files = {"": (PAGE, "html"), "page.js": (SCRIPT, "javascript"), "style.css": (STYLE, "css")}
    files["cluedo.js"] = (scene_module("cluedo").read_text("utf-8"), "javascript")
    body, kind = files[route.request.url.removeprefix("http://scenes.test/")]
    route.fulfill(
        body=body,
        headers={"content-type": f"text/{kind}; charset=utf-8", "content-security-policy": POLICY},
    )


def show(
    page: Page, state: State, seat: int | None = None, before: Any = None, name: str = "bot:random"
) -> str:
    """Draw a position; all its words, labels of figures included."""
    game = state.game
    assert isinstance(game, Game)
    context = {
        "game": game.name,
        "options": game.options.model_dump(),
        "seats": game.seat_names,
        "specs": [name] * game.num_players,
        "seat": seat,
        "before": before,
    }
    page.evaluate("([scene, context]) => show(scene, context)", [seen(state, seat), context])
    labels = page.locator("#root [aria-label]").all()
    words = [label.get_attribute("aria-label") or "" for label in labels]
    return " ".join([*words, page.locator("#root").inner_text()])


@pytest.mark.browser
def test_the_drawn_board_is_the_one_of_the_rules(page: Page) -> None:
    drawn = page.evaluate("async () => (await load('cluedo')).BOARD")
    assert drawn["map"] == board.MAP
    assert drawn["letters"] == board.LETTERS
    assert drawn["passages"] == board.PASSAGES
    assert drawn["doors"] == json.loads(json.dumps(board.DOORS))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cluedo", {"players": 2, "suspects": 3, "weapons": 2, "rooms": 4}),
        ("cluedo", {"players": 6, "theme": "us"}),
        ("cluedo", {"players": 4, "leftover_cards": "open"}),
        ("cluedo", {"variant": "classic", "players": 6}),
        ("cluedo", {"theme": "generated", "suspects": 12, "rooms": 12}),
    ],
    ids=str,
)
@pytest.mark.browser
def test_every_position_is_drawn_at_any_width(
    page: Page, name: str, options: dict[str, Any]
) -> None:
    """From the first to the last, with words for each figure, and never wider than the page."""
    game = make_game(name, **options)
    positions = [position.state.clone() for position in random_positions(game, 0)]
    chosen = [0, 1, *range(2, len(positions), max(1, len(positions) // 6)), len(positions) - 1]
    for number in chosen:
        for seat in (None, game.num_players - 1):
            page.set_viewport_size({"width": (360, 700, 1280)[number % 3], "height": 800})
            earlier = seen(positions[number - 1], seat) if number else None
            assert show(page, positions[number], seat, earlier)
            assert page.evaluate(
                "() => document.documentElement.scrollWidth <= window.innerWidth"
            ), f"position {number} is wider than the page"
    silent = page.locator("#root svg:not([role=img][aria-label]):not([aria-hidden=true])")
    nested = page.locator("#root [role=img] svg:not([aria-hidden=true])")
    assert silent.count() == nested.count() == 0


@pytest.mark.browser
def test_names_are_text_and_never_markup(page: Page) -> None:
    for options in ({"variant": "cards"}, {"variant": "classic"}):
        words = show(page, cluedo(**options), name=HOSTILE)
        assert HOSTILE in words
        assert page.locator("#root img").count() == 0


@pytest.mark.browser
def test_the_words_of_cluedo(page: Page) -> None:
    words = show(page, cluedo(ASKED, Show("Revolver")), 0)
    asked = ("Player 0 suggests", "Player 1 shows Revolver.", "3 hidden cards", "5 hidden")
    legend = "Cards that Player 0 has seen. Deductions are shown in the grid."
    for part in (*asked, "7 ruled out", legend, "Ruled out: cards seen elsewhere"):
        assert part in words
    assert "unseen" not in words and "What Player" not in show(page, cluedo(ASKED))
    assert "Player 1 shows a card." in show(page, cluedo(ASKED, Show("Revolver")), 2)
    accused = show(page, cluedo(Accuse("Mrs White", "Rope", "Study")), 2)
    assert "Player 0 accuses" in accused and "It is false" in accused


@pytest.mark.browser
def test_what_a_seat_has_not_seen_is_not_on_its_page(page: Page) -> None:
    show(page, cluedo(), 0)
    markup = page.locator("#root").inner_html()
    assert all(card in markup for card in HANDS[0])
    assert not [card for card in (*ENVELOPE, *HANDS[1], *HANDS[2]) if card in markup]


@pytest.mark.browser
def test_the_words_of_the_board(page: Page) -> None:
    state = cluedo(ROLL, variant="classic")
    state.apply(CHANCE, Throw(6, 5))
    before = seen(state)
    assert "Lounge" in before["reach"]["rooms"]
    assert "move Kitchen" in before["asks"] and "move Lounge" not in before["asks"]
    ends = {board.walk(board.STARTS[0], room, 11, 0).square for room in board.LETTERS} - {None}
    assert ends <= {*before["reach"]["squares"]}
    state.apply(0, Move("Lounge"))
    assert "reach" not in seen(state)
    words = show(page, state, None, before)
    assert "Miss Scarlett is in the Lounge (it was in the corridor, row 1, column 17)" in words
    assert "The dice show 6 and 5." in words and "Turn 1, Player 0, dice 6 + 5" in words
    state.apply(0, Suggest("Mrs White", "Dagger", "Lounge"))
    assert "the Dagger is in the Lounge" in show(page, state)
