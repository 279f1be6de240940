"""Strategies of Leduc hold'em as tables: a row of probabilities for each information set.

A file has one line per information set: own card, board card (`-` in the first round), moves so
far (rounds parted by `/`), and the probabilities of fold, call and raise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from arena import Action, Observation
from games.leduc_poker.betting import CARDS, LeducBetting, copies_left
from games.leduc_poker.notes import MOVES, LeducNotes

LeducKey = tuple[str, str, str]
"""An information set: own card, board card or "", moves."""
Strategy = Mapping[LeducKey, Mapping[str, float]]
"""Probability of each legal move, by its letter."""

BUNDLED = Path(__file__).with_name("equilibrium.txt")
"""The strategy that `python -m games.leduc_poker.solver` has written."""
HEADING = "card   board  moves     fold    call    raise"


def leduc_keys(betting: LeducBetting | None = None, board: str = "") -> Iterator[LeducKey]:
    """Yield all information sets with a choice, in the order of play."""
    betting = betting or LeducBetting()
    # The tree of public events: three board cards, and all own cards at each node.
    if betting.awaits_board:
        for card in CARDS:
            yield from leduc_keys(betting.next_round(), card)
    elif not betting.is_over:
        for card in CARDS:
            yield card, board, str(betting)
        for move in betting.legal:
            yield from leduc_keys(betting.after(move), board)


def write_strategy(strategy: Strategy, path: Path) -> None:
    """Write a strategy as text, with four decimals."""
    lines = [HEADING]
    for key in leduc_keys():
        card, board, moves = key
        row = "  ".join(f"{strategy[key].get(move, 0.0):.4f}" for move in MOVES)
        lines.append(f"{card:5}  {board or '-':5}  {moves or '-':8}  {row}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_strategy(path: Path) -> Strategy:
    """Read a strategy. Its rows are divided by their sums, because the file is rounded."""
    strategy = {}
    for line in path.read_text("utf-8").splitlines()[1:]:
        card, board, moves, *row = line.split()
        numbers = dict(zip(MOVES, map(float, row), strict=True))
        total = sum(numbers.values())
        # Empty fields are written as "-", so that each line splits into six words.
        key = (card, board.replace("-", ""), moves if moves != "-" else "")
        strategy[key] = {move: n / total for move, n in numbers.items() if n}
    return strategy


@cache
def equilibrium() -> Strategy:
    """Return the bundled approximate equilibrium."""
    return read_strategy(BUNDLED)


def own_key(notes: LeducNotes) -> LeducKey:
    """Return the information set of the viewer."""
    return notes.own, notes.board, str(notes.betting)


def probabilities(strategy: Strategy, observation: Observation) -> dict[Action, float]:
    """Return the probability of each legal action of the observer under a strategy."""
    notes = observation.notes
    assert isinstance(notes, LeducNotes)
    return {MOVES[move]: p for move, p in strategy[own_key(notes)].items()}


def hand_probabilities(notes: LeducNotes, strategy: Strategy | None = None) -> dict[str, float]:
    """Return the probability of each card of the other player, given all that the viewer saw.

    With h a card of the other player and a_1, ..., a_k its moves,

        P(h | a)  ~  (copies of h that are not seen) * prod_i P(a_i | h, what was public then).

    Args:
        notes: Facts of the viewer.
        strategy: The model of how the other player plays. None: it draws evenly from its legal
            moves, so that the moves reveal nothing.
    """
    other = 1 - notes.player
    # After a showdown nothing is left to infer.
    if other in notes.cards:
        return {notes.cards[other]: 1.0}
    seen = (notes.own, notes.board)
    weights = {card: float(copies_left(card, seen)) for card in CARDS}
    if strategy is not None:
        # Bayes: the prior by copies, times the probability of the moves that were made.
        for card in weights:
            weights[card] *= _likelihood(notes, strategy, card, other)
    total = sum(weights.values())
    if not total:
        # The model excludes what the other player did: only the cards themselves count.
        return hand_probabilities(notes)
    return {card: weight / total for card, weight in weights.items() if weight}


def _likelihood(notes: LeducNotes, strategy: Strategy, card: str, player: int) -> float:
    """Return the probability of all moves of a player under a strategy if it holds a card."""
    betting, board, likelihood = LeducBetting(), "", 1.0
    for number, moves in enumerate(notes.betting.rounds):
        if number:
            # The board card was hidden in the first round, for the model too.
            betting, board = betting.next_round(), notes.board
        # Only the own moves of that player depend on its card.
        for move in moves:
            if betting.player == player:
                likelihood *= strategy[card, board, str(betting)].get(move, 0.0)
            betting = betting.after(move)
    return likelihood
