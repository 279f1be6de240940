"""Positions of OpenSpiel's games, and other histories that look the same to a seat."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, Self

from arena import CHANCE, Action, ActionSet, ChanceOutcome, GameAnalysis, State, Step
from games.adapters.library_game import (
    LibraryChance,
    LibraryDrew,
    LibraryMove,
    LibraryMoved,
    LibrarySeed,
    compute,
)
from games.adapters.library_state import LibraryState
from games.adapters.open_spiel import library
from games.adapters.open_spiel.game import OpenSpielGame

_CHANCE_TEXT = re.compile(r"chance (\d{1,18})(?:: .*)?")


class OpenSpielState(LibraryState):
    """A `pyspiel.State` and what each seat has seen of it.

    A seat sees a position when it must act and at the end. Between its moves it sees nothing,
    because the number of other moves may be hidden; only a game without information states shows
    each change of a seat's observation.
    """

    game: OpenSpielGame

    def __init__(self, game: OpenSpielGame) -> None:
        super().__init__(game)
        self.pending: dict[int, int] = {}
        """Sealed moves of the present simultaneous move, by seat."""
        self.shown: tuple[str, ...] = ("",) * game.num_players
        """The text that each seat has seen last."""
        self._legal: dict[int, ActionSet] = {}
        self._outcomes: list[tuple[int, float]] | None = None
        """Results of chance here and their probabilities; None before they are asked for."""
        self.spiel: Any = None
        # A game that draws by itself begins with its seed.
        if not game.is_sampled:
            self.spiel = game.spiel.new_initial_state()
            self._set_players()

    def _set_players(self) -> None:
        """Set who must act."""
        # New values, because a copy may share the old ones.
        spiel, self._legal, self._outcomes = self.spiel, {}, None
        player = spiel.current_player()
        if player >= 0:
            self._begin_turn(player)
        elif spiel.is_terminal():
            self.to_act = ()
        elif spiel.is_chance_node():
            self.to_act = (CHANCE,)
        else:
            seats = range(self.game.num_players)
            self._begin_turn(*(seat for seat in seats if spiel.legal_actions(seat)))

    def _legal_actions(self, player: int) -> ActionSet:
        legal = self._legal.get(player)
        if legal is None:
            row = self.game.moves[player]
            numbers = self.spiel.legal_actions(player)
            legal = self.game.actions.subset([row[number] for number in numbers])
            self._legal[player] = legal
        return legal

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        if self.spiel is None:
            return super().chance_outcomes()  # Not listed: there are 2**31 seeds.
        return [ChanceOutcome(self.chance_action(n), p) for n, p in self._listed_outcomes()]

    def _listed_outcomes(self) -> list[tuple[int, float]]:
        if self._outcomes is None:
            self._outcomes = self.spiel.chance_outcomes()
        return self._outcomes

    def chance_action(self, number: int) -> LibraryChance:
        """Return a result of chance by its number in OpenSpiel."""
        return LibraryChance(number, self.game.label(self.spiel, CHANCE, number))

    def sample_chance(self, rng: random.Random) -> Action:
        if self.spiel is None:
            return LibrarySeed(rng.getrandbits(31))
        numbers, weights = zip(*self._listed_outcomes(), strict=True)
        # Only the result gets a text; there may be thousands.
        return self.chance_action(rng.choices(numbers, weights)[0])

    def _is_possible(self, action: Action) -> bool:
        if self.spiel is None:
            return super()._is_possible(action)
        if not isinstance(action, LibraryChance):
            return False
        possible = any(n == action.number and p > 0 for n, p in self._listed_outcomes())
        return possible and self.chance_action(action.number) == action

    def _read_chance(self, text: str) -> Action | None:
        if self.spiel is None:
            return super()._read_chance(text)
        written = _CHANCE_TEXT.fullmatch(text)
        number = int(written[1]) if written else -1
        listed = any(n == number for n, _ in self._listed_outcomes())
        return self.chance_action(number) if listed else None

    def _change(self, player: int, action: Action) -> None:
        match action:
            case LibrarySeed(seed):
                self.spiel = self.game.seeded(seed)
                # Not public: everything that is still hidden follows from the seed.
                self.log.append(LibraryDrew(str(action), public=False))
                self._set_players()
            case LibraryChance(number, label):
                self.spiel.apply_action(number)
                self._set_players()
                self.log.append(LibraryDrew(label, public=not self.game.hides))
            case LibraryMove(number) if self.spiel.is_simultaneous_node():
                self.pending = {**self.pending, player: number}
                self.to_act = tuple(seat for seat in self.to_act if seat != player)
                # Sealed: no event before the last seat has committed.
                if self.to_act:
                    return
                self._reveal()
            case LibraryMove(number):
                self._log_move(player, number)
                self.spiel.apply_action(number)
                self._set_players()
        self._show()

    def _reveal(self) -> None:
        pending, self.pending = self.pending, {}
        for player, number in sorted(pending.items()):
            self._log_move(player, number)
        # Seats without a legal move take part with the number 0, which the library ignores.
        self.spiel.apply_actions([pending.get(seat, 0) for seat in range(self.game.num_players)])
        self._set_players()

    def _log_move(self, player: int, number: int) -> None:
        text = self.game.event_text(self.spiel, player, number)
        self.log.append(LibraryMoved(player, text, public=not self.game.hides))

    def _show(self) -> None:
        """Let the seats see the position: those to act, or all of them at the end."""
        if self.to_act == (CHANCE,):
            return
        game, shown = self.game, list(self.shown)
        every = game.texts_add_up or not self.to_act
        for seat in range(game.num_players) if every else self.to_act:
            try:
                text = game.text_of(self.spiel, seat)
            except library.pyspiel().SpielError:  # Some games have no text at the end.
                continue
            acts = seat in self.to_act
            if text != shown[seat] or (acts and (game.is_positional or not game.texts_add_up)):
                legal = self.spiel.legal_actions(seat) if acts and game.is_positional else ()
                self.log.append(game.observed(self.spiel, seat, text, legal))
                shown[seat] = text
        self.shown = tuple(shown)

    def returns(self) -> tuple[float, ...]:
        """Return OpenSpiel's returns; before the end only in games that pay on the way."""
        if self.spiel is None or not (self.is_terminal or self.game.has_rewards):
            return (0.0,) * self.game.num_players
        return tuple(map(float, self.spiel.returns()))

    def clone(self) -> Self:
        # A game that draws by itself keeps its generator in the library's game object, which
        # clones of the library's state would share.
        if self.game.is_sampled:
            return super().clone()
        twin = State.clone(self)
        twin.spiel = self.spiel.clone()
        return twin


