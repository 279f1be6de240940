"""Kuhn poker as TextArena ships it: bets never reach the pot. `python spiral.py`

TextArena/TextArena, pull request 189 (2026): a fold and a lost call both cost 1 chip. SPIRAL and
others train on this game. H. W. Kuhn (1950): the value is -1/18; the second player calls with a
Queen in 1/3, and the first bets with a Jack in 0 to 1/3 of the hands.
"""

from __future__ import annotations

from equilibria import cfr_plus, game_value, solve

from arena.evaluation.exact import Floats, GameTree, game_tree
from games.kuhn_poker.game import BET, CardDealt, KuhnPoker, KuhnPokerState, Moved


class FreeBets(KuhnPoker):
    """Kuhn poker in which each hand is worth one chip, whatever was bet."""

    name = "kuhn_poker_with_free_bets"

    def initial_state(self) -> KuhnPokerState:
        return FreeBetsState(self)


class FreeBetsState(KuhnPokerState):
    """A position of it."""

    def returns(self) -> tuple[float, ...]:
        return tuple(max(-1.0, min(1.0, value)) for value in super().returns())


def bets(tree: GameTree, policy: Floats, player: int, card: str, moves: tuple[str, ...]) -> float:
    """Return the probability of a bet or a call at an information set."""
    for first, situation in zip(tree.first_pairs, tree.situations, strict=True):
        seen = situation.observation
        made = tuple(event.move for event in seen.events if isinstance(event, Moved))
        if seen.player == player and made == moves and CardDealt(player, card) in seen.events:
            return float(policy[first + list(seen.legal_actions).index(BET)])
    raise ValueError(f"Player {player} never has a {card} after {moves}")


if __name__ == "__main__":
    real, shipped = game_tree(KuhnPoker()), game_tree(FreeBets())
    print(f"value for the first player: {game_value(real, solve(real)).value:.4f}")
    print(f"value of the game as shipped: {game_value(shipped, solve(shipped)).value:.4f}")
    policies = {"Kuhn's equilibrium": solve(real), "what it teaches": cfr_plus(shipped, 1000)}
    for name, policy in policies.items():
        print(f"{name}: call with a Queen {bets(real, policy, 1, 'Queen', ('bet',)):.3f},")
        print(f"  bet with a Jack {bets(real, policy, 0, 'Jack', ()):.3f},")
        print(f"  exploitability in Kuhn poker {real.exploitability(policy):.4f} chips")
