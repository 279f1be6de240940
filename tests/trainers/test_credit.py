"""Credit by turn: the formulas, values of decisions by exact knowledge, bad input."""

from __future__ import annotations

import asyncio

import pytest

from arena.core.errors import UsageError
from arena.episodes.match import Match, play
from arena.plugins.catalog import make_game
from trainers.config.config import TrainConfig
from trainers.credit import Credit
from trainers.rewards import Rewards
from trainers.trajectory import Judgement, Trajectory, TrajectoryGroup, Turn

CLUEDO = make_game("cluedo", players=3)
CREDIT = Credit(
    "judged",
    weights={"suggestion": 1.0, "skip": 1.0, "accusation": 2.0, "illegal": 3.0, "game": 0.5},
    baselines={"suggestion": "questions", "skip": "questions"},
)


def turn(*judged: tuple[str, float]) -> Turn:
    return Turn((), "", (), judgements=tuple(Judgement(*each) for each in judged))


def group(*games: tuple[float, list[Turn]]) -> TrajectoryGroup:
    return TrajectoryGroup(tuple(Trajectory(tuple(turns), reward=r) for r, turns in games))


def advantages(credit: Credit, *groups: TrajectoryGroup) -> list[float]:
    credited = credit.assign(groups)
    return [t.advantage for one in credited for game in one.trajectories for t in game.turns]


def test_judged_decisions_share_a_baseline_over_the_step() -> None:
    won = group((1.0, [turn(("suggestion", 0.9)), turn()]), (0.0, [turn(("skip", 0.0))]))
    tied = group(
        (1.0, [turn(("suggestion", 0.6)), turn(("illegal", -1.0))]),
        (1.0, [turn(("accusation", 0.8), ("skip", 0.5))]),
    )
    # The mean of 0.9, 0.0, 0.6 and 0.5 is 0.5; half of +-0.5 is the game's share.
    assert advantages(CREDIT, won, tied) == pytest.approx(
        [0.4 + 0.25, 0.25, -0.5 - 0.25, 0.1, -3.0, 2 * 0.8 + 0.0]
    )


def test_games_give_all_their_turns_one_advantage() -> None:
    games = group((2.0, [turn(("accusation", 1.0)), turn(("illegal", -1.0))]), (0.0, [turn()]))
    assert advantages(Credit("game"), games) == [1.0, 1.0, -1.0]


def test_decisions_of_a_game_are_valued() -> None:
    """A perfect reasoner asks better questions than a novice, and its turns are no blunders."""
    rewards = Rewards.parse("", CLUEDO, credit="judged")
    assert dict(rewards.weights) == {"win": 1.0}
    values: dict[int, list[Judgement]] = {0: [], 1: []}
    for seed in range(3):
        match = Match(CLUEDO, ["bot:oracle", "bot:novice", "bot:novice"], seed, max_turns=40)
        episode = asyncio.run(play(match))
        for seat, found in values.items():
            judged = rewards.score_seat(episode, seat).judgements
            assert all(episode.plies[ply].player == seat for ply in judged)
            found += [each for ply in judged.values() for each in ply]
    oracle, novice = (
        [each.value for each in found if each.kind == "suggestion"] for found in values.values()
    )
    assert min(oracle) > 0.99 and sum(novice) / len(novice) < 0.9
    assert not [each for each in values[0] if each.kind == "skipped question"]
    assert all(each.value <= 0 for each in values[0] if each.kind == "refutation")
    # It accuses from the break-even on, and waits below it.
    timed = [each for each in values[0] if each.kind in ("accusation", "wait")]
    assert len(timed) > 3 and all(each.value >= 0 for each in timed)


@pytest.mark.parametrize(
    "name", ["avalon", "battleship", "hanabi", "leduc_poker", "liars_dice", "werewolf"]
)
def test_other_games_value_decisions(name: str) -> None:
    game = make_game(name)
    rewards = Rewards.parse("", game, credit="judged")
    seats = ["bot:random"] * game.num_players
    kinds = set()
    for seed in range(4):
        episode = asyncio.run(play(Match(game, seats, seed)))
        for seat in range(game.num_players):
            judged = rewards.score_seat(episode, seat).judgements
            kinds |= {each.kind for found in judged.values() for each in found}
    assert kinds and kinds <= game.analysis.decision_kinds.keys()


def test_only_a_legal_answer_has_the_judgement_of_its_ply() -> None:
    turns = (
        Turn((), "x", (), ply=3, is_legal=False),
        Turn((), "y", (), ply=3),
        Turn((), "z", (), ply=5),
    )
    vote = (Judgement("vote", 0.5),)
    judged = Trajectory(turns).with_judgements({3: vote})
    assert [each.judgements for each in judged.turns] == [(Judgement("illegal", -1.0),), vote, ()]


def test_what_a_config_means_in_each_game() -> None:
    def credit(game: str, **settings: str) -> Credit:
        return Credit.parse(TrainConfig(game=game, **settings), make_game(game))  # type: ignore[arg-type]

    assert credit("kuhn_poker").name == credit("leduc_poker").name == "game"
    assert credit("cluedo", trainer_host="local").name == "game"
    assert credit("leduc_poker", credit="judged").name == "judged"
    with pytest.raises(UsageError, match="kuhn_poker does not value single decisions"):
        credit("kuhn_poker", credit="judged")
    judged = credit("cluedo")
    assert judged.name == "judged" and judged.weights["game"] == 0.5
    assert judged.weights["illegal"] == judged.weights["accusation"] == 1.0
    assert {each.name for each in judged.describe(CLUEDO)} >= {"decision:illegal", "decision:game"}
    assert credit("cluedo", credit="game").describe(CLUEDO) == []
