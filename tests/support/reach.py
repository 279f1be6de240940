"""Which actions the pieces and the offers of a drawn table lead to."""

from __future__ import annotations

from collections.abc import Sequence

from arena.core.action import normalise
from arena.core.view.pieces import Offer, Part, targets


def picked(text: str, picks: Sequence[str]) -> bool:
    """Return whether the text of an action contains one of these phrases, as whole words."""
    words = f" {normalise(text)} "
    return any(f" {normalise(phrase)} " in words for phrase in picks)


def unreached(parts: Sequence[Part], actions: Sequence[str]) -> list[str]:
    """Return the actions that no piece and no offer of the table leads to."""
    phrases = {normalise(phrase) for piece in targets(parts) for phrase in piece.picks}
    offers = [part for part in parts if isinstance(part, Offer)]
    return [
        text
        for text in actions
        if not picked(text, tuple(phrases)) and not any(each.includes(text) for each in offers)
    ]
