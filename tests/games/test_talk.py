"""Measures of statements against bots whose propensities are known, and against enumeration."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_games import plies

from arena import (
    CHANCE,
    Action,
    Assessment,
    Match,
    Say,
    make_game,
    play,
)
from arena.agents.reply.reader import read_reply
from arena.core.action_set import MOST_STATEMENTS
from arena.core.analysis import WeightedSum, sum_measurements
from arena.core.errors import IllegalAction, InvalidAction
from arena.core.game import Game
from arena.episodes.measurement import assessments, measure_seats
from arena.episodes.record import Episode
from arena.evaluation.statistics import rate
from arena.testing import check_game
from games.hidden_roles.notes import RoleNotes
from games.hidden_roles.rules import PASS, ClaimSide, DealRoles, HiddenRolesGame
from games.hidden_roles.talk import EXPECTED, Listener, RoleTalk, talker_rates
from games.negotiation.rules import ACCEPT, DealItems, ProposeDivision
from games.werewolf.bots import WerewolfTalker
from games.werewolf.rules import DOCTOR, SEER, VILLAGER, WOLF

STATED = {
    "werewolf": make_game("werewolf", players=7, talk="statements"),
    "avalon": make_game("avalon", players=7, talk="statements"),
    "negotiation": make_game("negotiation", talk="statements"),
}
"""Games with statements."""
WEREWOLF = STATED["werewolf"]
ROLES = (WOLF, WOLF, SEER, DOCTOR, VILLAGER, VILLAGER, VILLAGER)


LIE_RATES = (0.2, 0.7)
"""Village that lies in one of five statements, wolves in seven of ten."""


def played(game: Game, bots: Sequence[str], seed: int) -> Episode:
    return asyncio.run(play(Match(game, bots, seed=seed)))


def judged(game: Game, steps: Sequence[tuple[int, Action]]) -> list[Assessment]:
    """Return the assessments of a game that these steps begin."""
    assessor = game.analysis.assessor()
    assert assessor is not None
    moves = (action for _, action in steps)
    found = [each for ply in plies(game, moves) for each in assessor.ply(ply)]
    return [a for a in found if a.kind in ("statement", "promise", "speech")]


def stated(found: Sequence[Assessment]) -> list[tuple[object, ...]]:
    return [
        (a.player, a.facts["statement"], a.facts.get("truth"))
        for a in found
        if a.kind == "statement"
    ]


def day_of(texts: Sequence[str | None], game: Game = WEREWOLF) -> list[tuple[int, Action]]:
    """Return the first night, without a victim that matters, and a round of speech."""
    state = game.initial_state()
    state.apply(CHANCE, DealRoles(ROLES))
    steps: list[tuple[int, Action]] = [(CHANCE, DealRoles(ROLES))]
    while state.phase != "talk":  # type: ignore[attr-defined]
        player = state.to_act[0]
        legal = list(state.legal_actions(player))
        # The wolves attack the doctor, who protects itself; the seer inspects seat 0.
        wanted = [a for a in legal if str(a).endswith("Player 3")] or legal
        action = legal[0] if state.roles()[player] == SEER else wanted[0]
        state.apply(player, action)
        steps.append((player, action))
    said = itertools.zip_longest(state.to_act, texts)
    return [*steps, *((player, Say(text) if text else PASS) for player, text in said)]


# Grammar


@pytest.mark.parametrize("game", STATED.values(), ids=STATED)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_what_is_attached_is_read_back(game: Game, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(game.actions.statements), unique=True, max_size=4))
    words = data.draw(st.text(st.sampled_from("ab 1\u00e9[],;:.!?<>"), max_size=40))
    # Free words may hold brackets, but not in those of a statement.
    parts = [f"[{each}]" for each in chosen]
    parts.insert(data.draw(st.integers(0, len(parts))), words)
    text = " ".join(parts)
    if len(chosen) > MOST_STATEMENTS:
        with pytest.raises(InvalidAction, match="at most 3 statements, not 4"):
            game.actions.attached(text)
    else:
        assert set(game.actions.attached(text)) == {*chosen}


@pytest.mark.parametrize("game", STATED.values(), ids=STATED)
def test_a_statement_is_an_action_and_a_part_of_speech(game: Game) -> None:
    for statement in game.actions.statements:
        assert game.actions.parse(str(statement)) == statement
        assert game.actions.attached(f"[{statement}]") == (statement,)
    # Without the option they are words, and the other actions keep their numbers.
    talk = True if game.name == "negotiation" else 1
    plain = make_game(game.name, **{**game.options.model_dump(), "talk": talk})
    assert plain.actions.statements == plain.actions.attached(f"[{statement}]") == ()
    assert list(plain.actions) == list(game.actions)[: len(plain.actions)]
    assert "Statements: claim" in game.text.rules()
    assert "Statements: claim" not in plain.text.rules()


def test_statements_are_read_as_models_and_people_write_them() -> None:
    read = WEREWOLF.actions.attached
    for text in (
        "[claim P3 is a werewolf]",
        "hm [Claim player 3: WEREWOLF!] ok",
        "[claim P3 werewolf] [red]",
    ):
        assert [*map(str, read(text))] == ["claim Player 3 werewolf"]
    assert [*map(str, read("[claim I am the seer] [promise vote P2]"))] == [
        "claim I am Seer",
        "promise vote Player 2",
    ]
    assert read("I claim that Player 3 is a werewolf. [smiles] [1]") == ()
    for text in ("[claim Player 9 werewolf]", "[claim nothing]", "[promise me the moon]"):
        with pytest.raises(
            InvalidAction, match=r"is no statement, but \[claim I am Werewolf\] is one"
        ):
            read(text)


def test_models_attach_statements_and_are_corrected() -> None:
    state = WEREWOLF.initial_state()
    for player, action in day_of([])[: -len(ROLES)]:
        state.apply(player, action)
    seen = state.observe(4)
    assert "Your actions: pass | STATEMENT | say TEXT" in seen.text()
    for reply, spoken in (
        ("Action: claim Player 1 werewolf", "claim Player 1 werewolf"),
        ("Action: say [claim P1 werewolf] [suspect Player 0] Trust me.", None),
        ('{"thoughts": "", "action": "say [trust Player 2] hello"}', None),
    ):
        read = read_reply(reply, seen).action
        assert read in seen.legal_actions and (spoken is None or str(read) == spoken)
    wrong = read_reply("Action: say [claim Player 1 wizard] Hello.", seen)
    assert wrong.action is None and wrong.failure == "invalid_speech"
    with pytest.raises(IllegalAction, match="is no statement"):
        state.apply(4, Say("[claim Player 1 wizard] Hello."))
    four = "".join(f"[suspect Player {seat}]" for seat in range(4))
    with pytest.raises(IllegalAction, match="at most 3 statements"):
        state.apply(4, Say(four))


def test_conformance() -> None:
    check_game(make_game("negotiation", talk="statements", turns=6), (0, 1))


# Truth


def test_statements_are_judged_by_what_the_speaker_knows() -> None:
    found = judged(
        WEREWOLF,
        day_of(
            [
                "[claim I am Seer] [claim Player 1 village] Trust me.",  # A wolf: two lies.
                "[claim Player 4 village]",  # A wolf: true, and it knows.
                "[claim I am Seer][claim checked P0 werewolf][claim checked Player 4 village]",
                "[claim I am Doctor] and [claim Player 5 werewolf]",
                "[suspect Player 1] [trust Player 4]",
                "I am the seer, and Player 0 is a werewolf!",  # Free words are not judged.
            ],
        ),
    )
    assert stated(found) == [
        (0, "claim I am Seer", "lie"),
        (0, "claim Player 1 village", "lie"),
        (1, "claim Player 4 village", "honest"),
        (2, "claim I am Seer", "honest"),
        (2, "claim checked Player 0 werewolf", "honest"),
        # The seer did not check seat 4.
        (2, "claim checked Player 4 village", "lie"),
        (3, "claim I am Doctor", "honest"),
        (3, "claim Player 5 werewolf", "unsupported"),
        (4, "suspect Player 1", "unsupported"),
        (4, "trust Player 4", "honest"),
    ]
    silent = sum_measurements(a.measurements for a in found if a.kind == "speech")
    assert silent["unstated"] == WeightedSum(1.0, 6.0)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(["werewolf", "avalon"]))
def test_truth_is_that_of_the_worlds_which_the_speaker_holds_possible(seed: int, name: str) -> None:
    """Each claim is compared with a count over the assignments of the speaker's knowledge."""
    game, rng = STATED[name], random.Random(seed)
    assert isinstance(game, HiddenRolesGame) and isinstance(game.talk, RoleTalk)
    state = game.initial_state()
    state.apply(CHANCE, state.sample_chance(rng))
    seat = rng.randrange(game.num_players)
    knowledge = game.analysis.knowledge(seat)
    assert isinstance(knowledge, RoleNotes)
    for event in state.log.witnessed[seat]:
        knowledge.update(event)
    worlds = [[game.distinct_roles[role] for role in column] for column in knowledge.worlds.T]
    for statement in rng.sample(game.actions.statements, 20):
        words = str(statement).split()
        match words:
            case ["claim", "I", "am", *role]:
                true = [world[seat] == " ".join(role) for world in worlds]
            case ["claim", "Player", other, side]:
                team = game.sides.index(side)
                true = [game.team_of(world[int(other)]) == team for world in worlds]
            case ["suspect" | "trust", "Player", other]:
                team = int(words[0] == "suspect")
                true = [game.team_of(world[int(other)]) == team for world in worlds]
            case _:
                continue
        found = game.talk.probability(statement, seat, knowledge)
        assert found == pytest.approx(sum(true) / len(true))


