"""Sentences that the texts of hidden-role games share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arena import GameText
from arena.core.text import per_cent
from games.hidden_roles.base import HiddenRolesBase


def percentages(
    game: HiddenRolesBase, probabilities: Sequence[float], player: int | None = None
) -> str:
    """Return a probability per seat, the seat `player` omitted: `Player 1 40 %, Player 2 0 %`."""
    return ", ".join(
        f"{name} {per_cent(probability)}"
        for seat, (name, probability) in enumerate(zip(game.seat_names, probabilities, strict=True))
        if seat != player
    )


def statement_note(text: str, length: int = 40) -> str:
    """Return a statement for the end of a table row, cut to `length` characters."""
    return f'"{text}"' if len(text) <= length - 2 else f'"{text[: length - 3]}…"'


class HiddenRolesText(GameText):
    """Texts that games of hidden roles share."""

    game: HiddenRolesBase

    def synonyms(self) -> Mapping[str, str]:
        """Return other words for the players; a game adds those for its actions."""
        names = self.game.seat_names
        return {f"{word}{seat}": name for word in ("seat ", "P") for seat, name in enumerate(names)}
