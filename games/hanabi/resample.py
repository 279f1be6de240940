"""Alternative histories that a player cannot distinguish from the real one."""

from __future__ import annotations

import random
from collections.abc import Sequence

from arena import CHANCE, Action, Step
from games.hanabi.base import HanabiBase
from games.hanabi.moves import DiscardSlot, DrawCard, HanabiDeal, PlaySlot
from games.hanabi.state import HanabiState
from games.hanabi.table import HanabiTable


def resample(
    game: HanabiBase, history: Sequence[Step], player: int, rng: random.Random
) -> list[Step]:
    """Return the same history with other cards in the player's hand.

    The cards of the own hand are drawn from their exact distribution. Everything else that is in a
    history, the player has seen: other hands, cards that were played or discarded, and all moves.
    """
    if not history:
        return []
    # First pass, over the real history: what the player has seen.
    state, table = HanabiState(game), HanabiTable(game, player)
    for step in history:
        state.apply(step.player, step.action)
    for event in state.log.witnessed[player]:
        table.update(event)
    # The deck has no order yet, so only the own hand is hidden.
    kinds = table.posterior().sample(rng)
    return replace_hand(game, history, player, [game.deck.kinds[kind] for kind in kinds])


def replace_hand(
    game: HanabiBase, history: Sequence[Step], player: int, hand: Sequence[str]
) -> list[Step]:
    """Return a history that deals the player the given cards in place of those that it holds now.

    It need not be legal. `hand` begins with the oldest card.
    """
    steps = list(history)
    for (number, place), card in zip(_origins(game, history, player), hand, strict=True):
        # Cards that were played or discarded stay: all players have seen them.
        action: Action = DrawCard(card)
        dealt = steps[number].action
        if isinstance(dealt, HanabiDeal):
            cards = dealt.hands[player]
            cards = (*cards[:place], card, *cards[place + 1 :])
            action = HanabiDeal((*dealt.hands[:player], cards, *dealt.hands[player + 1 :]))
        steps[number] = Step(CHANCE, action)
    return steps


def _origins(game: HanabiBase, history: Sequence[Step], player: int) -> list[tuple[int, int]]:
    """Return for each card that the player holds the step that dealt it, and its place there."""
    origins: list[tuple[int, int]] = []
    mover = 0
    for number, step in enumerate(history):
        match step.action:
            case HanabiDeal():
                origins = [(number, place) for place in range(game.hand_size)]
            # The player who has moved last draws.
            case DrawCard() if mover == player:
                origins.append((number, 0))
            case PlaySlot(slot) | DiscardSlot(slot) if step.player == player:
                # The newer cards move down, as in the hand.
                del origins[slot - 1]
        if step.player != CHANCE:
            mover = step.player
    return origins
