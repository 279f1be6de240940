"""Strategies of Leduc hold'em as tables: the tool that wrote the bundled strategy.

`PYTHONPATH=docs/examples/reproduce python tests/support/leduc_solver.py` writes an average
strategy of CFR+.
"""

from __future__ import annotations

from pathlib import Path

from equilibria import cfr_plus

from arena.evaluation.exact import GameTree
from arena.plugins.catalog import make_game
from games.leduc_poker.knowledge import BUNDLED, Strategy
from games.leduc_poker.notes import LeducKey, LeducNotes
from games.leduc_poker.rules import MOVES

ITERATIONS = 3000
"""Iterations of the bundled strategy."""
HEADING = "card   board  moves     fold    call    raise"


def leduc_strategy(iterations: int) -> Strategy:
    """Return the average strategy of CFR+, which approaches a Nash equilibrium."""
    tree = GameTree(make_game("leduc_poker"))
    policy = cfr_plus(tree, iterations)
    letters = {action: letter for letter, action in MOVES.items()}
    strategy: dict[LeducKey, dict[str, float]] = {}
    for situation, first in zip(tree.situations, tree.first_pairs, strict=True):
        notes = situation.observation.notes
        assert isinstance(notes, LeducNotes)
        actions = situation.observation.legal_actions
        strategy[notes.key] = {
            letters[action]: float(policy[first + number]) for number, action in enumerate(actions)
        }
    return strategy


def write_strategy(strategy: Strategy, path: Path) -> None:
    """Write a strategy as text, with four decimals."""
    lines = [HEADING]
    for (card, board, moves), chances in strategy.items():
        row = "  ".join(f"{chances.get(move, 0.0):.4f}" for move in MOVES)
        lines.append(f"{card:5}  {board or '-':5}  {moves or '-':8}  {row}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Compute a strategy and write the bundled file."""
    write_strategy(leduc_strategy(ITERATIONS), BUNDLED)


if __name__ == "__main__":
    main()
