"""The end of a game in plain words, for the person who has played it or for a spectator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from arena.core.outcome import Outcome
from arena.core.views.number_text import decimal
from arena.core.views.second_person import second_person

if TYPE_CHECKING:
    from arena.core.game import Game


def ending(game: Game, outcome: Outcome, seat: int | None = None) -> str:
    """Return who has won, why, and the returns if they are more than won and lost.

    Args:
        game: The game that has ended.
        outcome: Its outcome.
        seat: The seat of the reader, who is addressed; None for a spectator.
    """
    sentences = [f"{_result(game, outcome, seat)}: {outcome.reason}."]
    if not game.return_scale.is_win_rate:
        sentences.append(f"{game.return_scale.name.capitalize()}: {_returns(game, outcome)}.")
    text = " ".join(sentences)
    return text if seat is None else second_person(text, game.seat_names[seat])


def _result(game: Game, outcome: Outcome, seat: int | None) -> str:
    """Return "You lost", "Player 2 won", "Draw" and the like."""
    if outcome.status == "truncated":
        return "No result"
    if not game.return_scale.has_winner:
        return "The game is over"
    seats = range(len(outcome.returns))
    winners = list(filter(outcome.is_winner, seats))
    if seat in winners:
        return "You won" if len(winners) == 1 else "Your team won"
    if seat is not None and (winners or outcome.returns[seat] < max(outcome.returns)):
        return "You lost" if not winners or not outcome.teams else "Your team lost"
    if not winners:
        # Where only a win pays, equal returns of 0 are no draw: all have failed.
        all_failed = game.return_scale.is_win_rate and not any(outcome.returns)
        return "No player won" if all_failed else "Draw"
    names = [game.seat_names[each] for each in winners]
    return f"{', '.join(names)} won"


def _returns(game: Game, outcome: Outcome) -> str:
    """Return the return of each seat with its unit: "Player 0 +2 chips, Player 1 −2 chips"."""
    return ", ".join(_each(game, outcome))


def _each(game: Game, outcome: Outcome) -> Iterator[str]:
    scale = game.return_scale
    # A scale that begins at 0 or above counts what is earned; others have gains and losses.
    signed = scale.low is None or scale.low < 0
    values = set(outcome.returns)
    if len(values) == 1 and not game.return_scale.has_winner:
        value = values.pop()
        yield f"{_amount(value, scale.unit, signed)} for all"
        return
    for name, value in zip(game.seat_names, outcome.returns, strict=True):
        yield f"{name} {_amount(value, scale.unit, signed)}"


def _amount(value: float, unit: str, signed: bool) -> str:
    digits = 0 if value == round(value) else 2
    number = decimal(value, digits, signed)
    if unit in ("", "share"):
        return number
    # "chips" of one chip.
    return f"{number} {unit.removesuffix('s') if abs(value) == 1 else unit}"
