"""Values of hints for `HanabiConventions`: what a hand is worth with what its owner believes.

The values are points of a heuristic, chosen by judgement; 10 is one card that will be played.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from arena import ActionSet
from games.hanabi.conventions import ConventionTable, is_single
from games.hanabi.moves import HanabiHint, HintColour, HintGiven, HintRank

PLAYED = 10.0
"""A card that its owner believes to fit, and that fits."""
MISPLAYED = -30.0
"""A card that its owner believes to fit, and that does not."""
KNOWN = 5.0
"""A card that its owner knows and will play later."""
USELESS_KNOWN = 1.0
"""A useless card that its owner knows to be useless."""
MISLED = -12.0
"""A needed card about which its owner believes something false."""
USELESS_KEPT = -2.0
"""A useless card or second copy that its owner keeps because of a hint."""
LAST_COPY_AT_RISK = -12.0
"""The last copy of a needed card, on the chop."""
NEEDED_AT_RISK = -1.0
"""A needed card of which there is another copy, on the chop."""
BUSY = 0.3
"""Weight of the chop's risk if its owner has a better move than to discard it."""
UNCERTAINTY = -0.2
"""Times the square root of the number of kinds that its owner believes possible."""


@dataclass(frozen=True, slots=True)
class ConsideredHint:
    """A legal hint, the table after it, and the value that it adds."""

    action: HanabiHint
    after: ConventionTable
    gain: float


def considered_hints(table: ConventionTable, legal: ActionSet) -> Iterator[ConsideredHint]:
    """Yield the legal hints with their values, as the table's viewer sees the other hands."""
    assert table.viewer is not None
    # The value of each hand without a hint, computed once for all hints to it.
    before = {player: hand_value(table, player) for player in table.game.others(table.viewer)}
    hints: tuple[HanabiHint, ...] = (*legal.of(HintColour), *legal.of(HintRank))
    for action in hints:
        after = table.with_hint(_hint_event(table, action))
        gain = hand_value(after, action.target) - before[action.target]
        yield ConsideredHint(action, after, gain)


def _hint_event(table: ConventionTable, action: HanabiHint) -> HintGiven:
    """Return the event that a hint of the viewer would cause."""
    by_colour = isinstance(action, HintColour)
    colour = action.colour if isinstance(action, HintColour) else None
    rank = None if isinstance(action, HintColour) else action.rank
    named = colour[0].upper() if colour else str(rank)
    slots = tuple(
        slot
        for slot, held in enumerate(table.hands[action.target], 1)
        # A card is written as the letter of its colour and its rank.
        if held.card is not None and held.card[0 if by_colour else 1] == named
    )
    assert table.viewer is not None
    return HintGiven(table.viewer, action.target, colour, rank, slots, table.tokens - 1)


def hand_value(table: ConventionTable, player: int) -> float:
    """Return the value of a visible hand, given what its owner believes by public events."""
    # Kinds that other hands will provide; a second copy is of no use.
    claimed = _claimed_kinds(table, player)
    total = sum(_risk_of_chop(table, player, claimed))
    for place, held in enumerate(table.hands[player]):
        kind = table.kind(player, place)
        total += _card_value(table, player, place, claimed)
        # The second copy in one hand is as useless as one in two hands.
        if held.hinted:
            claimed |= kind
    return total


def _card_value(table: ConventionTable, player: int, place: int, claimed: int) -> float:
    """Return the value of one card; `claimed` are the kinds of cards that were hinted before."""
    kind, believed = table.kind(player, place), table.candidates(player, place)
    # The belief is public, the kind is what the giver of the hint sees.
    is_useless, is_copy = bool(kind & table.useless), bool(kind & claimed)
    value = 0.0 if is_useless else UNCERTAINTY * believed.bit_count() ** 0.5
    # The owner will play it.
    if not believed & ~table.fitting:
        return value + (PLAYED if kind & table.fitting and not is_copy else MISPLAYED)
    # The owner will discard it.
    if not believed & ~table.useless:
        return value + (USELESS_KNOWN if is_useless else MISLED)
    # Without a hint nothing is believed; `_risk_of_chop` judges the oldest of these cards.
    if not table.hands[player][place].hinted:
        return value
    if is_useless or is_copy:
        return value + USELESS_KEPT
    # The owner takes it for another card.
    if not kind & believed:
        return value + MISLED
    return value + (KNOWN if is_single(believed) else 0.0)


def _risk_of_chop(table: ConventionTable, player: int, claimed: int) -> Iterator[float]:
    """Yield the value of the card that the player discards next, if it has one."""
    chop = table.chop(player)
    if chop is None:
        return
    # A player with a better move will not discard the chop now, but perhaps later.
    kind, weight = table.kind(player, chop), BUSY if table.is_busy(player) else 1.0
    if kind & table.last_copies:
        yield weight * LAST_COPY_AT_RISK
    elif not kind & table.useless and not kind & claimed:
        yield weight * NEEDED_AT_RISK


def _claimed_kinds(table: ConventionTable, player: int) -> int:
    """Return the kinds of hinted cards in all other hands, as far as the viewer knows them."""
    claimed = 0
    for other in table.game.others(player):
        for place, held in enumerate(table.hands[other]):
            # The viewer sees this card; of its own cards it knows what hints and conventions say.
            if held.hinted and held.card is not None:
                claimed |= table.kind(other, place)
            elif held.hinted and is_single(kinds := table.candidates(other, place)):
                claimed |= kinds
    return claimed
