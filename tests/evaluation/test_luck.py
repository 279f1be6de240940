"""Luck by known probabilities: mean 0 over all games of Kuhn poker, and a bot that is found out."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from slot_games import play_by_bots

from arena import (
    CHANCE,
    Action,
    ActionValues,
    ArenaError,
    Decision,
    Game,
    Match,
    Observation,
    Seat,
    State,
    play,
)
from arena.agents.agent import RandomBot, act_now, uniform
from arena.core.analysis import GameAnalysis
from arena.core.event import Ply
from arena.episodes.match import outcome_of
from arena.episodes.record import Episode, Header
from arena.evaluation.aggregation import EvaluationAggregator
from arena.evaluation.exact.exploitability import Policy, expected_returns
from arena.evaluation.records import LUCK
from arena.evaluation.schedule import ExperimentSetup, evaluation_schedule
from arena.evaluation.scoring import Luck, luck_of
from arena.evaluation.verdict import other_estimates
from arena.plugins.loader import catalog, make_game
from arena.testing.facets import check_action_values
from games.cluedo.bots.logic import Detective, Novice
from games.cluedo.bots.logic import Random as RandomCluedoBot
from games.cluedo.game import Cluedo
from games.kuhn_poker.game import BET, PASS, CardDealt, KuhnPoker, Moved
from games.tictactoe.game import TicTacToe

KUHN = KuhnPoker()
SMALL = {"players": 3, "suspects": 3, "weapons": 3, "rooms": 4}


def mixed(observation: Observation) -> Mapping[Action, float]:
    """Return an uneven policy that depends on the card and on the moves so far."""
    (card,) = (event.card for event in observation.events if isinstance(event, CardDealt))
    moves = sum(isinstance(event, Moved) for event in observation.events)
    bet = {"Jack": 0.3, "Queen": 0.1, "King": 0.8}[card] / (1 + moves)
    return {BET: bet, PASS: 1 - bet}


class MixedBot:
    """Bot that states the policy `mixed`, which the enumeration below plays."""

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        chances = mixed(observation)
        return Decision(self._rng.choices(list(chances), list(chances.values()))[0])

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        return mixed(observation)


class Liar(RandomBot):
    """States that it always passes."""

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        return {PASS: 1.0}


@pytest.fixture(autouse=True)
def bots() -> Iterator[None]:
    before = catalog().entries_by_kind()
    here = "test_luck"
    catalog().add("bot", "kuhn_poker/mixed", f"{here}:MixedBot", "states its policy")
    catalog().add("bot", "kuhn_poker/liar", f"{here}:Liar", "states another policy")
    yield
    catalog().restore(before)


def all_games(
    game: Game, specs: Sequence[str], policies: Sequence[Policy]
) -> Iterator[tuple[float, Episode]]:
    """Yield every complete game with its probability."""
    header = Header.of(game, 0, specs, None)

    def walk(
        state: State, chance: float, plies: tuple[Ply, ...]
    ) -> Iterator[tuple[float, Episode]]:
        if state.is_terminal:
            yield chance, Episode(header, plies, outcome_of(state, None), state.turn)
            return
        player = state.to_act[0]
        if player == CHANCE:
            moves = {each.action: each.probability for each in state.chance_outcomes()}
        else:
            moves = dict(policies[player](state.observe(player)))
        for action, share in moves.items():
            after = state.clone()
            after.apply(player, action)
            ply = Ply(len(plies), player, Decision(action), ())
            yield from walk(after, chance * share, (*plies, ply))

    yield from walk(game.initial_state(), 1.0, ())


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize(
    "specs", [("bot:mixed", "bot:random"), ("human", "bot:mixed"), ("human", "human")]
)
def test_luck_has_mean_0_over_all_games(specs: tuple[str, str], seat: int) -> None:
    """Whoever plays: the moves of unknown players are not corrected, the others are."""
    policies: list[Policy] = [uniform if spec == "bot:random" else mixed for spec in specs]
    games = [
        (chance, episode.outcome.returns[seat], luck_of(KUHN, episode, seat))
        for chance, episode in all_games(KUHN, specs, policies)
    ]
    exact = expected_returns(KUHN, policies)[seat]
    assert math.fsum(chance for chance, *_ in games) == pytest.approx(1, abs=1e-12)
    for part in zip(*(luck for *_, luck in games), strict=True):
        assert math.fsum(
            chance * x for (chance, *_), x in zip(games, part, strict=True)
        ) == pytest.approx(0, abs=1e-12)
    plain, adjusted = 0.0, 0.0
    for coefficients in ((1.0, 1.0), (0.3, 1.7)):
        remainders = [
            (chance, y - sum(b * x for b, x in zip(coefficients, luck, strict=True)))
            for chance, y, luck in games
        ]
        assert math.fsum(p * z for p, z in remainders) == pytest.approx(exact, abs=1e-12)
        if coefficients == (1.0, 1.0):
            plain = math.fsum(p * (y - exact) ** 2 for p, y, _ in games)
            adjusted = math.fsum(p * (z - exact) ** 2 for p, z in remainders)
    assert adjusted < 0.6 * plain


@pytest.mark.parametrize("game", [KUHN, TicTacToe()], ids=lambda game: game.name)
def test_nothing_but_luck_decides_between_random_players(game: Game) -> None:
    """The values are exact for them, so what remains is the value of the first position."""
    remainders = set()
    for seed in range(12):
        episode = asyncio.run(play(Match(game, ("bot:random",) * 2, seed)))
        luck = luck_of(game, episode, 0)
        remainders.add(round(episode.outcome.returns[0] - sum(luck), 12))
    exact = 1 / 8 if game is KUHN else None
    assert len(remainders) == 1 and exact in (*remainders, None)


def test_moves_that_probabilities_exclude_are_an_error() -> None:
    episode = asyncio.run(play(Match(KUHN, ("bot:liar", "bot:random"), seed=3)))
    moves = [ply.decision.action for ply in episode.plies if ply.player == 0]
    assert BET in moves
    with pytest.raises(ArenaError, match=r"kuhn_poker: ply \d: Liar played 'bet', to which its"):
        luck_of(KUHN, episode, 1)


def test_a_fallback_is_not_a_draw_of_the_bot() -> None:
    episode = asyncio.run(
        play(
            Match(KUHN, ("bot:random", "human"), seed=3),
            agents=[RandomBot(Seat(KUHN, player, Random(1))) for player in (0, 1)],
        )
    )
    failed = [
        replace(ply, decision=replace(ply.decision, failure="no answer"))
        if ply.player == 0
        else ply
        for ply in episode.plies
    ]
    assert luck_of(KUHN, episode, 0).own != 0
    assert luck_of(KUHN, replace(episode, plies=tuple(failed)), 0).own == 0


def test_a_game_without_values_has_no_luck() -> None:
    game = make_game("goofspiel")
    episode = asyncio.run(play(Match(game, ("bot:random",) * 2, seed=1)))
    assert luck_of(game, episode, 0) == Luck()


class UnusableValues(GameAnalysis):
    def action_values(self, state: State, actions: Collection[Action]) -> ActionValues:
        return dict.fromkeys(actions, (0.0, math.nan))


class WithoutValues(KuhnPoker):
    """Kuhn poker whose estimates are unusable."""

    Analysis = "test_luck:UnusableValues"


def test_the_conformance_kit_checks_the_values() -> None:
    for game in (KUHN, TicTacToe(), Cluedo(**SMALL)):
        check_action_values(game, 1)
    with pytest.raises(AssertionError, match=r"\d plies: action_values of 'pass': \(0.0, nan"):
        check_action_values(WithoutValues(), 1)


@pytest.mark.parametrize("bot", [RandomCluedoBot, Novice, Detective])
@pytest.mark.parametrize("variant", ["cards", "classic"])
def test_bots_of_cluedo_draw_as_they_state(bot: type[Novice], variant: str) -> None:
    game = Cluedo(variant="cards", **SMALL) if variant == "cards" else Cluedo(variant=variant)
    specs = ["bot:novice"] * game.num_players
    episode = asyncio.run(play(Match(game, tuple(specs), seed=5)))
    state, checked, draws = game.initial_state(), 0, 120
    for ply in episode.plies:
        player, action = ply.player, ply.decision.action
        seen = state.observe(player) if player != CHANCE else None
        stated = bot(Seat(game, player, Random(0))).probabilities(seen) if seen else {}
        if seen and 1 < len(stated) <= 12 and checked < 3:
            checked += 1
            chosen = [
                act_now(bot(Seat(game, player, Random(n))), seen).action for n in range(draws)
            ]
            assert set(chosen) <= set(stated)
            assert math.fsum(stated.values()) == pytest.approx(1)
            for each, chance in stated.items():
                error = math.sqrt(chance * (1 - chance) / draws)
                assert abs(chosen.count(each) / draws - chance) < 4.5 * error, (
                    f"{ply.number}: {each}"
                )
        state.apply(player, action)
    assert checked >= 2


def test_values_of_cluedo_follow_the_answers() -> None:
    game = Cluedo(**SMALL)
    episode = asyncio.run(play(Match(game, ("bot:novice",) * 3, seed=2)))
    state, sums = game.initial_state(), set()
    for ply in episode.plies:
        values = game.analysis.action_values(state, [ply.decision.action])
        for seats in values.values() if values else ():
            sums.add(round(sum(seats), 9))
            assert min(seats) >= 0
        state.apply(ply.player, ply.decision.action)
    assert sums == {1.0}
    # The last move is the right accusation.
    assert values and tuple(values[ply.decision.action]) == episode.outcome.returns


@pytest.mark.parametrize("baseline", [None, "bot:mixed"])
def test_an_evaluation_is_worth_more_games_without_luck(baseline: str | None) -> None:
    player = "bot:random"
    evaluation = EvaluationAggregator(KUHN, player, baseline)
    for slot in evaluation_schedule(2, player, ["bot:mixed"], baseline, 60, 1):
        result = play_by_bots(ExperimentSetup(Match(KUHN)), slot)
        for seat, each in enumerate(result.seats):
            assert bool({*LUCK} & {*each.measurements}) == (seat == slot.seat)
        evaluation.add(result)
    report = evaluation.report()
    adjusted = report.controlled
    assert adjusted and adjusted.valid and adjusted.estimate.n == 60
    assert adjusted.of == ("difference" if baseline else "return")
    exact = sum(expected_returns(KUHN, [uniform, mixed])[:1]) / 2
    exact += sum(expected_returns(KUHN, [mixed, uniform])[1:]) / 2
    assert adjusted.variance_ratio and adjusted.variance_ratio > 2
    low, high = adjusted.estimate.low, adjusted.estimate.high
    # Minus 0: over both seats a baseline that is equal to its opponent has no advantage.
    assert low is not None and high is not None and low <= exact <= high
    assert not {*LUCK} & {*report.players[0].measures}
    (sentence,) = other_estimates(report)
    assert sentence.startswith(f"The {adjusted.of} without the luck of chance and of bots with")
    # The games of a run that stops by its results are no fixed number.
    evaluation.any_time = True
    assert evaluation.report().controlled is None
