"""The rules of Cluedo, one by one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_deal import ENVELOPE, HANDS
from pydantic import JsonValue

from arena.core.action import CHANCE, Action
from arena.core.errors import IllegalAction, InvalidAction, UsageError
from arena.core.event import Event
from arena.episodes.match import act_out
from arena.plugins.catalog import make_game
from games.cluedo.game import Cluedo
from games.cluedo.rules import board
from games.cluedo.rules.board import Triple
from games.cluedo.rules.setting import (
    Accuse,
    Accused,
    CardShown,
    DealCards,
    Dealt,
    EndTurn,
    EnvelopeSeen,
    HandDealt,
    Move,
    Passage,
    PawnMoved,
    Refuted,
    Roll,
    Show,
    Suggest,
    Throw,
    Unable,
    WeaponMoved,
)
from games.cluedo.rules.state import CluedoState, TurnPhase


def dealt(**options: JsonValue) -> CluedoState:
    """Three players and a deal that the tests know."""
    state = Cluedo(players=3, **options).initial_state()
    state.apply(CHANCE, DealCards(ENVELOPE, HANDS))
    return state


def act(state: CluedoState, *actions: Action) -> list[Event]:
    """Apply the actions for whoever must act; the events that follow."""
    before = len(state.log.events)
    for action in actions:
        state.apply(state.to_act[0], action)
    return state.log.events[before:]


def kinds(events: list[Event]) -> list[type]:
    return [type(event) for event in events]


def test_the_deal_is_public_only_in_its_sizes() -> None:
    state = dealt()
    assert kinds(state.log.events[:4]) == [Dealt, HandDealt, HandDealt, HandDealt]
    own = [event for event in state.log.witnessed[1] if isinstance(event, HandDealt)]
    assert own == [HandDealt(1, HANDS[1])]


@pytest.mark.parametrize(
    ("players", "sizes"),
    [(2, (9, 9)), (3, (6, 6, 6)), (4, (5, 5, 4, 4)), (5, (4, 4, 4, 3, 3)), (6, (3,) * 6)],
)
def test_uneven_deals_favour_the_first_seats(players: int, sizes: tuple[int, ...]) -> None:
    assert Cluedo(players=players).hand_sizes == sizes


def test_leftover_cards_may_lie_open() -> None:
    state = Cluedo(players=4, leftover_cards="open").initial_state()
    state.apply(CHANCE, state.sample_chance(random.Random(1)))
    event = state.log.events[0]
    assert isinstance(event, Dealt)
    assert event.hand_sizes == (4, 4, 4, 4) and len(event.open_cards) == 2


def test_refuting_goes_round_from_the_suggesters_left() -> None:
    state = dealt()
    events = act(state, Suggest("Professor Plum", "Rope", "Hall"))
    assert events[1:] == [Unable((1,)), Refuted(2, 0)]
    assert state.to_act == (2,)
    assert list(state.legal_actions(2)) == [Show("Professor Plum")]


def test_the_refuter_chooses_and_only_two_see_the_card() -> None:
    state = dealt()
    act(state, Suggest("Reverend Green", "Revolver", "Hall"))
    assert list(state.legal_actions(1)) == [Show("Reverend Green"), Show("Revolver")]
    assert act(state, Show("Revolver")) == [CardShown(1, 0, "Revolver")]
    assert CardShown(1, 0, "Revolver") in state.log.witnessed[0]
    assert CardShown(1, 0, "Revolver") not in state.log.witnessed[2]
    assert state.to_act == (0,)


def test_nobody_can_refute() -> None:
    state = dealt()
    events = act(state, Suggest("Mrs White", "Dagger", "Kitchen"))
    assert events[1:] == [Unable((1, 2))]
    assert state.phase is TurnPhase.ACCUSE


def test_a_refuter_may_not_show_what_was_not_named() -> None:
    state = dealt()
    act(state, Suggest("Reverend Green", "Revolver", "Hall"))
    for card in ("Mrs Peacock", "Hall"):
        with pytest.raises(IllegalAction, match="not allowed now"):
            state.apply(1, Show(card))
    with pytest.raises(IllegalAction, match="not to act"):
        state.apply(0, Show("Revolver"))


def test_a_right_accusation_wins() -> None:
    state = dealt()
    act(state, Accuse(*ENVELOPE))
    assert state.is_terminal and state.returns() == (1.0, 0.0, 0.0)
    assert state.reason() == "Player 0 made the right accusation"


def test_a_false_accuser_is_out_but_still_refutes() -> None:
    state = dealt()
    events = act(state, Accuse("Mrs White", "Rope", "Study"))
    assert kinds(events)[:2] == [Accused, EnvelopeSeen]
    assert events[1].audience == (0,)
    assert state.to_act == (1,)
    events = act(state, Suggest("Miss Scarlett", "Rope", "Hall"))
    assert events[1:] == [Unable((2,)), Refuted(0, 1)]
    act(state, Show("Miss Scarlett"), EndTurn(), Suggest("Mrs White", "Rope", "Hall"), EndTurn())
    assert state.to_act == (1,), "the turn passes over the false accuser"


def test_when_all_accuse_falsely_nobody_wins() -> None:
    state = dealt()
    for _ in range(3):
        act(state, Accuse("Mrs White", "Rope", "Study"))
    assert state.is_terminal and state.returns() == (0.0, 0.0, 0.0)
    assert "every player" in state.reason()


def test_the_last_player_in_the_game_plays_on_alone() -> None:
    state = dealt()
    act(state, *[Accuse("Mrs White", "Rope", "Study")] * 2)
    assert state.to_act == (2,) and not state.is_terminal
    act(state, Suggest("Mrs White", "Rope", "Hall"), EndTurn())
    assert state.to_act == (2,) and state.turn == 4, "its turn follows its own turn"
    act(state, Accuse(*ENVELOPE))
    assert state.returns() == (0.0, 0.0, 1.0)


def test_one_suggestion_and_one_accusation_a_turn() -> None:
    state = dealt()
    act(state, Suggest("Mrs White", "Rope", "Hall"))
    legal = state.legal_actions(0)
    assert not any(isinstance(action, Suggest) for action in legal)
    assert EndTurn() in legal and Accuse(*ENVELOPE) in legal


# With the board


def board_state(**options: JsonValue) -> CluedoState:
    return dealt(variant="classic", **options)


def test_the_dice_carry_a_pawn_into_a_room() -> None:
    state = board_state()
    act(state, Roll())
    assert state.to_act == (CHANCE,)
    events = act(state, Throw(4, 4), Move("Lounge"))
    assert events[-1] == PawnMoved("Miss Scarlett", "Lounge", "walks")
    rooms = {a.room for a in state.legal_actions(0) if isinstance(a, Suggest)}
    assert rooms == {"Lounge"}, "a suggestion names the room that the pawn is in"


def test_a_short_throw_ends_in_the_corridor() -> None:
    state = board_state()
    act(state, Roll(), Throw(1, 1), Move("Lounge"))
    assert isinstance(state.places["Miss Scarlett"], int)
    assert not any(isinstance(action, Suggest) for action in state.legal_actions(0))


def test_from_a_room_one_takes_its_passage_or_walks_to_another() -> None:
    state = board_state()
    act(state, Roll(), Throw(4, 4), Move("Lounge"), EndTurn())
    for _ in range(2):
        act(state, Roll(), Throw(1, 2), Move("Hall"), EndTurn())
    assert Passage() in state.legal_actions(0)
    walker = state.clone()
    act(walker, Roll(), Throw(6, 6))
    assert Move("Lounge") not in walker.legal_actions(0)
    act(state, Passage())
    assert state.places["Miss Scarlett"] == "Conservatory"


SUMMONS = (Roll(), Throw(4, 4), Move("Lounge"), Suggest("Colonel Mustard", "Rope", "Lounge"))


def test_a_suggestion_brings_the_weapon_and_summons_the_suspect_who_may_then_stay() -> None:
    state = board_state()
    assert WeaponMoved("Rope", "Lounge") in act(state, *SUMMONS)
    assert state.observe(2).arrays()["weapons"].tolist() == [0, 0, 0, 0, 8, 0]
    assert state.places["Colonel Mustard"] == "Lounge"
    act(state, Show("Lounge"), EndTurn())
    stay = [action for action in state.legal_actions(1) if isinstance(action, Suggest)]
    assert {action.room for action in stay} == {"Lounge"}
    assert Roll() in state.legal_actions(1)
    walker = state.clone()
    act(walker, Roll(), Throw(1, 1), Move("Kitchen"), EndTurn())
    assert "Colonel Mustard" not in walker.summoned, "the summons lapses after the turn"
    act(state, stay[0])
    assert state.phase in (TurnPhase.REFUTE, TurnPhase.ACCUSE)


def test_editions_without_the_summons() -> None:
    state = board_state(summoned_may_suggest=False)
    act(state, *SUMMONS, Show("Lounge"), EndTurn())
    assert not any(isinstance(action, Suggest) for action in state.legal_actions(1))


def test_a_false_accuser_does_not_block_a_door() -> None:
    state = board_state()
    (outside,) = board.DOORS["Study"]
    state._place_pawn("Miss Scarlett", board.square(*outside), "walks")
    events = act(state, Accuse("Mrs White", "Rope", "Study"))
    assert PawnMoved("Miss Scarlett", "Study", "steps aside") in events
    assert board.can_step_away("Study", state.squares)


DUPLICATE = ("Miss Scarlett", *HANDS[0][1:5], "Hall")
"""Cards as many as in the first hand, of which one lies in the envelope."""
SAME_CATEGORY = Triple("Mrs White", "Mrs Peacock", "Hall")
PEACOCK_FOR_ROPE = (
    HANDS[0],
    tuple("Rope" if c == "Mrs Peacock" else c for c in HANDS[1]),
    HANDS[2],
)


@pytest.mark.parametrize(
    "deal",
    [
        DealCards(ENVELOPE, (DUPLICATE, *HANDS[1:])),
        DealCards(ENVELOPE, (HANDS[0], HANDS[0], HANDS[2])),
        DealCards(SAME_CATEGORY, PEACOCK_FOR_ROPE),
        DealCards(Triple(ENVELOPE.weapon, ENVELOPE.suspect, ENVELOPE.room), HANDS),
        DealCards(ENVELOPE, (HANDS[0][:5], (*HANDS[1], HANDS[0][5]), HANDS[2])),
    ],
    ids=["card of the envelope", "hand twice", "two suspects", "wrong order", "uneven hands"],
)
def test_a_deal_that_the_rules_cannot_give_is_refused(deal: DealCards) -> None:
    state = Cluedo(players=3).initial_state()
    with pytest.raises(IllegalAction):
        state.apply(CHANCE, deal)
    with pytest.raises(InvalidAction, match="is not a possible result of chance here"):
        state.parse(str(deal))


def test_a_player_shut_in_may_pass_the_turn() -> None:
    state = board_state()
    (outside,) = board.DOORS["Study"]
    state._place_pawn("Miss Scarlett", "Study", "walks")
    state._place_pawn("Professor Plum", board.square(*outside), "walks")
    state._start_turn(0)
    legal = state.legal_actions(0)
    assert Roll() not in legal and EndTurn() in legal and Passage() in legal


@pytest.mark.parametrize("beside_a_door", [True, False])
def test_a_pawn_hemmed_in_beside_a_door_may_still_enter(beside_a_door: bool) -> None:
    state = board_state()
    # The square outside the Billiard Room, or the one left of the door of the Study.
    row, column = (11, 1) if beside_a_door else (4, 1)
    pawn = board.square(row, column)
    state._place_pawn("Miss Scarlett", pawn, "walks")
    around = board.neighbours(1 << pawn) & board.WALKABLE
    squares = [number for number in range(board.ROWS * board.COLUMNS) if around >> number & 1]
    others = state.game.deck.suspects[1:]
    assert 1 <= len(squares) <= len(others)
    for suspect, square in zip(others, squares, strict=False):
        state._place_pawn(suspect, square, "walks")
    state._start_turn(0)
    assert (Roll() in state.legal_actions(0)) == beside_a_door
    assert (EndTurn() in state.legal_actions(0)) != beside_a_door
    if beside_a_door:
        events = act(state, Roll(), Throw(1, 1), Move("Billiard Room"))
        assert PawnMoved("Miss Scarlett", "Billiard Room", "walks") in events


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(0, 2**32))
def test_no_two_pawns_share_a_square(players: int, seed: int) -> None:
    rng = random.Random(seed)
    state = Cluedo(variant="classic", players=players).initial_state()
    while state.to_act and state.turn < 60:
        if state.to_act != (CHANCE,):
            calm = [a for a in state.legal_actions(state.to_act[0]) if not isinstance(a, Accuse)]
            state.apply(state.to_act[0], rng.choice(calm))
        else:
            state.apply(CHANCE, state.sample_chance(rng))
        squares = [place for place in state.places.values() if isinstance(place, int)]
        assert len(squares) == len(set(squares))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["cards", "classic"]), st.integers(2, 6), st.integers(0, 2**32))
def test_cards_are_conserved_and_refutations_true(variant: str, players: int, seed: int) -> None:
    state = Cluedo(variant=variant, players=players).initial_state()
    act_out(state, random.Random(seed))
    assert state.envelope is not None
    cards = sorted([*state.envelope, *(card for hand in state.hands for card in hand)])
    assert cards == sorted(state.game.deck.cards)
    for event in state.log.events:
        if isinstance(event, CardShown):
            assert event.card in state.hands[event.player]


# Options and text of actions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"players": 7}, "players=7"),
        ({"variant": "board"}, "choose cards or classic"),
        ({"colour": 1}, "has no option 'colour'; its options are: variant"),
        ({"variant": "classic", "rooms": 4}, "the classic board needs all"),
        ({"players": 6, "suspects": 2, "weapons": 2, "rooms": 3}, "too small for 6 players"),
        ({"suspects": 7}, "theme 'uk' has 6 suspects, not 7; for more use theme 'generated'"),
        ({"rooms": 10, "theme": "us"}, "theme 'us' has 9 rooms, not 10"),
        ({"theme": "generated", "weapons": 2}, "theme 'generated' needs 3 to 12 weapons, not 2"),
        ({"theme": "generated", "weapons": 13}, "give at most 12"),
        ({"theme": "generated", "variant": "classic"}, "classic board needs all 6 suspects"),
        ({"variant": "classic", "names_seed": 1}, "names_seed needs variant 'cards'"),
        ({"theme": "generated", "names_seed": -1}, "give at least 0"),
    ],
)
def test_bad_options_say_what_is_allowed(options: dict[str, JsonValue], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        make_game("cluedo", **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["deal a | b", "deal Rope, Rope, Rope | x | y | z | ", "throw 7 1"]
)
def test_tampered_chance_is_refused(text: str) -> None:
    state = Cluedo(players=3).initial_state()
    with pytest.raises(InvalidAction):
        state.parse(text)
