"""Two deterministic players of Kuhn poker whose order by wins is the opposite of that by chips."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from arena import CHANCE, Action, Decision, Observation, make_game
from arena.agents.agent import Seat
from arena.plugins.catalog import catalog
from games.kuhn_poker.game import BET, PASS, CardDealt, Moved

KUHN = make_game("kuhn_poker")


class DeterministicKuhnBot:
    """Bets with the cards of its table, by the moves so far."""

    bets: ClassVar[dict[tuple[str, ...], str]]

    def __init__(self, seat: Seat) -> None:
        self._seat = seat

    async def act(self, observation: Observation) -> Decision:
        (card,) = (e.card for e in observation.events if isinstance(e, CardDealt))
        moves = tuple(e.move for e in observation.events if isinstance(e, Moved))
        return Decision(BET if card[0] in self.bets[moves] else PASS)


class Bluffer(DeterministicKuhnBot):
    """Bets without the King and passes with it: many small wins, few large losses."""

    bets: ClassVar = {(): "JQ", ("pass", "bet"): "", ("pass",): "JQ", ("bet",): "JQ"}


class Careful(DeterministicKuhnBot):
    """Bets with the King only, and never first."""

    bets: ClassVar = {(): "", ("pass", "bet"): "K", ("pass",): "K", ("bet",): "K"}


def exact_value(bets: dict[tuple[str, ...], str]) -> tuple[float, float]:
    """Return mean chips and share of games won against a random player, by all histories."""
    chips = won = 0.0

    def walk(state: Any, seat: int, chance: float) -> None:
        nonlocal chips, won
        if state.is_terminal:
            chips += chance * state.returns()[seat]
            won += chance * (state.returns()[seat] > 0)
            return
        moves: list[tuple[int, Action, float]] = []
        if state.to_act == (CHANCE,):
            moves = [(CHANCE, each.action, each.probability) for each in state.chance_outcomes()]
        elif state.to_act == (seat,):
            card = state.cards[seat][0]
            bet = card in bets[tuple(map(str, state.moves))]
            moves = [(seat, BET if bet else PASS, 1.0)]
        else:
            moves = [(1 - seat, move, 0.5) for move in (BET, PASS)]
        for player, action, share in moves:
            following = state.clone()
            following.apply(player, action)
            walk(following, seat, chance * share)

    for seat in (0, 1):
        walk(KUHN.initial_state(), seat, 0.5)
    return chips, won


@contextmanager
def kuhn_bots() -> Iterator[None]:
    """Register `bot:bluffer` and `bot:careful`."""
    before = catalog().entries_by_kind()
    catalog().add("bot", "kuhn_poker/bluffer", "kuhn_bots:Bluffer", "bluffs")
    catalog().add("bot", "kuhn_poker/careful", "kuhn_bots:Careful", "bets with the King")
    try:
        yield
    finally:
        catalog().restore(before)
