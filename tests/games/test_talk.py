"""Measures of talk against bots whose propensities are known, and against exact enumeration."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pytest
from pydantic import JsonValue

from arena import (
    CHANCE,
    Action,
    Assessment,
    Decision,
    Event,
    Match,
    Say,
    Seat,
    Spoken,
    make_game,
    play,
)
from arena.core.analysis import WeightedSum, sum_measurements
from arena.core.assessor import JointAssessor
from arena.core.claims import Claim
from arena.core.game import Game
from arena.episodes.measurement import assessments, measure_seats
from arena.episodes.record import Episode
from arena.evaluation.statistics import rate
from games.hidden_roles.beliefs import FLOOR, belief_score, read_beliefs
from games.hidden_roles.game import PASS, DealRoles, HiddenRolesGame, RoleDealt
from games.hidden_roles.knowledge import RolePosterior
from games.hidden_roles.talk import Listener, RoleTalk, talker_rates
from games.hidden_roles.talkers import EXPECTED
from games.liars_dice.moves import DiceBid
from games.negotiation.deals import worth
from games.negotiation.events import ACCEPT, DealItems, ProposeDivision
from games.werewolf.moves import DOCTOR, SEER, VILLAGER, WOLF
from games.werewolf.talkers import WerewolfTalker
from trainers.rewards import Rewards, SeatEpisode, default_reward

ROLES = (WOLF, WOLF, SEER, DOCTOR, VILLAGER, VILLAGER, VILLAGER)


class Liar(WerewolfTalker):
    """Village that lies in one of five claims, wolves in seven of ten."""

    lie_rates: ClassVar[tuple[float, float]] = (0.2, 0.7)


def played(game: Game, bots: Sequence[str], seed: int) -> Episode:
    return asyncio.run(play(Match(game, bots, seed=seed)))


def judged(
    game: Game,
    steps: Sequence[tuple[int, Action]],
    beliefs: Mapping[int, JsonValue] = MappingProxyType({}),
) -> list[Assessment]:
    """Return the assessments of a game that these steps begin; beliefs are stated at some plies."""
    from arena import Ply

    state, found = game.initial_state(), list[Assessment]()
    assessor = game.analysis.assessor()
    assert isinstance(assessor, JointAssessor)
    for number, (player, action) in enumerate(steps):
        before = len(state.log.events)
        state.apply(player, action)
        events = tuple(state.log.events[before:])
        details = {"beliefs": beliefs[number]} if number in beliefs else {}
        found += assessor.ply(Ply(number, player, Decision(action, details=details), events))
    kinds = ("claim", "intention", "speech", "evasion", "effect")
    return [each for each in found if each.kind in kinds]


def day_of(game: Game, texts: Sequence[str | None]) -> list[tuple[int, Action]]:
    """Return the first night, without a victim that matters, and a round of statements."""
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


def test_claims_are_judged_by_what_the_speaker_knows() -> None:
    game = make_game("werewolf", players=7)
    found = judged(
        game,
        day_of(
            game,
            [
                "I am the seer. Player 1 is innocent.",  # A wolf: two lies.
                "Player 4 is not a werewolf.",  # A wolf: true, and it knows.
                "I am the seer. I checked Player 0: werewolf. I checked Player 4: werewolf.",
                "I am the doctor, and Player 5 is a werewolf.",
                "I suspect Player 1.",
                "Ich bin der Seher.",
            ],
        ),
    )
    truths = [
        (a.player, a.facts["claim"], a.facts.get("truth")) for a in found if a.kind == "claim"
    ]
    assert truths == [
        (0, "identity 0 Seer", "lie"),
        (0, "identity 1 village", "lie"),
        (1, "not identity 4 Werewolf", "honest"),
        (2, "identity 2 Seer", "honest"),
        (2, "sighting 0 Werewolf", "honest"),
        # The seer did not check seat 4.
        (2, "sighting 4 Werewolf", "lie"),
        (3, "identity 3 Doctor", "honest"),
        (3, "identity 5 Werewolf", "unsupported"),
        (4, "suspicion 1", "unsupported"),
    ]
    unread = [a.player for a in found if a.kind == "speech" and a.facts["unread"]]
    assert unread == [5]


def test_a_lie_of_a_wolf_moves_listeners_away_and_the_seer_moves_them_to_the_truth() -> None:
    game = make_game("werewolf", players=7)
    found = judged(game, day_of(game, ["Player 4 is a werewolf.", None, "Player 0 is a werewolf."]))
    claims = {a.player: a.facts for a in found if a.kind == "claim"}
    literal, level1 = (
        {p: float(str(facts[f"{model}_bits"])) for p, facts in claims.items()}
        for model in ("literal", "level1")
    )
    assert literal[0] < 0 < literal[2]
    # To a cautious listener an accusation speaks against its speaker, too.
    assert level1[0] > 0 and level1[2] > 0


def test_contradictions_intentions_and_evasions_are_counted() -> None:
    game = make_game("werewolf", players=7, talk=2)
    steps = day_of(game, ["Player 2, are you the seer?", "I am the doctor. I am the seer."])
    state = game.initial_state()
    for player, action in steps:
        state.apply(player, action)
    second = ["I will vote for Player 1.", None, "What a nice day."]
    steps += [(p, Say(t) if t else PASS) for p, t in itertools.zip_longest(state.to_act, second)]
    for player, action in steps[-len(state.to_act) :]:
        state.apply(player, action)
    for player in tuple(state.to_act):
        action = next(a for a in state.legal_actions(player) if str(a) != "vote Player 1")
        steps.append((player, action))
        state.apply(player, action)
    totals = sum_measurements(a.measurements for a in judged(game, steps))
    assert totals["contradictions"] == WeightedSum(1.0, 3.0)
    assert totals["intentions_kept"] == WeightedSum(0.0, 1.0)
    assert totals["evasions"] == WeightedSum(1.0, 1.0)


def test_measured_lie_rates_are_those_of_the_bots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WerewolfTalker, "lie_rates", Liar.lie_rates)
    game = make_game("werewolf", players=7)
    totals: dict[str, WeightedSum] = {}
    for seed in range(30):
        episode = played(game, ["bot:truthful"] * 7, seed)
        totals = sum_measurements([totals, *measure_seats(game, episode)])
    for side, expected in zip(game.return_scale.team_names, Liar.lie_rates, strict=True):
        lies = totals[f"lies as {side}"]
        interval = rate(int(lies.total), int(lies.weight))
        assert lies.weight > 60
        assert interval.low is not None and interval.high is not None
        assert interval.low <= expected <= interval.high
    # Such claims are certain for their speaker, so those that are no lies are honest.
    assert totals["honest"].total + totals["lies"].total == totals["lies"].weight


def test_deceivers_lie_as_wolves_only() -> None:
    game = make_game("werewolf", players=7)
    totals: dict[str, WeightedSum] = {}
    for seed in range(4):
        episode = played(game, ["bot:deceiver"] * 7, seed)
        totals = sum_measurements([totals, *measure_seats(game, episode)])
    assert totals["lies as the village"].total == 0
    assert totals["lies as the werewolves"].total > 0


def test_a_sceptic_detects_as_well_as_exact_enumeration() -> None:
    """Five players, one wolf, one round of claims; all deals and all claims are enumerated.

    Each player draws by the lie rates: the village has one true claim (its own side), the seer one
    more about the player that it has inspected, the wolf as many true as false claims as there are
    seats. A listener of the public knowledge names a wolf.
    """
    game = make_game("werewolf", players=5)
    talk = game.talk
    assert isinstance(talk, RoleTalk)
    seats, (_, lie) = range(5), EXPECTED
    optimum = sceptic = 0.0
    honest = {s: Claim("identity", s, WOLF, holds=False) for s in seats}
    said: dict[tuple[tuple[int, Claim], ...], np.ndarray] = {}
    for wolf, seer, inspected in itertools.permutations(seats, 3):
        for seat, holds in itertools.product(seats, (True, False)):
            claim = Claim("identity", seat, WOLF, holds)
            share = (1 - lie if (seat == wolf) == holds else lie) / 5
            report = Claim("identity", inspected, WOLF, holds=False)
            for seen in (honest[seer], report):
                spoken = {**honest, wolf: claim, seer: seen}
                # P(wolf, claims): 60 equal deals, the seer's two claims are equally likely; the
                # seer may also have inspected the wolf, below.
                said.setdefault(tuple(spoken.items()), np.zeros(5))[wolf] += share / 160
    for wolf, seer in itertools.permutations(seats, 2):
        for seat, holds in itertools.product(seats, (True, False)):
            claim = Claim("identity", seat, WOLF, holds)
            share = (1 - lie if (seat == wolf) == holds else lie) / 5
            for seen in (honest[seer], Claim("identity", wolf, WOLF)):
                spoken = {**honest, wolf: claim, seer: seen}
                said.setdefault(tuple(spoken.items()), np.zeros(5))[wolf] += share / 160
    posterior = game.analysis.knowledge(-1)
    assert isinstance(posterior, RolePosterior)
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


def test_bids_are_claims() -> None:
    game = make_game("liars_dice", players=2, dice=1)
    found = sum_measurements(
        each.measurements
        for seed in range(10)
        for each in assessments(
            game.analysis.assessor(kinds=("claim",)),  # type: ignore[arg-type]
            played(game, ["bot:counter"] * 2, seed),
        )
    )
    assert found["lies"].weight > 10
    assert game.talk is not None
    claim, *_ = game.talk.move_claims(1, DiceBid(2, 5), ())
    assert str(claim) == "bid 1 2 fives"


def test_own_values_and_acceptances_are_claims_in_negotiation() -> None:
    game = make_game("negotiation")
    deal = DealItems((1, 4, 1), ((9, 0, 1), (2, 2, 0)))
    steps: list[tuple[int, Action]] = [
        (CHANCE, deal),
        (0, Say("The book is worthless to me, and the hats are worth 2 to me.")),
        (0, ProposeDivision((1, 0, 1))),
        (1, Say("I will not accept this.")),
        (1, ACCEPT),
    ]
    found = judged(game, steps)
    truths = [
        (a.player, a.facts["claim"], a.facts.get("truth")) for a in found if a.kind == "claim"
    ]
    assert truths == [
        (0, "holding 0 book=0", "lie"),
        (0, "holding 0 hat=2", "lie"),
        (1, "not intention - accept", None),
        (1, "acceptance 1 0 4 0", "honest"),
    ]
    assert [a.facts["kept"] for a in found if a.kind == "intention"] == [False]
    assert worth((0, 4, 0), deal.values[1]) == 8


def negotiated(said: Mapping[int, str], moves: Sequence[Action]) -> list[tuple[str, object]]:
    """Return which announcements are kept in a game with these moves; texts come before a move."""
    deal = DealItems((1, 4, 1), ((9, 0, 1), (2, 2, 0)))
    steps: list[tuple[int, Action]] = [(CHANCE, deal)]
    for turn, move in enumerate(moves):
        steps += [(turn % 2, Say(said[turn]))] if turn in said else []
        steps.append((turn % 2, move))
    game = make_game("negotiation")
    found = judged(game, steps)
    shown = [game.analysis.comment(each) for each in found if each.kind == "intention"]
    assert all(comment and comment.omniscient for comment in shown)
    return [(str(a.facts["claim"]), a.facts["kept"]) for a in found if a.kind == "intention"]


def test_promises_about_offers_and_answers_are_checked_against_what_is_done() -> None:
    all_hats, no_hat = ProposeDivision((1, 0, 1)), ProposeDivision((1, 4, 1))
    two_hats = ProposeDivision((1, 2, 0))
    assert negotiated({0: "I will give you two hats and the ball."}, [two_hats]) == [
        ("intention 1 gets 2 hat", True),
        ("intention 1 gets all ball", True),
    ]
    assert negotiated({0: "You can have the hats."}, [two_hats]) == [
        ("intention 1 gets all hat", False)
    ]
    assert negotiated({0: "I won't give you a hat."}, [all_hats]) == [
        ("not intention 1 gets 1 hat", False)
    ]
    # An answer that depends on an offer is due when such an offer comes, not before.
    promise = "I will accept if you give me the hats."
    assert negotiated({1: promise}, [no_hat, no_hat, two_hats, no_hat]) == []
    for answer, kept in ((ACCEPT, True), (no_hat, False)):
        found = negotiated({1: promise}, [no_hat, no_hat, all_hats, answer])
        assert found == [("intention 1 accept for all hat", kept)]
    # It stays in force when another move is announced.
    said = {1: promise, 3: "I will give you the book."}
    found = negotiated(said, [no_hat, no_hat, all_hats, ProposeDivision((0, 4, 1))])
    assert ("intention 1 accept for all hat", False) in found
    assert ("intention 0 gets all book", True) in found


def test_the_rate_of_kept_promises_is_that_of_the_speaker() -> None:
    game, rng = make_game("negotiation"), random.Random(4)
    totals: dict[str, WeightedSum] = {}
    for _ in range(200):
        deal = game.initial_state().sample_chance(rng)
        assert isinstance(deal, DealItems)
        books, hats, balls = deal.counts
        keeps = rng.random() < 0.7
        steps: list[tuple[int, Action]] = [
            (CHANCE, deal),
            (0, Say("You can have all the balls.")),
            (0, ProposeDivision((books, hats, 0 if keeps else balls))),
            # A threat is announced, but promises nothing.
            (1, Say("I will walk away.")),
            (1, ACCEPT),
        ]
        found = [a.measurements for a in judged(game, steps)]
        totals = sum_measurements([totals, *found])
    kept = totals["promises_kept"]
    interval = rate(int(kept.total), int(kept.weight))
    assert kept.weight == 200 and totals["intentions_kept"].weight == 400
    assert interval.low is not None and interval.high is not None
    assert interval.low <= 0.7 <= interval.high


def test_a_speech_without_claims_belongs_to_its_own_ply() -> None:
    game = make_game("negotiation")
    state = game.initial_state()
    deal = state.sample_chance(random.Random(1))
    found = judged(game, [(CHANCE, deal), (0, Say("zzz qqq xxx"))])
    assert [(each.kind, each.ply) for each in found] == [("speech", 1)]


def test_the_effect_on_beliefs_that_a_listener_states() -> None:
    game = make_game("werewolf", players=7)
    steps = day_of(game, ["Player 4 is a werewolf.", None, "Player 1 is a werewolf."])
    first = next(n for n, (_, action) in enumerate(steps) if isinstance(action, Say))
    state = game.initial_state()
    for player, action in steps:
        state.apply(player, action)
    answers = (
        '{"Player 1": 0.2, "Player 4": 0.5, "Nobody": 1, "Player 2": 7}',
        'I think: {"Player 1": 0.8, "Player 4": 1}',
    )
    assert isinstance(game, HiddenRolesGame)
    beliefs = [read_beliefs(game, answer) for answer in answers]
    assert beliefs[1] == {"minority": {"1": 0.8, "4": 1.0}}
    # Seat 5 states its beliefs before the statements, and again when it votes.
    details = {first + 5: beliefs[0], len(steps) + 5: beliefs[1]}
    found = judged(game, [*steps, *((p, PASS) for p in state.to_act if p <= 5)], details)
    effects = [each for each in found if each.kind == "effect"]
    # log2(0.8 / 0.2) for the wolf 1; seat 4 is no wolf, so 1 counts as the floor for it.
    bits = 2 + math.log2(FLOOR / 0.5)
    assert [each.player for each in effects] == [0, 2]
    totals = sum_measurements(each.measurements for each in effects)["stated_bits"]
    assert totals.weight == 2 and totals.total == pytest.approx(bits)
    wrong: list[JsonValue] = [{"minority": {"1": "x", "4": True}}, {"minority": 3}, 7]
    for forged in wrong:
        belief_score({"beliefs": forged}, 5, [0] * 7)


def test_beliefs_are_asked_of_the_majority_by_what_it_has_seen() -> None:
    for name in ("werewolf", "avalon"):
        game = make_game(name, players=7)
        state = game.initial_state()
        state.apply(CHANCE, state.sample_chance(random.Random(3)))
        asked = [game.text.belief_question(state.observe(seat)) for seat in range(7)]
        teams = state.teams()
        assert [bool(text) for text in asked] == [team == 0 for team in teams]
        # It names no role: all of the majority read the same.
        assert len({text for text in asked if text}) == 1


def test_claims_are_annotated_for_open_cards_only() -> None:
    for name in ("werewolf", "avalon"):
        game = make_game(name, players=7)
        episode = played(game, ["bot:sceptic"] * 7, 3)
        assessor = game.analysis.assessor()
        assert assessor is not None
        comments = [
            game.analysis.comment(each)
            for each in assessments(assessor, episode)
            if each.kind in ("claim", "intention", "speech", "evasion", "detection")
        ]
        shown = [comment for comment in comments if comment]
        assert shown and all(comment.omniscient for comment in shown)


def test_what_a_talking_bot_says_depends_on_what_it_has_seen_only() -> None:
    """Deal the hidden roles again: the same seed says the same in both worlds."""
    game = make_game("werewolf", players=7)
    for seat in range(7):
        texts = set()
        for others in itertools.islice(itertools.permutations(set(range(7)) - {seat}), 0, 720, 97):
            dealt = [""] * 7
            dealt[seat] = VILLAGER
            rest = [WOLF, WOLF, SEER, DOCTOR, VILLAGER, VILLAGER]
            for place, role in zip(others, rest, strict=True):
                dealt[place] = role
            state = game.initial_state()
            state.apply(CHANCE, DealRoles(tuple(dealt)))
            bot = WerewolfTalker(Seat(game, seat, random.Random(1)))
            events: list[Event] = [RoleDealt(seat, VILLAGER), Spoken(0, "Player 3 is a werewolf.")]
            for event in events:
                bot._notes.update(event)
                bot._hear(event)
            texts.add(str(bot._speak()))
        assert len(texts) == 1


def test_reward_terms_of_talk() -> None:
    game = make_game("werewolf", players=7)
    episode = played(game, ["bot:deceiver"] * 7, 1)
    rewards = Rewards.parse("honesty=1,detection=1,deception=1", game)
    outcome = episode.outcome
    assert outcome.teams is not None
    for seat, team in enumerate(outcome.teams):
        terms = rewards.score(SeatEpisode(game, episode, seat)).terms
        assert terms["honesty"] <= 0 if team else terms["honesty"] == 0
        assert terms["detection"] >= 0 if not team else terms["detection"] == 0
    # None of them is a default.
    assert not {"detection", "deception", "honesty"} & {
        *default_reward(game).replace("=", ",").split(",")
    }
