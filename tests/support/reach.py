"""Which actions the pieces and the offers of a drawn table lead to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from arena.core.action import normalise
from arena.core.view import Offer, Part, targets


def picked(text: str, picks: Sequence[str]) -> bool:
    """Return whether the text of an action contains one of these phrases, as whole words."""
    words = f" {normalise(text)} "
    return any(f" {normalise(phrase)} " in words for phrase in picks)


def makes(offer: Offer, text: str) -> bool:
    """Return whether the steppers of an offer can make the text of this action."""
    found = re.fullmatch(r"(\d+)".join(map(re.escape, offer.action.split("{}"))), text)
    return found is not None and all(
        int(number) <= stepper.most
        for number, stepper in zip(found.groups(), offer.steppers, strict=True)
    )


def unreached(parts: Sequence[Part], actions: Sequence[str]) -> list[str]:
    """Return the actions that no piece and no offer of the table leads to."""
    phrases = {normalise(phrase) for piece in targets(parts) for phrase in piece.picks}
    offers = [part for part in parts if isinstance(part, Offer)]
    return [
        text
        for text in actions
        if not picked(text, tuple(phrases)) and not any(makes(each, text) for each in offers)
    ]
