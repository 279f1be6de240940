"""Avalon: rules, hidden information, exact posterior, bot."""

from __future__ import annotations

import pytest
from role_games import deal_roles, played

from arena.core.errors import IllegalAction
from games.avalon.bots import AvalonNaive
from games.avalon.rules import (
    APPROVE,
    BOARDS,
    FAIL,
    REJECT,
    SUCCESS,
    Assassinate,
    Avalon,
    AvalonState,
    EvilRevealed,
    MissionEnded,
    Propose,
    SecretSeen,
    TeamVoted,
)

FIVE = ("Merlin", "Percival", "Loyal Servant", "Assassin", "Morgana")


def dealt(deal: tuple[str, ...] = FIVE, talk: int = 0, **options: str | int) -> AvalonState:
    """The position after this deal."""
    return deal_roles(Avalon(players=len(deal), talk=talk, **options), deal)


def run_mission(state: AvalonState, seats: tuple[int, ...], fails: tuple[int, ...] = ()) -> None:
    """Propose, approve and play; `fails` are the seats that play `fail`."""
    state.apply(state.leader, Propose(seats))
    for seat in range(state.game.num_players):
        state.apply(seat, APPROVE)
    for seat in seats:
        state.apply(seat, FAIL if seat in fails else SUCCESS)


# Rules


@pytest.mark.parametrize("players", range(5, 11))
def test_standard_roles_and_team_sizes(players: int) -> None:
    game = Avalon(players=players)
    evil = [role for role in game.role_list if game.team_of(role)]
    assert len(game.role_list) == players
    assert len(evil) == {5: 2, 6: 2, 7: 3, 8: 3, 9: 3, 10: 4}[players]
    assert {"Merlin", "Percival", "Assassin", "Morgana"} <= set(game.role_list)
    assert [game.fails_needed(n) for n in range(5)] == [1, 1, 1, 2 if players >= 7 else 1, 1]
    assert game.team_sizes == BOARDS[players][1]


def test_who_sees_whom() -> None:
    roles = (
        *("Merlin", "Percival", "Loyal Servant", "Loyal Servant", "Loyal Servant", "Loyal Servant"),
        *("Assassin", "Morgana", "Mordred", "Oberon"),
    )
    state = dealt(roles)
    seen = {event.player: event for event in state.log.events if isinstance(event, SecretSeen)}
    assert seen[0] == SecretSeen(0, (6, 7, 9), "evil")  # All but Mordred.
    assert seen[1] == SecretSeen(1, (0, 7), "merlin")
    assert seen[6] == SecretSeen(6, (7, 8), "evil")  # All but Oberon.
    assert sorted(seen) == [0, 1, 6, 7, 8]
    assert state.roles() == roles
    assert state.teams() == (0,) * 6 + (1,) * 4


def test_three_successes_and_a_wrong_guess_win_for_good() -> None:
    state = dealt()
    for seats in ((0, 1), (0, 1, 2), (0, 1)):
        run_mission(state, seats)
    assert state.log.events[-1] == EvilRevealed((3, 4), 3)
    assert state.to_act == (3,)
    assert [str(a) for a in state.legal_actions(3)] == [f"assassinate Player {n}" for n in range(3)]
    assert state.returns() == (0,) * 5
    wrong = state.clone()
    wrong.apply(3, Assassinate(1))
    assert wrong.returns() == (1, 1, 1, 0, 0)
    assert "did not find Merlin" in wrong.reason()
    state.apply(3, Assassinate(0))
    assert state.returns() == (0, 0, 0, 1, 1)
    assert state.reason() == "three missions succeeded, but the Assassin found Merlin: evil wins"


def test_three_fails_win_for_evil() -> None:
    state = dealt()
    for seats in ((0, 3), (0, 1, 3), (0, 4)):
        run_mission(state, seats, seats[-1:])
    assert state.returns() == (0, 0, 0, 1, 1)
    assert state.reason() == "three missions failed: evil wins"


def test_fourth_mission_of_seven_needs_two_fails() -> None:
    roles = ("Merlin", "Percival", "Loyal Servant", "Loyal Servant", "Assassin", "Morgana")
    state = dealt((*roles, "Oberon"))
    run_mission(state, (0, 1))
    run_mission(state, (0, 1, 4), (4,))
    run_mission(state, (0, 1, 4), (4,))
    run_mission(state, (0, 1, 4, 5), (4,))
    assert state.results == (True, False, False, True)
    assert MissionEnded(4, (0, 1, 4, 5), 1, True) in state.log.events


def test_five_rejections_win_for_evil_and_ties_reject() -> None:
    state = dealt(("Merlin", "Percival", *("Loyal Servant",) * 2, "Assassin", "Morgana"))
    for attempt in range(5):
        assert state.to_act == (attempt,)  # The leader rotates.
        state.apply(attempt, Propose((0, 1)))
        for seat in range(6):
            state.apply(seat, APPROVE if seat < 3 else REJECT)
        assert state.log.witnessed[0][2 + 2 * attempt + 1] == TeamVoted(
            (True, True, True, False, False, False), False
        )
    assert state.returns() == (0, 0, 0, 0, 1, 1)


def test_only_evil_may_fail_and_votes_are_sealed() -> None:
    state = dealt()
    state.apply(0, Propose((0, 3)))
    with pytest.raises(IllegalAction):
        state.apply(0, SUCCESS)
    before = state.observe(1).text("deductions")
    state.apply(0, APPROVE)
    assert state.observe(1).text("deductions") == before
    for seat in range(1, 5):
        state.apply(seat, APPROVE)
    with pytest.raises(IllegalAction):
        state.apply(0, FAIL)
    with pytest.raises(IllegalAction):
        state.apply(1, SUCCESS)
    state.apply(3, FAIL)
    assert not any(isinstance(event, MissionEnded) for event in state.log.events)
    state.apply(0, SUCCESS)
    assert not any("played" in state.game.text.narrate(e) for e in state.log.witnessed[1])


def test_naive_bots_follow_the_rules_of_their_roles() -> None:
    game = Avalon(roles="merlin", talk=0)
    for seed in range(20):
        state, history = played(game, seed, AvalonNaive, AvalonNaive)
        evil = {seat for seat, team in enumerate(state.teams()) if team}
        merlin, replayed = state.dealt.index("Merlin"), game.initial_state()
        for step in history:
            attempt, action = replayed.rejected + 1, step.action
            if action in (APPROVE, REJECT) and attempt < 5:
                clean = not evil.intersection(replayed.team)
                if step.player == merlin:
                    assert (action == APPROVE) == clean
                elif step.player in evil:
                    assert (action == REJECT) == clean
            if isinstance(action, Propose):
                members = len(evil.intersection(action.seats))
                if step.player == merlin:
                    assert members == 0 and merlin in action.seats
                elif step.player in evil:
                    assert members == 1 and step.player in action.seats
            replayed.apply(step.player, action)
        missions = [event for event in state.log.events if isinstance(event, MissionEnded)]
        assert all(m.fails == min(1, len(evil.intersection(m.seats))) for m in missions)
