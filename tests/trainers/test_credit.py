"""Credit by turn: the formulas, values of decisions by exact knowledge, bad input."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from arena.core.analysis import Assessment
from arena.core.errors import ArenaError, UsageError
from arena.episodes.match import Match, play
from arena.plugins.loader import make_game
from trainers.config.config import TrainConfig
from trainers.credit.critic import Critic
from trainers.credit.estimators import Credit, group_advantages
from trainers.credit.groups import shuffle_rewards
from trainers.rewards import Rewards, SeatEpisode
from trainers.rewards.terms import decision_positions
from trainers.trajectory import DecisionPosition, Judgement, Trajectory, TrajectoryGroup, Turn

CLUEDO = make_game("cluedo", players=3)
CREDIT = Credit(
    "judged",
    weights={"suggestion": 1.0, "skip": 1.0, "accusation": 2.0, "illegal": 3.0, "game": 0.5},
    baselines={"suggestion": "questions", "skip": "questions"},
)


def turn(*judged: tuple[str, float], legal: bool = True) -> Turn:
    return Turn((), "", (), is_legal=legal, judgements=tuple(Judgement(*each) for each in judged))


def group(*games: tuple[float, list[Turn]]) -> TrajectoryGroup:
    return TrajectoryGroup(tuple(Trajectory(tuple(turns), reward=r) for r, turns in games))


def advantages(credit: Credit, *groups: TrajectoryGroup) -> list[float]:
    credited = credit.assign(groups)
    return [t.advantage for one in credited for game in one.trajectories for t in game.turns]


def test_judged_decisions_share_a_baseline_over_the_step() -> None:
    won = group((1.0, [turn(("suggestion", 0.9)), turn()]), (0.0, [turn(("skip", 0.0))]))
    tied = group(
        (1.0, [turn(("suggestion", 0.6)), turn(legal=False)]),
        (1.0, [turn(("accusation", 0.8), ("skip", 0.5))]),
    )
    # The mean of 0.9, 0.0, 0.6 and 0.5 is 0.5; half of +-0.5 is the game's share.
    assert advantages(CREDIT, won, tied) == pytest.approx(
        [0.4 + 0.25, 0.25, -0.5 - 0.25, 0.1, -3.0, 2 * 0.8 + 0.0]
    )


def test_judged_weights_fall_to_zero_and_the_game_stays() -> None:
    credit = replace(CREDIT, judged_steps=4)
    won = group((1.0, [turn(("suggestion", 0.9), legal=False)]), (0.0, [turn(("skip", 0.1))]))
    for done, share in ((0, 1.0), (3, 0.25), (4, 0.0), (9, 0.0)):
        [credited] = credit.assign([won], done=done)
        first, second = (game.turns[0].advantage for game in credited.trajectories)
        # The cost of an illegal answer does not fall.
        assert first == pytest.approx(0.4 * share + 0.25 - 3.0)
        assert second == pytest.approx(-0.4 * share - 0.25)


def test_games_give_all_their_turns_one_advantage() -> None:
    games = group((2.0, [turn(("accusation", 1.0)), turn(legal=False)]), (0.0, [turn()]))
    assert advantages(Credit("game"), games) == [1.0, 1.0, -1.0]
    assert advantages(Credit("game", scale=True), games) == pytest.approx([1.0, 1.0, -1.0], 1e-5)


def test_the_limit_of_a_large_group() -> None:
    many = group_advantages([1.0] * 3 + [0.0], scale=True)
    limit = group_advantages([1.0, 0.0], True, [0.75, 0.25])
    assert limit == pytest.approx([many[0], many[-1]])
    assert group_advantages([], scale=True) == []


def test_the_control_shuffles_judgements_too() -> None:
    games = group(*((float(n), [turn(("accusation", n / 20))]) for n in range(20)))
    [shuffled] = shuffle_rewards([games], seed=0, step=1)
    values = [one.turns[0].judgements[0].value for one in shuffled.trajectories]
    rewards = [one.reward for one in shuffled.trajectories]
    assert sorted(values) == [n / 20 for n in range(20)] and sorted(rewards) == list(range(20))
    assert values != sorted(values) and values != [reward / 20 for reward in rewards]


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
    blunders = {"missed accusation", "skipped question"}
    assert not [each for each in values[0] if each.kind in blunders]
    assert all(each.value <= 0 for each in values[0] if each.kind == "refutation")


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


def test_only_a_legal_answer_is_judged() -> None:
    turns = (
        Turn((), "x", (), ply=3, is_legal=False),
        Turn((), "y", (), ply=3),
        Turn((), "z", (), ply=5),
    )
    judged = Trajectory(turns).with_judgements({3: (Judgement("vote", 0.5),)})
    assert [len(each.judgements) for each in judged.turns] == [0, 1, 0]


def test_the_default_of_each_game_and_host() -> None:
    def name(game: str, **settings: str) -> str:
        return Credit.parse(TrainConfig(game=game, **settings), make_game(game)).name  # type: ignore[arg-type]

    assert name("cluedo") == "judged" and name("kuhn_poker") == name("leduc_poker") == "game"
    assert name("cluedo", trainer_host="local") == "game"
    assert name("leduc_poker", credit="judged") == "judged"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"game": "kuhn_poker", "credit": "judged"}, "kuhn_poker does not value single decisions"),
        ({"credit_weights": "acusation=1"}, "no kind 'acusation'; the kinds are: suggestion"),
        ({"credit_weights": "game"}, "credit_weights game: 'game' is not of the form NAME=WEIGHT"),
        ({"game": "kuhn_poker", "credit": "turn"}, "kuhn_poker has no exact knowledge"),
        ({"credit": "turn", "credit_weights": "game=1"}, "the kinds are: information, illegal"),
        ({"credit": "game", "credit_weights": "game=1"}, "--credit game has no weights"),
        ({"credit": "turn", "scale_advantages": "true"}, "scale_advantages=true: --credit turn"),
        ({"credit": "game", "judged_steps": "4"}, "judged_steps=4: --credit game has no judged"),
    ],
)
def test_bad_settings(settings: dict[str, str], message: str) -> None:
    config = TrainConfig(**settings)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=message):
        Credit.parse(config, make_game(config.game))


def test_weights_of_kinds() -> None:
    config = TrainConfig(credit_weights="game=0.1,refutation=0")
    credit = Credit.parse(config, CLUEDO)
    assert credit.weights["game"] == 0.1 and credit.weights["refutation"] == 0.0
    assert credit.weights["illegal"] == credit.weights["accusation"] == 1.0
    assert Credit.parse(TrainConfig(credit="game"), CLUEDO).describe(CLUEDO) == []
    assert {each.name for each in credit.describe(CLUEDO)} >= {"decision:illegal", "decision:game"}


def at(state: str, *features: float, legal: bool = True) -> Turn:
    return Turn((), "", (), ply=0, is_legal=legal, position=DecisionPosition(state, features))


def test_equal_information_states_share_a_baseline() -> None:
    """Formula of GiGPO: the game's advantage plus that among the games with the same state."""
    credit = Credit("group-step", weights={"game": 1.0, "step": 1.0, "illegal": 3.0})
    games = group(
        (1.0, [at("deal"), at("asked", legal=False), at("asked"), at("won")]),
        (0.0, [at("deal"), at("asked")]),
        (0.0, [at("deal"), at("passed")]),
    )
    own, step = [2 / 3, -1 / 3, -1 / 3], [0.5, -0.5]
    # At the deal all games are equal, so both parts are the game's; "asked" are two games, though
    # three turns; "won" and "passed" have no equal.
    assert advantages(credit, games) == pytest.approx(
        [
            *(2 * own[0], own[0] + step[0] - 3, own[0] + step[0], own[0]),
            *(2 * own[1], own[1] + step[1], 2 * own[2], own[2]),
        ]
    )


