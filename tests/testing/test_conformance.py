"""Every registered game passes the conformance kit, and the kit finds what it should find."""

from __future__ import annotations

import asyncio
import math
import pickle
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic.fields import FieldInfo

from arena.core.action import CHANCE, Action, Step
from arena.core.action_set import ActionSet
from arena.core.analysis import Assessment, GameAnalysis, Measure, WeightedSum
from arena.core.errors import ArenaError, UsageError
from arena.core.event import Event, Outcome, Ply
from arena.core.game import ChanceOutcome, Game
from arena.core.spec import stream
from arena.envs.multi_agent import MultiAgentEnv
from arena.episodes.match import Match, act_out, play
from arena.plugins.catalog import catalog, make_game
from arena.testing import check_game
from arena.testing.conformance import (
    check_copies,
    check_length,
    check_measures,
    check_random_play,
    check_replay,
)
from arena.testing.non_interference import check_non_interference, check_schedule
from games.cluedo.game import Cluedo
from games.cluedo.inference.knowledge import Notebook
from games.cluedo.rules.setting import Accuse
from games.cluedo.rules.state import CluedoState, TurnPhase
from games.cluedo.text import CluedoText
from games.kuhn_poker.game import PASS, DealHands, KuhnAnalysis, KuhnPoker, KuhnPokerState

GAMES: list[tuple[str, dict[str, Any]]] = [
    ("tictactoe", {}),
    ("kuhn_poker", {}),
    ("goofspiel", {}),
    ("goofspiel", {"players": 3, "cards": 4, "prizes": "descending"}),
    ("liars_dice", {}),
    ("leduc_poker", {}),
    ("battleship", {"width": 4, "height": 4, "ships": [2, 1]}),
    ("negotiation", {}),
    ("codenames", {}),
    ("avalon", {}),
    ("werewolf", {}),
    ("hanabi", {"colours": 2, "ranks": 3, "hand_size": 2, "hint_tokens": 3, "lives": 2}),
    ("cluedo", {"players": 3}),
    ("cluedo", {"players": 4, "leftover_cards": "open", "theme": "us"}),
    ("cluedo", {"players": 2, "suspects": 3, "weapons": 2, "rooms": 4}),
    ("cluedo", {"variant": "classic", "players": 3}),
    ("cluedo", {"variant": "classic", "players": 4, "summoned_may_suggest": False}),
]


def test_every_registered_game_is_listed_here() -> None:
    bundled = {e.name for e in catalog().entries("game") if e.plugin == "games"}
    assert bundled == {name for name, _ in GAMES}


@pytest.mark.parametrize(("name", "options"), GAMES, ids=str)
def test_conformance(name: str, options: dict[str, Any]) -> None:
    check_game(make_game(name, **options), seeds=range(2))


def choices(field: FieldInfo) -> list[Any]:
    """Return the values of an option: all of a kind, or the default, the least and the most."""
    if get_origin(field.annotation) is Literal:
        return list(get_args(field.annotation))
    if field.annotation is bool:
        return [False, True]
    ends = (getattr(rule, "ge", None) or getattr(rule, "le", None) for rule in field.metadata)
    return [field.default, *filter(None, ends)]


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in GAMES))
def test_games_end_with_any_options(name: str) -> None:
    kind, rng, checked = type(make_game(name)), stream(1, "options"), 0
    while checked < 12:
        fields = kind.Options.model_fields
        options = {option: rng.choice(choices(field)) for option, field in fields.items()}
        with suppress(UsageError):  # Some options exclude each other.
            check_length(kind(**options))
            checked += 1


@pytest.mark.parametrize(
    ("bound", "message"), [(None, "states no bound on its length"), (1, "has 2 turns: more than")]
)
def test_the_kit_finds_games_of_any_length(bound: int | None, message: str) -> None:
    class Game(KuhnPoker):
        turn_bound = bound  # type: ignore[assignment]

    with pytest.raises(AssertionError, match=message):
        check_length(Game())


# The kit must notice each of these.


class PeekingState(CluedoState):
    """The order of the legal actions tells who holds the first card."""

    def _legal_actions(self, player: int) -> ActionSet:
        legal = super()._legal_actions(player)
        if self.hands and legal and self.game.deck.cards[0] in self.hands[-1]:
            return self.game.actions.subset(reversed(legal.actions))
        return legal


class Peeking(Cluedo):
    def initial_state(self) -> CluedoState:
        return PeekingState(self)


@dataclass(frozen=True, slots=True)
class Whispered(Event):
    """An event that everybody hears and nobody should."""

    cards: tuple[str, ...]


class LoudState(CluedoState):
    def _apply(self, player: int, action: Action) -> None:
        super()._apply(player, action)
        if player == CHANCE and len(self.log.events) < 20:
            self.log.append(Whispered(tuple(sorted(self.hands[0]))))


class LoudText(CluedoText):
    def narrate(self, event: Event) -> str:
        return "" if isinstance(event, Whispered) else super().narrate(event)