# Other worlds


MOST_MOVES = 2_000
"""Moves that the search applies before it gives up."""

MOST_CHOICES = 20
"""Results of chance that the search tries at one position."""


class OpenSpielAnalysis(GameAnalysis):
    """Other histories of a game of OpenSpiel."""

    game: OpenSpielGame

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw another history with the same information for the player."""
        if not self.game.hides or self.game.is_sampled:
            return None
        return compute(self.game, other_world, history, player, rng=rng)


def _known(state: OpenSpielState, player: int) -> tuple[tuple[int, ...], str]:
    """Return who acts, and the text of the player where it is shown."""
    visible = player in state.to_act or not state.to_act
    # A position within a simultaneous move shows nothing new.
    if state.pending or not (visible or state.game.texts_add_up) or state.to_act == (CHANCE,):
        return state.to_act, ""
    return state.to_act, state.game.text_of(state.spiel, player)


def other_world(
    game: OpenSpielGame, history: Sequence[Step], player: int, rng: random.Random
) -> list[Step]:
    """Return a history with the same information for `player`, by search with backtracking.

    It has the same length, the same seats to act and the same texts for the player. The same
    history is returned if the search finds no other.
    """
    state = OpenSpielState(game)
    wanted = []
    for step in history:
        state.apply(step.player, step.action)
        wanted.append(_known(state, player))
    path: list[OpenSpielState] = [OpenSpielState(game)]
    steps, choices = list[Step](), list[Iterator[Action]]()
    for _ in range(MOST_MOVES):
        depth = len(steps)
        if depth == len(history):
            return steps
        if len(choices) == depth:
            choices.append(_choices(path[-1], history[depth], player, rng))
        action = next(choices[-1], None)
        if action is None:
            # Back to the position before, where another choice is tried.
            choices.pop()
            if not choices:
                break
            path.pop()
            steps.pop()
            continue
        twin = path[-1].clone()
        twin.apply(history[depth].player, action)
        if _known(twin, player) == wanted[depth]:
            path.append(twin)
            steps.append(Step(history[depth].player, action))
    return list(history)


def _choices(
    state: OpenSpielState, step: Step, player: int, rng: random.Random
) -> Iterator[Action]:
    """Yield legal actions to try in place of a step; of the player itself only its own move."""
    action = step.action
    if step.player == CHANCE:
        numbers = [n for n, p in state.spiel.chance_outcomes() if p > 0]
        rng.shuffle(numbers)
        yield from map(state.chance_action, numbers[:MOST_CHOICES])
        return
    legal = list(state.legal_actions(step.player))
    if step.player == player:
        legal = [action] if action in legal else []
    rng.shuffle(legal)
    yield from legal
