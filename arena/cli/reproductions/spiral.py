"""Kuhn poker as TextArena ships it: bets never reach the pot, so a fold costs what a call does.

TextArena/TextArena, pull request 189 (2026). SPIRAL and others train on this game.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from arena.cli.reproductions.run import ReproductionRun, Row, bracket, exact
from arena.evaluation.exact.equilibrium import cfr_plus, game_value, solve
from arena.evaluation.exact.game_tree import Floats, GameTree, game_tree
from games.kuhn_poker.game import BET, CardDealt, KuhnPoker, KuhnPokerState, Moved

SOURCE = "TextArena/TextArena#189"
ITERATIONS = 1000


class FreeBets(KuhnPoker):
    """Kuhn poker in which each hand is worth one chip, whatever was bet."""

    name = "kuhn_poker_with_free_bets"

    def initial_state(self) -> KuhnPokerState:
        return _FreeBetsState(self)


class _FreeBetsState(KuhnPokerState):
    def returns(self) -> tuple[float, ...]:
        chips = super().returns()
        return tuple(max(-1.0, min(1.0, value)) for value in chips)


async def rows(run: ReproductionRun) -> AsyncIterator[Row]:
    """Yield the rows; nothing is sampled."""
    del run
    real, shipped = game_tree(KuhnPoker()), game_tree(FreeBets())
    right, taught = solve(real), cfr_plus(shipped, ITERATIONS)
    yield Row(
        quantity="value of Kuhn poker for the first player",
        published="−1/18 = −0.0556",
        source="H. W. Kuhn (1950)",
        measured=bracket(game_value(real, right)),
        unit="chips",
        digits=4,
    )
    yield Row(
        quantity="value of the game as shipped",
        published="a fold and a lost call both cost 1",
        source=SOURCE,
        measured=bracket(game_value(shipped, solve(shipped))),
        unit="chips",
        digits=4,
        note="A call never costs more than a fold, so no bet wins a pot: the higher card wins each "
        "hand, and the seats are equal.",
    )
    for text, policy in (("Kuhn's equilibrium", right), ("what the shipped game teaches", taught)):
        calls = _probability(real, policy, 1, "Queen", ("bet",))
        bluffs = _probability(real, policy, 0, "Jack", ())
        first = policy is right
        yield Row(
            quantity=f"{text}: call with a Queen in the second seat",
            published="1/3" if first else "",
            source="H. W. Kuhn (1950)" if first else "",
            measured=exact(calls),
            digits=3,
        )
        yield Row(
            quantity=f"{text}: bet with a Jack in the first seat",
            published="0 to 1/3" if first else "",
            source="H. W. Kuhn (1950)" if first else "",
            measured=exact(bluffs),
            digits=3,
            note=""
            if first
            else "Any probability is an equilibrium there: a bluff neither wins "
            "nor costs anything.",
        )
        yield Row(
            quantity=f"{text}: exploitability in Kuhn poker",
            measured=exact(real.exploitability(policy)),
            unit="chips",
            digits=4,
            note=""
            if first
            else f"CFR+ of {ITERATIONS} iterations from even play. Random play "
            f"has {real.exploitability(real.uniform()):.4f}.",
        )


def _probability(
    tree: GameTree, policy: Floats, player: int, card: str, moves: tuple[str, ...]
) -> float:
    """Return the probability of a bet or a call at an information set."""
    for first, situation in zip(tree.first_pairs, tree.situations, strict=True):
        seen = situation.observation
        made = tuple(event.move for event in seen.events if isinstance(event, Moved))
        if seen.player == player and made == moves and CardDealt(player, card) in seen.events:
            return float(policy[first + list(seen.legal_actions).index(BET)])
    raise ValueError(f"Player {player} never has a {card} after {moves}")
