"""Models that know only the notation, and their policies as tables."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from decision_chats import action_logprobs, decision_chats

from arena.core.game import Game
from arena.evaluation.exact import InformationSet
from arena.plugins.catalog import make_game
from backends.embedded.sampler import Sampler
from games.kuhn_poker.game import CARDS, CardDealt, KuhnPoker, Moved
from trainers.pretrain.corpus import demonstrations
from trainers.pretrain.pretrain import CHECKPOINT, CurvePoint, pretrain, random_init_recipe

KUHN = KuhnPoker()


@dataclass(frozen=True)
class Row:
    """The policy of the model at one information set."""

    place: InformationSet
    bet: float
    """Probability of a bet among the legal actions."""
    illegal: float
    """Probability of all other answers."""


class Stopped(Exception):
    """Ends a run in the middle."""


def policy_of(folder: Path) -> list[Row]:
    """Return the policy of the model in a folder, at each information set of the game."""

    async def rows() -> list[Row]:
        sampler, found = Sampler(folder), []
        for chat in decision_chats(KUHN):
            assert chat.actions == ("pass", "bet")
            passes, bets = map(math.exp, await action_logprobs(sampler, chat))
            found.append(Row(chat.place, bets / (passes + bets), 1 - passes - bets))
        await sampler.close()
        return found

    return asyncio.run(rows())


def spread(table: list[Row], *cards: str) -> float:
    """Return how far apart the probabilities of a bet with these cards are, after any moves."""
    bets: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in table:
        [dealt] = (event.card for event in row.place.events if isinstance(event, CardDealt))
        if dealt in cards:
            moves = (event.move for event in row.place.events if isinstance(event, Moved))
            bets[tuple(moves)].append(row.bet)
    assert len(bets) == 4 and all(len(each) == len(cards) for each in bets.values())
    return max(max(each) - min(each) for each in bets.values())


def test_a_new_model_tells_all_cards_apart_and_decides_nothing(tmp_path: Path) -> None:
    """Games of habits teach the first, evenly random ones the second; small differences stay."""
    recipe, folder = random_init_recipe(KUHN), tmp_path / "model"

    def stop_at_even_games(point: CurvePoint) -> None:
        if point.stage == len(recipe.stages) - 1:
            raise Stopped

    with pytest.raises(Stopped):
        pretrain(recipe, folder, stop_at_even_games)
    with_habits = policy_of(folder / CHECKPOINT)
    for pair in itertools.combinations(CARDS, 2):
        assert spread(with_habits, *pair) > 0.2, pair

    pretrain(recipe, folder, resume=True)
    table = policy_of(folder)
    assert len(table) == 12
    for row in table:
        assert row.illegal < 0.01 and row.bet == pytest.approx(0.5, abs=0.15)
    assert spread(table, *CARDS) > 0.1, "after evenly random play alone it is below 0.05"


@pytest.mark.parametrize(
    "game", [make_game("goofspiel", players=3, cards=4), make_game("tictactoe")]
)
def test_other_games_are_read_from_every_seat(game: Game) -> None:
    recipe = random_init_recipe(game, seed=3, text_level="events")
    assert recipe == random_init_recipe(game, seed=3, text_level="events")
    assert asdict(recipe)["options"] == game.options.model_dump()
    for stage in recipe.stages:
        chats = list(demonstrations(recipe, stage, 3))
        assert len(chats) == game.num_players
    assert recipe.levels == {"events": 1.0}