def test_advantages_by_the_critic() -> None:
    games = group((1.0, [at("", 0, 0, 1.0), at("", 0, 0, 0.5, legal=False), at("", 0, 0, 0.5)]))
    plain = Credit("turn", weights={"illegal": 2.0, "information": 0.0}, gae_lambda=0.5)
    values = [0.2, 0.4, 0.4]
    found = [t.advantage for t in plain.assign([games], values)[0].trajectories[0].turns]
    # The differences are 0.2, -2 and 0.6.
    assert found == pytest.approx([0.2 + 0.5 * -2 + 0.25 * 0.6, -2 + 0.5 * 0.6, 0.6])
    # With lambda 1 all values cancel but the first, and the potential of the deal is 0.
    shaped = replace(plain, weights={"illegal": 2.0, "information": 1.0}, gae_lambda=1.0)
    turns = shaped.assign([games], values)[0].trajectories[0].turns
    assert turns[0].advantage == pytest.approx(0.2 - 2.0 + 0.6)
    assert turns[2].advantage == pytest.approx(1.0 - 0.4 - 0.5)
    # Without the critic the mean of the group is the baseline.
    assert advantages(plain, games) == [0.0, -2.0, 0.0]


def critic_games(deals: range, signal: float) -> list[TrajectoryGroup]:
    """Games whose rewards depend on a feature, with noise; deterministic."""
    rng = random.Random(deals.start)
    groups = []
    for deal in deals:
        games = []
        for _ in range(8):
            known = rng.random()
            turns = (at("", 0.0, 0.0, known), at("", 0.1, 0.0, known), at("", 0.2, 0.0, known))
            reward = signal * known + rng.gauss(0, 0.3)
            games.append(Trajectory(turns, reward=reward, seed=deal))
        groups.append(TrajectoryGroup(tuple(games)))
    return groups


