"""A small game of talk for tests: each player whispers to one other, then all guess a coin."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from arena import (
    CHANCE,
    Action,
    ActionSet,
    ChanceOutcome,
    Event,
    Game,
    ReturnScale,
    Say,
    Speech,
    SpeechOffer,
    Spoken,
    State,
    Step,
)
from arena.core.analysis import GameAnalysis
from arena.core.observation import GameText

PLAYERS = 3


@dataclass(frozen=True, slots=True)
class Toss(Action):
    heads: bool

    def __str__(self) -> str:
        return f"toss {'heads' if self.heads else 'tails'}"


@dataclass(frozen=True, slots=True)
class Silence(Action):
    def __str__(self) -> str:
        return "pass"


@dataclass(frozen=True, slots=True)
class Call(Action):
    heads: bool

    def __str__(self) -> str:
        return f"call {'heads' if self.heads else 'tails'}"


@dataclass(frozen=True, slots=True)
class CoinShown(Event):
    """Only player 0 sees the coin."""

    heads: bool

    @property
    def audience(self) -> tuple[int, ...]:
        return (0,)


class Whispers(Game):
    """Player 0 sees a coin; each player may whisper to the next one; then all call it."""

    name = "whispers"
    summary = "whisper, then call a coin"
    num_players = PLAYERS
    turn_bound = 2 * PLAYERS
    return_scale = ReturnScale("return", "share", 0.0, 1.0)
    Text = "whispers:WhispersText"
    Analysis = "whispers:WhispersAnalysis"
    View = None
    speech: ClassVar[tuple[type[Speech], ...]] = (Say,)

    def _all_actions(self) -> Iterable[Action]:
        return (Silence(), Call(True), Call(False))

    def initial_state(self) -> WhispersState:
        return WhispersState(self)


class WhispersText(GameText):
    def rules(self) -> str:
        return "Player 0 sees a coin. Whisper to the next player, then call the coin."

    def narrate(self, event: Event) -> str:
        if isinstance(event, Spoken):
            return event.sentence(self.game.seat_names)
        return f"The coin shows {'heads' if event.heads else 'tails'}."  # type: ignore[attr-defined]


class WhispersAnalysis(GameAnalysis):
    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        steps = list(history)
        for number, step in enumerate(steps):
            # Player 0 knows the coin; of the whispers each player knows its own and one other.
            if isinstance(step.action, Toss) and player != 0:
                steps[number] = Step(CHANCE, Toss(rng.random() < 0.5))
            if isinstance(step.action, Say) and player not in (step.player, heard_by(step.player)):
                steps[number] = Step(step.player, Say(rng.choice(("yes", "no"))))
        return steps


def heard_by(player: int) -> int:
    return (player + 1) % PLAYERS


class WhispersState(State):
    def __init__(self, game: Whispers) -> None:
        super().__init__(game)
        self.to_act: tuple[int, ...] = (CHANCE,)
        self._heads = False
        self._has_whispered = 0
        self._calls: tuple[bool, ...] = ()

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        return [ChanceOutcome(Toss(heads), 0.5) for heads in (True, False)]

    def _legal_actions(self, player: int) -> ActionSet:
        if self._has_whispered < PLAYERS:
            return self.game.actions.subset((Silence(),), (SpeechOffer(Say),))
        return self.game.actions.subset((Call(True), Call(False)))

    def _apply(self, player: int, action: Action) -> None:
        match action:
            case Toss(heads):
                self._heads = heads
                self.log.append(CoinShown(heads))
                self.to_act = (0,)
                return
            case Call(heads):
                self._calls += (heads,)
            case Say(text):
                self.log.append(Spoken(player, text, (heard_by(player),)))
                self._has_whispered += 1
            case _:
                self._has_whispered += 1
        self.turn += 1
        done = len(self._calls) == PLAYERS
        self.to_act = () if done else (heard_by(player),)

    def teams(self) -> tuple[int, ...]:
        return (0,) * PLAYERS

    def roles(self) -> tuple[str, ...]:
        return ("seer", "guesser", "guesser")

    def returns(self) -> tuple[float, ...]:
        right = self.is_terminal and all(heads == self._heads for heads in self._calls)
        return (float(right),) * PLAYERS