def test_an_accusation_moves_cautious_listeners() -> None:
    found = judged(
        WEREWOLF, day_of(["[claim Player 4 werewolf]", None, "[claim Player 0 werewolf]"])
    )
    claims = {a.player: a.facts for a in found if a.kind == "statement"}
    level1 = {p: float(str(facts["level1_bits"])) for p, facts in claims.items()}
    # To a cautious listener an accusation speaks against its speaker, too.
    assert level1[0] > 0 and level1[2] > 0


def test_contradictions_and_broken_promises_are_counted() -> None:
    steps = day_of(
        ["[claim I am Doctor] [claim I am Seer] [promise vote Player 1]", "[promise pass]"]
    )
    state = WEREWOLF.initial_state()
    for player, action in steps:
        state.apply(player, action)
    for player in tuple(state.to_act):
        action = next(a for a in state.legal_actions(player) if str(a) != "vote Player 1")
        steps.append((player, action))
        state.apply(player, action)
    found = judged(WEREWOLF, steps)
    totals = sum_measurements(a.measurements for a in found)
    assert totals["contradictions"] == WeightedSum(1.0, 4.0)
    assert totals["promises_kept"] == WeightedSum(0.0, 2.0)
    assert [a.facts["kept"] for a in found if a.kind == "promise"] == [False, False]


