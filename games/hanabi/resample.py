"""Alternative histories that a player cannot distinguish from the real one."""

from __future__ import annotations

import random
from collections.abc import Sequence

from arena import CHANCE, Step
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
    state, table = HanabiState(game), HanabiTable(game, player)
    # For each card of the own hand: the step that dealt it, and its place in the deal.
    origins: list[tuple[int, int]] = []
    drawer = 0
    for number, step in enumerate(history):
        match step.action:
            case HanabiDeal():
                origins = [(number, place) for place in range(game.hand_size)]
            case DrawCard() if drawer == player:
                origins.append((number, 0))
            case PlaySlot(slot) | DiscardSlot(slot) if step.player == player:
                del origins[slot - 1]
        if step.player != CHANCE:
            drawer = step.player
        state.apply(step.player, step.action)
    for event in state.log.witnessed[player]:
        table.update(event)
    cards = [game.deck.kinds[kind] for kind in table.posterior().sample(rng)]
    steps = list(history)
    for (number, place), card in zip(origins, cards, strict=True):
        action = steps[number].action
        if isinstance(action, HanabiDeal):
            hand = list(action.hands[player])
            hand[place] = card
            hands = (*action.hands[:player], tuple(hand), *action.hands[player + 1 :])
            steps[number] = Step(steps[number].player, HanabiDeal(hands))
        else:
            steps[number] = Step(steps[number].player, DrawCard(card))
    return steps
