"""Models that know only the notation, and their policies as tables."""

from __future__ import annotations

import asyncio
import math
from dataclasses import asdict, dataclass

import pytest
from decision_chats import action_logprobs, decision_chats

from arena.core.game import Game
from arena.evaluation.exact import InformationSet
from arena.plugins.catalog import make_game
from backends.embedded.sampler import Sampler
from games.kuhn_poker.game import KuhnPoker, Moved
from trainers.pretrain.corpus import demonstrations
from trainers.pretrain.pretrain import pretrain, random_init_recipe

KUHN = KuhnPoker()


@dataclass(frozen=True)
class Row:
    """The policy of the model at one information set."""

    place: InformationSet
    bet: float
    """Probability of a bet among the legal actions."""
    illegal: float
    """Probability of all other answers."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    folder = tmp_path_factory.mktemp("scratch") / "model"
    pretrain(random_init_recipe(KUHN), folder)

    async def rows() -> list[Row]:
        sampler, found = Sampler(folder), []
        for chat in decision_chats(KUHN):
            assert chat.actions == ("pass", "bet")
            passes, bets = map(math.exp, await action_logprobs(sampler, chat))
            found.append(Row(chat.place, bets / (passes + bets), 1 - passes - bets))
        await sampler.close()
        return found

    return asyncio.run(rows())


def test_a_new_model_names_legal_actions_and_decides_nothing(table: list[Row]) -> None:
    assert len(table) == 12
    for row in table:
        assert row.illegal < 0.01 and row.bet == pytest.approx(0.5, abs=0.15)


def test_a_new_model_sees_what_its_seat_knows(table: list[Row]) -> None:
    """Its odds differ where nothing but the card does."""
    spreads = []
    for moves in ((), ("pass",), ("bet",), ("pass", "bet")):
        bets = [
            row.bet
            for row in table
            if tuple(event.move for event in row.place.events if isinstance(event, Moved)) == moves
        ]
        assert len(bets) == 3
        spreads.append(max(bets) - min(bets))
    assert max(spreads) > 0.1, "after evenly random play alone it is below 0.05"


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
