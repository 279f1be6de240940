"""Werewolf: rules, hidden information, exact posterior, bot."""

from __future__ import annotations

import pytest
from role_games import deal_roles, played, posterior

from arena import Action, Say
from arena.core.errors import IllegalAction
from arena.core.event import Spoken
from games.hidden_roles.rules import PASS
from games.werewolf.bots import WerewolfCrowd
from games.werewolf.rules import (
    DayBegan,
    DayVote,
    DayVoted,
    Inspect,
    NightBegan,
    NightEnded,
    NightKill,
    PackChose,
    PackSeen,
    Protect,
    SeerSaw,
    Werewolf,
    WerewolfState,
)

SEVEN = ("Werewolf", "Werewolf", "Seer", "Doctor", "Villager", "Villager", "Villager")


def dealt(deal: tuple[str, ...] = SEVEN, talk: int = 0, **options: bool | int) -> WerewolfState:
    """The position after this deal."""
    return deal_roles(Werewolf(players=len(deal), talk=talk, **options), deal)


def act(state: WerewolfState, **actions: Action) -> WerewolfState:
    """Finish a phase: `p3=Protect(2)` is the action of seat 3; the others pass, or wolves agree."""
    chosen = {int(seat[1:]): action for seat, action in actions.items()}
    for seat in state.to_act:
        legal = state.legal_actions(seat)
        state.apply(seat, chosen.get(seat, PASS if PASS in legal else legal[0]))
    return state


def night(state: WerewolfState, victim: int, saved: bool = False) -> WerewolfState:
    """A night in which all wolves attack `victim`."""
    actions: dict[str, Action] = {f"p{seat}": NightKill(victim) for seat in state.pack}
    for seat in state.living:
        if state.dealt[seat] == "Doctor":
            free = [s for s in state.living if s not in (victim, state.protected)]
            actions[f"p{seat}"] = Protect(victim if saved else free[0])
    return act(state, **actions)


def vote_out(state: WerewolfState, seat: int) -> WerewolfState:
    """A day on which all others vote for one player."""
    return act(state, **{f"p{s}": DayVote(seat) for s in state.living if s != seat})


# Rules


def test_night_informs_each_role() -> None:
    state = dealt()
    assert state.to_act == tuple(range(7))  # Villagers act, too: who acts shows nothing.
    assert list(state.legal_actions(4)) == [PASS]
    act(state, p0=NightKill(4), p1=NightKill(5), p2=Inspect(1), p3=Protect(2))
    # A tie: the wolf with the lowest seat decides.
    assert PackChose((0, 1), (4, 5), 4) in state.log.witnessed[1]
    assert SeerSaw(2, 1, True) in state.log.witnessed[2]
    public = [NightBegan(1), NightEnded(1, 4, "Villager"), DayBegan(1, state.living)]
    assert state.log.witnessed[6][1:] == public
    assert [len(state.log.witnessed[seat]) for seat in range(7)] == [6, 6, 5, 5, 4, 4, 4]
    assert PackSeen(0, (1,)) in state.log.witnessed[0]
    assert state.roles() == SEVEN and state.teams() == (1, 1, 0, 0, 0, 0, 0)


def test_majority_of_the_pack_chooses() -> None:
    state = act(
        dealt((SEVEN[0], *SEVEN[:6]), wolves=3), p0=NightKill(5), p1=NightKill(6), p2=NightKill(6)
    )
    assert PackChose((0, 1, 2), (5, 6, 6), 6) in state.log.witnessed[1]


def test_doctor_saves_but_not_twice_running() -> None:
    state = night(dealt(), 4, saved=True)
    assert state.living == tuple(range(7))
    act(state)  # No player votes.
    assert state.phase == "night" and state.day == 2
    with pytest.raises(IllegalAction):
        state.apply(3, Protect(4))
    assert Protect(3) in state.legal_actions(3)


def test_votes_are_sealed_and_ties_eliminate_no_player() -> None:
    state = night(dealt(), 6)
    before = state.observe(5).text("deductions")
    state.apply(0, DayVote(5))
    assert state.observe(5).text("deductions") == before
    for seat, target in ((1, 5), (2, 0), (3, 0)):
        state.apply(seat, DayVote(target))
    state.apply(4, PASS)
    state.apply(5, PASS)
    votes = next(event for event in state.log.events if isinstance(event, DayVoted))
    assert votes == DayVoted((5, 5, 0, 0, -1, -1, -1), None, "")
    assert state.phase == "night" and len(state.living) == 6


def test_village_wins_when_all_wolves_are_dead() -> None:
    state = vote_out(night(dealt(), 6), 0)
    vote_out(night(state, 5), 1)
    assert state.returns() == (0, 0, 1, 1, 1, 1, 1)  # The dead of the village win, too.
    assert state.reason() == "all werewolves are dead: the village wins"


def test_wolves_win_at_parity() -> None:
    state = vote_out(night(dealt(), 6), 5)
    assert state.phase == "night"  # Two wolves of five.
    night(state, 4)
    assert state.is_terminal  # Two of four.
    assert state.returns() == (1, 1, 0, 0, 0, 0, 0)


def test_no_player_is_killed_in_a_quiet_first_night() -> None:
    state = dealt(quiet_first_night=True)
    assert list(state.legal_actions(0)) == list(state.legal_actions(3)) == [PASS]
    act(state, p2=Inspect(0))
    assert state.living == tuple(range(7)) and SeerSaw(2, 0, True) in state.log.witnessed[2]
    assert posterior(state, 4).world_count() == 180  # It proves nothing about the doctor.
    act(state)
    assert NightKill(4) in state.legal_actions(0)


# Talk


def test_wolves_talk_among_themselves() -> None:
    state = dealt(talk=1)
    assert not state.legal_actions(2).speech
    with pytest.raises(IllegalAction, match="not allowed now"):
        state.apply(2, Say("I am no wolf."))
    act(state, p0=Say("Let us eat <b>Player 4</b>."))
    spoken = Spoken(0, "Let us eat <b>Player 4</b>.", (0, 1))
    assert [spoken in state.log.witnessed[seat] for seat in range(7)] == [True] * 2 + [False] * 5
    assert "(to the werewolves)" in state.observe(1).text()
    night(state, 4)
    assert state.phase == "talk" and state.to_act == (0, 1, 2, 3, 5, 6)
    act(state, p2=Say("I am the seer. Player 0 is a werewolf."))
    assert 'Player 2: "I am the seer.' in state.observe(4).text()  # The dead listen.
    with pytest.raises(IllegalAction, match="'say' is not allowed now"):
        state.apply(2, Say("Vote!"))


def test_dead_wolf_hears_its_pack_no_more() -> None:
    state = act(night(act(dealt(talk=1)), 6))
    vote_out(state, 0)
    act(state, p1=Say("Alone now."))
    heard = [
        any("Alone" in state.game.text.narrate(event) for event in state.log.witnessed[seat])
        for seat in range(7)
    ]
    assert heard == [False, True, *[False] * 5]


def test_a_crowd_eliminates_the_lowest_number_each_day() -> None:
    game = Werewolf(players=9, talk=0, plain=True, quiet_first_night=True)
    for seed in range(5):
        state, _ = played(game, seed, WerewolfCrowd, WerewolfCrowd)
        living, gone = list(range(9)), list[int]()
        for event in state.log.events:
            if isinstance(event, NightEnded) and event.victim is not None:
                living.remove(event.victim)
            elif isinstance(event, DayVoted):
                assert event.eliminated == min(living)
                living.remove(event.eliminated)
                gone.append(event.eliminated)
        assert gone
