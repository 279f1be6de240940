"""Other libraries' games against games of arena with the same rules, for `arena doctor GAME`."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from arena import CHANCE, Action, Game, State
from arena.plugins.game_checks import GameFinding
from games.adapters.open_spiel.state import OpenSpielState
from games.adapters.textarena import TextArenaMessage, TextArenaSpeech
from games.kuhn_poker.game import BET, CARDS, FOLDS, PASS, SHOWDOWNS, chips_of_first

SEEDS = 6
"""Deals of Kuhn poker for each sequence of moves."""

REFERENCE = "returns equal those of arena's kuhn_poker"

_CARD = re.compile(r"Your card is: '(\w)'")
_SCORES = re.compile(r"Current scores: Player 0: '(-?\d+)'; Player 1: '(-?\d+)'")


def open_spiel_kuhn_poker(game: Game) -> Sequence[GameFinding]:
    """Compare all deals and sequences of moves of two players with arena's game."""
    if game.num_players != 2:
        return []
    differences, compared = list[str](), 0
    for first in range(3):
        for second in {0, 1, 2} - {first}:
            for moves in (*SHOWDOWNS, *FOLDS):
                state = game.initial_state()
                assert isinstance(state, OpenSpielState)
                for card in (first, second):
                    state.apply(CHANCE, state.chance_action(card))
                for move in moves:
                    player = state.to_act[0]
                    state.apply(player, state.legal_actions(player)[int(move == BET)])
                compared += 1
                chips = chips_of_first(moves, (CARDS[first], CARDS[second]))
                own = (chips, -chips)
                if state.returns() != own:
                    differences.append(f"{_names(moves)}: {state.returns()}, not {own}")
    return [_finding(compared, differences)]


def textarena_kuhn_poker(game: Game) -> Sequence[GameFinding]:
    """Compare the chips of the first hand with arena's game, for all sequences of moves."""
    differences, compared = list[str](), 0
    for seed in range(SEEDS):
        for moves in (*SHOWDOWNS, *FOLDS):
            state = game.initial_state()
            state.apply(CHANCE, state.sample_chance(random.Random(seed)))
            starter, cards = state.to_act[0], _cards(state)
            for number, move in enumerate(moves):
                word = _word(move, after_bet=BET in moves[:number])
                state.apply(state.to_act[0], TextArenaSpeech(f"[{word}]"))
            found = _chips(state)
            own = chips_of_first(moves, (cards[starter], cards[1 - starter]))
            compared += 1
            if found is None or found[starter] != own:
                chips = "no score" if found is None else f"{found[starter]:+g} chips"
                differences.append(f"{_names(moves)}: {chips} for the first player, not {own:+g}")
    return [_finding(compared, differences)]


def _word(move: Action, after_bet: bool) -> str:
    if after_bet:
        return "call" if move == BET else "fold"
    return "bet" if move == BET else "check"


def _cards(state: State) -> list[str]:
    """Return the card of each seat, from the seat's own messages."""
    signs = {card[0]: card for card in CARDS}
    return [
        next(
            signs[found[1]]
            for event in events
            if isinstance(event, TextArenaMessage) and (found := _CARD.search(event.text))
        )
        for events in state.log.witnessed
    ]


def _chips(state: State) -> tuple[float, float] | None:
    """Return the chips that each seat has won when the first hand was over."""
    for event in state.log.events:
        found = _SCORES.search(event.text) if isinstance(event, TextArenaMessage) else None
        if found:
            return float(found[1]), float(found[2])
    return None


def _names(moves: Sequence[Action]) -> str:
    return " ".join("bet" if move is not PASS else "pass" for move in moves)


def _finding(compared: int, differences: Sequence[str]) -> GameFinding:
    example = f"; for example {differences[0]}" if differences else ""
    detail = f"{len(differences)} of {compared} hands differ{example}"
    return GameFinding(REFERENCE, not differences, detail)