class Loud(Cluedo):
    Text = "test_conformance:LoudText"

    def initial_state(self) -> CluedoState:
        return LoudState(self)


class OverfullState(CluedoState):
    """The number of events tells whether somebody had a choice."""

    def _apply(self, player: int, action: Action) -> None:
        super()._apply(player, action)
        if self.phase is TurnPhase.REFUTE and len(self.choices) > 1:
            self.log.append(Whispered(()))


class Overfull(Loud):
    def initial_state(self) -> CluedoState:
        return OverfullState(self)


@pytest.mark.parametrize("variant", ["cards", "classic"])
@pytest.mark.parametrize("leaky", [Peeking, Loud, Overfull])
def test_the_kit_finds_leaks(leaky: type[Cluedo], variant: str) -> None:
    with pytest.raises(AssertionError, match="can tell its world from another"):
        for seed in range(6):
            check_non_interference(leaky(players=3, variant=variant), seed)


class HesitantState(KuhnPokerState):
    """Player 0 moves once more, without an event, if it holds the king."""

    hesitates = False

    def _deal(self, deal: DealHands) -> None:
        super()._deal(deal)
        self.hesitates = deal.cards[0] == "King"

    def _move(self, player: int, move: Action) -> None:
        if self.hesitates:
            self.hesitates = False
        else:
            super()._move(player, move)


class HesitantAnalysis(KuhnAnalysis):
    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        extra = len(history) > 0 and "deal King" in str(history[0].action)
        other = super().resample([*history[:1], *history[1 + extra :]], player, rng)
        if other and len(history) > 1 and "deal King" in str(other[0].action):
            other.insert(1, Step(0, PASS))
        return other


class Hesitant(KuhnPoker):
    Analysis = "test_conformance:HesitantAnalysis"

    def initial_state(self) -> KuhnPokerState:
        return HesitantState(self)


def test_the_kit_finds_secrets_in_the_time_of_news() -> None:
    check_non_interference(Hesitant(), 1, samples=30)
    with pytest.raises(AssertionError, match="can tell its world from another by the clock"):
        for seed in range(6):
            check_schedule(Hesitant(), seed, samples=30)


class IdleAnalysis(GameAnalysis):
    def resample(self, history: Any, player: int, rng: Any) -> Any:
        return list(history)


def test_the_kit_wants_other_worlds_that_are_others() -> None:
    class Idle(Cluedo):
        Analysis = "test_conformance:IdleAnalysis"

    with pytest.raises(AssertionError, match="never changes anything"):
        check_non_interference(Idle(players=3), 0)


def test_a_pickle_of_a_game_holds_its_options_only() -> None:
    game = Cluedo(players=3)
    fresh = pickle.dumps(game)
    for seed in range(5):
        act_out(game.initial_state(), stream(seed, "play"))
    assert pickle.dumps(game) == fresh


def test_the_kit_names_a_shared_list_that_nothing_shows() -> None:
    class Noting(KuhnPokerState):
        def __init__(self, game: KuhnPoker) -> None:
            super().__init__(game)
            self.notes: list[list[int]] = [[], []]

        def clone(self) -> Noting:
            twin = super().clone()
            twin.notes = list(self.notes)  # The lists in it are the same ones.
            return twin

        def _apply(self, player: int, action: Action) -> None:
            super()._apply(player, action)
            if player != CHANCE:
                self.notes[player].append(self.turn)

    class Game(KuhnPoker):
        def initial_state(self) -> KuhnPokerState:
            return Noting(self)

    with pytest.raises(AssertionError, match="changed notes of its original: .* clone"):
        for seed in range(3):
            check_copies(Game(), seed)


def test_the_kit_finds_games_that_are_not_reproducible() -> None:
    drawn = iter(range(10**6))

    class Moody(KuhnPokerState):
        def reason(self) -> str:
            return f"mood {next(drawn)}"

    class Game(KuhnPoker):
        def initial_state(self) -> KuhnPokerState:
            return Moody(self)

    with pytest.raises(AssertionError, match="does not verify|two runs differ"):
        check_replay(Game(), 0)


class StuckState(KuhnPokerState):
    """The second player cannot move, or chance cannot deal."""

    def _legal_actions(self, player: int) -> ActionSet:
        return self.game.no_actions if self.moves else super()._legal_actions(player)

    def chance_outcomes(self) -> Sequence[ChanceOutcome]:
        return () if self.game.stuck_chance else super().chance_outcomes()  # type: ignore[attr-defined]


class Stuck(KuhnPoker):
    stuck_chance = False

    def initial_state(self) -> KuhnPokerState:
        return StuckState(self)


class StuckChance(Stuck):
    stuck_chance = True