def test_what_wolves_say_at_night_is_not_judged() -> None:
    state = WEREWOLF.initial_state()
    steps: list[tuple[int, Action]] = [(CHANCE, DealRoles(ROLES))]
    state.apply(*steps[0])
    for player in state.to_act:
        steps.append((player, Say("[claim I am Seer]") if player < 2 else PASS))
    assert judged(WEREWOLF, steps) == []


def test_measured_lie_rates_are_those_of_the_bots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WerewolfTalker, "lie_rates", LIE_RATES)
    game = WEREWOLF
    totals: dict[str, WeightedSum] = {}
    for seed in range(30):
        episode = played(game, ["bot:truthful"] * 7, seed)
        totals = sum_measurements([totals, *measure_seats(game, episode)])
    for side, expected in zip(game.return_scale.team_names, LIE_RATES, strict=True):
        lies = totals[f"lies as {side}"]
        interval = rate(int(lies.total), int(lies.weight))
        assert lies.weight > 60
        assert interval.low is not None and interval.high is not None
        assert interval.low <= expected <= interval.high
    # Such statements are certain for their speaker, so those that are no lies are honest.
    assert totals["honest"].total + totals["lies"].total == totals["lies"].weight


def test_a_sceptic_detects_as_well_as_exact_enumeration() -> None:
    """Five players, one wolf, one round of claims; all deals and all claims are enumerated.

    Each player draws by the lie rates: the village has one true claim (its own side), the seer one
    more about the player that it has inspected, the wolf as many true as false claims as there are
    seats. A listener of the public knowledge names a wolf.
    """
    game = make_game("werewolf", players=5, talk="statements")
    talk = game.talk
    assert isinstance(talk, RoleTalk)
    seats, (_, lie) = range(5), EXPECTED
    optimum = sceptic = 0.0
    honest = {s: ClaimSide(s, "village") for s in seats}
    said: dict[tuple[tuple[int, ClaimSide], ...], np.ndarray] = {}
    for wolf, seer, inspected in itertools.permutations(seats, 3):
        for seat, side in itertools.product(seats, ("werewolf", "village")):
            claim = ClaimSide(seat, side)
            share = (1 - lie if (seat == wolf) == (side == "werewolf") else lie) / 5
            report = ClaimSide(inspected, "village")
            for seen in (honest[seer], report):
                spoken = {**honest, wolf: claim, seer: seen}
                # P(wolf, claims): 60 equal deals, the seer's two claims are equally likely; the
                # seer may also have inspected the wolf, below.
                said.setdefault(tuple(spoken.items()), np.zeros(5))[wolf] += share / 160
    for wolf, seer in itertools.permutations(seats, 2):
        for seat, side in itertools.product(seats, ("werewolf", "village")):
            claim = ClaimSide(seat, side)
            share = (1 - lie if (seat == wolf) == (side == "werewolf") else lie) / 5
            for seen in (honest[seer], ClaimSide(wolf, "werewolf")):
                spoken = {**honest, wolf: claim, seer: seen}
                said.setdefault(tuple(spoken.items()), np.zeros(5))[wolf] += share / 160
    posterior = game.analysis.knowledge(-1)
    assert isinstance(posterior, RoleNotes)
    for profile, joint in said.items():
        listener = Listener(talk, talker_rates(EXPECTED, 5))
        for speaker, claim in profile:
            listener.hear(speaker, claim)
        suspicion = listener.suspicion(posterior.worlds)
        best = np.isclose(suspicion, suspicion.max())
        optimum += float(joint.max())
        sceptic += float(joint[best].mean())
    assert sum(map(np.sum, said.values())) == pytest.approx(1)
    # Without listening, one guess in five is right.
    assert optimum > 0.5
    assert sceptic >= optimum - 0.01


