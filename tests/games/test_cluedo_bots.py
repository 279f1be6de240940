"""The bots: the knowledge and decisions of each, and their order of strength (small version).

`docs/tools/results.py again ladder-4` measures the ladder with error bars.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from known_deal import ENVELOPE, HANDS

from arena.agents.agent import Seat, act_now
from arena.core.action import Action
from arena.core.spec import stream
from arena.episodes.match import Match, play
from arena.episodes.record import Episode
from games.cluedo.bots import CluedoBot, Detective, Novice, Oracle
from games.cluedo.game import Cluedo
from games.cluedo.inference.questions import QuestionValues
from games.cluedo.rules.setting import Accused, DealCards, EndTurn, Move, Roll, Show, Suggest
from games.cluedo.rules.state import CluedoState


def after(*actions: Action, game: Cluedo | None = None) -> CluedoState:
    state = (game or Cluedo(players=3)).initial_state()
    state.apply(-1, DealCards(ENVELOPE, HANDS))
    for action in actions:
        state.apply(state.to_act[0], action)
    return state


def choice(bot: type[CluedoBot], state: CluedoState, seed: int = 0) -> Action:
    """Return the action of a bot that has read all events so far."""
    player = state.to_act[0]
    agent = bot(Seat(state.game, player, stream(seed, "bot")))
    return act_now(agent, state.observe(player)).action


def contest(game: Cluedo, specs: Sequence[str], seed: int) -> Episode:
    return asyncio.run(play(Match(game, specs, seed)))


def test_a_detective_draws_the_conclusion_that_a_novice_misses() -> None:
    """Two players show that they lack a card; the detective concludes the rest."""
    shown = (
        Suggest("Professor Plum", "Rope", "Hall"),  # Player 1 cannot; player 2 shows Plum.
        Show("Professor Plum"),
        EndTurn(),
        Suggest("Mrs White", "Rope", "Hall"),  # By player 1: neither 2 nor 0 can refute.
        EndTurn(),
        EndTurn(),
    )
    state = after(*shown)
    # Seat 0: 1 lacks Rope and Hall by its silence, 2 lacks White, Rope, Hall; so Rope and Hall are
    # in the envelope, and White is too unless player 1 has it.
    asked = choice(Detective, state)
    assert isinstance(asked, Suggest)
    assert asked.weapon in HANDS[0] and asked.room in HANDS[0], "solved kinds: own cards"
    novice = choice(Novice, state)
    assert isinstance(novice, Suggest) and novice.weapon not in HANDS[0]


def test_the_oracle_asks_for_more_information_than_the_average_question() -> None:
    state = after(Suggest("Professor Plum", "Rope", "Kitchen"), Show("Professor Plum"), EndTurn())
    state.apply(1, EndTurn())
    state.apply(2, EndTurn())
    oracle = Oracle(Seat(state.game, 0, stream(0, "bot")))
    asked = act_now(oracle, state.observe(0)).action
    assert isinstance(asked, Suggest)
    information = QuestionValues(oracle.knowledge)
    sample = stream(1, "sample").sample(state.game.deck.triples, 40)
    average = sum(map(information.bits, sample)) / len(sample)
    assert information.bits(asked.triple) > 1.3 * average


def test_the_oracle_shows_what_it_has_shown_before() -> None:
    ask = Suggest("Reverend Green", "Revolver", "Library")
    state = after(ask, Show("Revolver"), EndTurn())
    state.apply(1, EndTurn())
    state.apply(2, EndTurn())
    state.apply(0, ask)
    assert choice(Oracle, state) == Show("Revolver")


@pytest.mark.parametrize("bot", [Novice, Detective, Oracle])
def test_with_a_board_bots_go_to_rooms_worth_asking_about(bot: type[CluedoBot]) -> None:
    state = after(Roll(), game=Cluedo(players=3, variant="classic"))
    state.apply(-1, state.parse("throw 6 6"))
    move = choice(bot, state)
    assert isinstance(move, Move) and move.room in ("Lounge", "Hall", "Dining Room", "Study")


@pytest.mark.parametrize(
    ("variant", "better", "worse", "games", "margin"),
    [
        ("classic", "novice", "random", 12, 6),
        ("cards", "detective", "novice", 30, 5),
        ("cards", "oracle", "detective", 25, 4),
    ],
)
def test_the_ladder(variant: str, better: str, worse: str, games: int, margin: int) -> None:
    """The better bot wins more often than the worse on the same deals in the same seats."""
    game = Cluedo(players=3, variant=variant)
    ahead = 0.0
    for seed in range(games):
        seat = seed % 3
        for bot, sign in ((better, 1), (worse, -1)):
            specs = [f"bot:{worse}"] * 3
            specs[seat] = f"bot:{bot}"
            ahead += sign * contest(game, specs, seed).outcome.returns[seat]
    assert ahead >= margin


@pytest.mark.parametrize("bot", ["novice", "detective"])
def test_these_bots_never_accuse_falsely(bot: str) -> None:
    for seed in range(15):
        episode = contest(Cluedo(players=5), [f"bot:{bot}"] * 5, seed)
        accusations = [e for ply in episode.plies for e in ply.events if isinstance(e, Accused)]
        assert all(event.correct for event in accusations)
        assert episode.outcome.winner is not None