def test_the_critic_is_fitted_without_the_deal_and_repeats_itself(tmp_path: Path) -> None:
    critic = Critic(tmp_path / "critic", illegal=1.0)
    groups = critic_games(range(10, 18), signal=1.0)
    critic.estimate(1, critic_games(range(8), signal=1.0))
    found = critic.estimate(2, groups)
    assert found.values and not found.warnings()
    assert 0.3 < found.metrics["critic_explained"] < 0.7
    # A step that is repeated after a crash, by a new process.
    assert Critic(tmp_path / "critic", illegal=1.0).estimate(2, groups) == found
    # The rewards of a deal do not move its own values.
    changed = [one.with_reward(one.reward + 0.2) for one in groups[0].trajectories]
    other = critic.estimate(2, [groups[0].with_trajectories(changed), *groups[1:]])
    assert other.values is not None
    assert other.values[:24] == found.values[:24] and other.values[24:] != found.values[24:]
    critic.estimate(7, groups)
    assert [each.name for each in (tmp_path / "critic").iterdir()] == ["0007.json"]


def test_a_critic_that_explains_too_little_is_left_out(tmp_path: Path) -> None:
    critic = Critic(tmp_path, illegal=1.0)
    found = critic.estimate(1, critic_games(range(20), signal=0.0))
    assert found.values is None
    assert "less than 5%: the step has the credit of --credit game" in found.warnings()[0]
    # One deal only: nothing else to fit.
    assert critic.estimate(9, critic_games(range(1), signal=1.0)).values is None
    with pytest.raises(ArenaError, match=r"the turn at ply None .* has no features"):
        critic.estimate(1, [group((1.0, [turn()]))])
    assert critic.estimate(1, []).values is None


def test_positions_of_a_game() -> None:
    """Equal observations give equal states, and only these; features are of all seats."""
    match = Match(CLUEDO, ["bot:novice", "bot:detective", "bot:detective"], 3, max_turns=12)
    runs = [asyncio.run(play(replace(match, agents_seed=n))) for n in (1, 1, 2)]
    first, same, other = (
        decision_positions(SeatEpisode(CLUEDO, episode, 1), with_features=True) for episode in runs
    )
    assert first == same and len({each.state for each in first.values()}) == len(first)
    assert {each.state for each in first.values()} != {each.state for each in other.values()}
    rows = [each.features for each in first.values()]
    assert {len(row) for row in rows} == {2 + 2 * 3}
    assert rows[0][2] > rows[-1][2]
    bare = decision_positions(SeatEpisode(CLUEDO, runs[0], 1), with_features=False)
    assert {each.features for each in bare.values()} == {()}
    # What another seat sees alone does not matter: the deal of other hands is not in the state.
    dealt = runs[0].plies[0]
    hidden = [event for event in dealt.events if not event.seen_by(1)]
    blind = replace(dealt, events=tuple(event for event in dealt.events if event.seen_by(1)))
    episode = replace(runs[0], plies=(blind, *runs[0].plies[1:]))
    again = decision_positions(SeatEpisode(CLUEDO, episode, 1), with_features=False)
    assert hidden and again == bare


def test_features_that_are_no_numbers_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def ply(self, ply: object) -> list[Assessment]:
            return []

        def end(self, outcome: object) -> list[Assessment]:
            facts = {"entropy_dealt": 8.0, "entropy_end": math.nan}
            return [Assessment(0, seat, "knowledge", facts) for seat in range(3)]

    episode = asyncio.run(play(Match(CLUEDO, ["bot:random"] * 3, 1, max_turns=2)))
    monkeypatch.setattr(type(CLUEDO.analysis), "assessor", lambda *_: Broken())
    message = r"a feature of the critic is not a finite number \(seat 0"
    with pytest.raises(ArenaError, match=message):
        decision_positions(SeatEpisode(CLUEDO, episode, 0), with_features=True)