def test_bids_are_statements() -> None:
    game = make_game("liars_dice", players=2, dice=1)
    totals: dict[str, WeightedSum] = {}
    for seed in range(10):
        assessor = game.analysis.assessor(kinds=("statement",))
        assert assessor is not None
        found = [*assessments(assessor, played(game, ["bot:counter"] * 2, seed))]
        assert all(str(each.facts["statement"]).startswith("bid ") for each in found)
        totals = sum_measurements([totals, *(each.measurements for each in found)])
    assert totals["lies"].weight > 10 and "contradictions" not in totals


DEAL = DealItems((1, 4, 1), ((9, 0, 1), (2, 2, 0)))


def test_own_values_and_answers_are_statements_in_negotiation() -> None:
    steps: list[tuple[int, Action]] = [
        (CHANCE, DEAL),
        (0, Say("[claim book 0] The hats are mine! [claim hat 2] [claim ball 1]")),
        (0, ProposeDivision((1, 0, 1))),
        (1, Say("[promise reject]")),
        (1, ACCEPT),
    ]
    found = judged(make_game("negotiation", talk="statements"), steps)
    assert stated(found) == [
        (0, "claim book 0", "lie"),
        (0, "claim hat 2", "lie"),
        (0, "claim ball 1", "honest"),
        (1, "promise reject", None),
    ]
    assert [a.facts["kept"] for a in found if a.kind == "promise"] == [False]
    # Free words are counted.
    steps[1], steps[3] = (0, Say("[claim book 0]")), (1, Say("zzz"))
    found = judged(make_game("negotiation"), steps)
    assert not stated(found)
    assert [(a.ply, a.measurements["unstated"].total) for a in found if a.kind == "speech"] == [
        (1, 1.0),
        (3, 1.0),
    ]


def negotiated(said: Mapping[int, str], moves: Sequence[Action]) -> list[tuple[str, object]]:
    """Return which promises are kept in a game with these moves; texts come before a move."""
    steps: list[tuple[int, Action]] = [(CHANCE, DEAL)]
    for turn, move in enumerate(moves):
        steps += [(turn % 2, Say(said[turn]))] if turn in said else []
        steps.append((turn % 2, move))
    game = make_game("negotiation", talk="statements")
    found = [each for each in judged(game, steps) if each.kind == "promise"]
    shown = [game.analysis.comment(each) for each in found]
    assert all(comment and comment.omniscient for comment in shown)
    return [(str(a.facts["statement"]), a.facts["kept"]) for a in found]


def test_promises_are_checked_against_offers_and_answers() -> None:
    no_hat = ProposeDivision((1, 4, 1))
    two_hats = ProposeDivision((1, 2, 0))
    assert negotiated({0: "[promise 2 hats] [promise 1 ball]"}, [two_hats]) == [
        ("promise 2 hats", True),
        ("promise 1 ball", True),
    ]
    assert negotiated({0: "[promise 3 hats]"}, [two_hats]) == [("promise 3 hats", False)]
    # An answer is due when there is an offer; a counter-offer rejects it.
    assert negotiated({0: "[promise accept]"}, [no_hat, no_hat, ACCEPT]) == [
        ("promise accept", True)
    ]
    assert negotiated({1: "[promise reject]"}, [no_hat, no_hat]) == [("promise reject", True)]


def test_statements_are_annotated_for_open_cards_only() -> None:
    for name in ("werewolf", "avalon"):
        game = STATED[name]
        episode = played(game, ["bot:sceptic"] * 7, 3)
        assessor = game.analysis.assessor()
        assert assessor is not None
        comments = [
            game.analysis.comment(each)
            for each in assessments(assessor, episode)
            if each.kind in ("statement", "promise", "speech", "detection")
        ]
        shown = [comment for comment in comments if comment]
        assert shown and all(comment.omniscient for comment in shown)