@pytest.mark.parametrize(
    "play_on",
    [
        lambda game: asyncio.run(play(Match(game, ("bot:random",) * 2, 1))),
        lambda game: act_out(game.initial_state(), random.Random(1)),
        lambda game: check_random_play(game, 1),
    ],
)
def test_a_game_that_cannot_go_on_is_named(play_on: Callable[[Game], object]) -> None:
    place = r"^kuhn_poker: in turn 2, after \d events, player 1 must act and has no legal action"
    with pytest.raises(ArenaError, match=place):
        play_on(Stuck())
    with pytest.raises(ArenaError, match=r"^kuhn_poker: in turn 0, after 0 events, chance must"):
        play_on(StuckChance())


@pytest.mark.parametrize(
    ("returns", "probabilities", "message"),
    [
        ((math.nan, 0.0), None, "not finite"),
        ((math.inf, 0.0), None, "not finite"),
        ((0.0,), None, "one entry per"),
        ((0.0, 0.0), (math.nan, 1.0), "not between 0 and 1"),
        ((0.0, 0.0), (-0.5, 1.5), "not between 0 and 1"),
        ((0.0, 0.0), (0.5, 0.4), "add up to 0.9"),
    ],
)
def test_the_kit_finds_wrong_returns_and_probabilities(
    returns: tuple[float, ...], probabilities: tuple[float, ...] | None, message: str
) -> None:
    class Faulty(KuhnPokerState):
        def returns(self) -> tuple[float, ...]:
            return returns

        def chance_outcomes(self) -> Sequence[ChanceOutcome]:
            deals = [outcome.action for outcome in super().chance_outcomes()]
            chances = probabilities or (1 / 6,) * 6
            return [ChanceOutcome(*pair) for pair in zip(deals, chances, strict=False)]

        def sample_chance(self, rng: random.Random) -> Action:
            return self.chance_outcomes()[0].action

    class Game(KuhnPoker):
        def initial_state(self) -> KuhnPokerState:
            return Faulty(self)

    with pytest.raises(AssertionError, match=message):
        check_random_play(Game(), 0)


def test_an_event_is_taken_in_once_however_long_the_game(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cost of a decision does not grow with the game: no history is read twice."""
    taken = 0

    class Counting(Notebook):
        def update(self, event: Event) -> None:
            nonlocal taken
            taken += 1
            super().update(event)

    def new_notes(text: CluedoText, player: int) -> Notebook:
        return Counting(text.game, player)

    monkeypatch.setattr(CluedoText, "new_notes", new_notes)
    env = MultiAgentEnv(Cluedo(players=4))
    rng = stream(1, "long")
    _, infos = env.reset(seed=1)
    while env.agents and env.state.turn < 100:
        actions = {}
        for player, info in infos.items():
            observation = info["observation"]
            observation.text("events", since=observation.num_events)
            calm = [a for a in observation.legal_actions if not isinstance(a, Accuse)]
            actions[player] = env.game.actions.index[rng.choice(calm)]
        infos = env.step(actions)[4]
    witnessed = sum(len(seen) for seen in env.state.log.witnessed)
    assert 1000 < taken <= witnessed


# Measures


class OddAnalysis(GameAnalysis):
    """Measures something of the first seat at the end."""

    measures = (Measure("odd", "odd", "share", None, "For tests."),)

    def __init__(self, game: Game, value: Callable[[], WeightedSum], name: str = "odd") -> None:
        super().__init__(game)
        self.value, self.name = value, name

    def assessor(self, *_: object) -> Any:
        return self

    def ply(self, _: Ply) -> list[Assessment]:
        return []

    def end(self, _: Outcome) -> list[Assessment]:
        return [Assessment(0, 0, "odd", {}, {self.name: self.value()})]


def measured_as(value: Callable[[], WeightedSum], name: str = "odd") -> Game:
    game = make_game("tictactoe")
    game.__dict__["analysis"] = OddAnalysis(game, value, name)
    return game


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda: WeightedSum(random.random()), "odd change measured again"),
        (lambda: WeightedSum(math.nan), "total nan and weight 1.0 must be finite; omit a miss"),
        (lambda: WeightedSum(1.0, math.inf), "must be finite"),
        (lambda: WeightedSum(2.0), r"total 2.0 of weight 1.0 is outside of 0.0 to 1.0"),
        (lambda: WeightedSum(-0.5), "outside of 0.0 to 1.0"),
        (lambda: WeightedSum(0.0, -1.0), "weight is -1.0, below 0"),
    ],
)
def test_the_kit_finds_faulty_measures(value: Callable[[], WeightedSum], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_measures(measured_as(value), 1)
    with pytest.raises(AssertionError, match="measure even has no definition"):
        check_measures(measured_as(lambda: WeightedSum(1.0), "even"), 1)
    check_measures(measured_as(lambda: WeightedSum(1.0)), 1)
    check_measures(make_game("kuhn_poker"), 1)


def test_a_measure_may_have_a_range_of_its_own() -> None:
    wide = Measure("odd", "odd", "chips", None, "For tests.", low=-2.0)
    assert wide.fault(WeightedSum(-2.0)) is None
    assert "outside of -2.0" in str(wide.fault(WeightedSum(-2.1)))
