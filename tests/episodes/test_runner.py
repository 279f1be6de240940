"""Playing: faults stay with the player who makes them, seeds decide everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arena.agents.agent import Agent, RandomBot, Seat, act_now
from arena.agents.seating import make_agent
from arena.core.errors import ArenaError
from arena.core.event import Decision
from arena.core.game import Game
from arena.core.observation import Observation
from arena.core.spec import stream
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Match, play
from arena.episodes.record import Episode
from arena.episodes.replay import read_replay, verify
from arena.plugins.catalog import make_game
from arena.testing.conformance import without_times
from games.cluedo.game import Cluedo
from games.cluedo.rules.setting import Accuse, CardShown, Refuted, Suggested, Unable
from games.tictactoe.game import Mark, TicTacToe


def play_now(
    game: Game, agents: list[Agent], seed: int = 0, max_turns: int | None = None, **more: Any
) -> Episode:
    return asyncio.run(play(Match(game, (), seed, max_turns=max_turns), agents, **more))


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text either")


class Faulty:
    """Raises what it is given, if that is an exception, or answers with it."""

    def __init__(self, answer: Any = RuntimeError("the model has gone")) -> None:  # noqa: B008
        self.answer = answer

    async def act(self, observation: Observation) -> Decision:
        if isinstance(self.answer, BaseException):
            raise self.answer
        if callable(self.answer):
            return self.answer(observation)  # type: ignore[no-any-return]
        return self.answer  # type: ignore[no-any-return]


def with_details(details: Any, failure: Any = None) -> Callable[[Observation], Decision]:
    return lambda seen: Decision(seen.legal_actions[0], failure, details)


class CancelsItself:
    """Cancels the task that it runs in, and then waits, or does not."""

    def __init__(self, waits: bool) -> None:
        self.waits = waits

    async def act(self, observation: Observation) -> Decision:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if self.waits:
            await asyncio.sleep(0)
        return Decision(observation.legal_actions[0])


@pytest.mark.parametrize("waits", [True, False])
def test_an_agent_that_cancels_itself_harms_nobody_else(waits: bool) -> None:
    game = Cluedo(players=3)
    agents = Match(game, ["bot:detective"] * 3, 1).seat()
    agents[2] = CancelsItself(waits)
    episode = play_now(game, agents, 1)
    assert episode.outcome.status == "terminated"
    assert {failure.player for failure in episode.failures} == {2}


def test_a_game_that_is_cancelled_ends_at_once() -> None:
    async def give_up() -> None:
        game = TicTacToe()

        class Forever:
            async def act(self, observation: Observation) -> Decision:
                await asyncio.sleep(3600)
                raise AssertionError

        task = asyncio.ensure_future(play(Match(game, (), 0), [Forever(), Forever()]))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(give_up(), 60))


@pytest.mark.parametrize("text", ["\ud800", "a\x1b[2Jb", "zwölf"])
def test_whatever_an_agent_writes_can_be_read_back(text: str, tmp_path: Path) -> None:
    game = TicTacToe()
    for answer in (RuntimeError(text), with_details({"reply": text}), with_details({}, text)):
        writer = ReplayWriter(tmp_path, "game")
        agents: list[Agent] = [Faulty(answer), Faulty(answer)]
        play_now(game, agents, watchers=[writer])
        assert verify(read_replay(writer.path)) is None
        assert "\x1b" not in writer.path.read_text(encoding="utf-8")


def test_details_are_kept_as_they_were_when_decided() -> None:
    details: dict[str, Any] = {"tokens": [1]}
    game = TicTacToe()
    agents: list[Agent] = [Faulty(with_details(details)), Faulty(with_details(details))]
    episode = play_now(game, agents)
    details["tokens"].append(object())
    assert episode.plies[0].decision.details == {"tokens": [1]}


class Stop(BaseException):
    """Not an Exception, so that `except Exception` lets it through."""


FAULTS = [
    RuntimeError("the model has gone"),
    TimeoutError("the model is slow"),
    SystemExit(3),
    Stop("a stop"),
    GeneratorExit(),
    asyncio.CancelledError(),
    Unprintable(),
    None,
    "suggest",
    Decision(Mark(9, 9)),
    Decision([1]),  # type: ignore[arg-type]
    with_details({"a": {1}}),
    with_details({"a": float("nan")}),
    with_details({}, failure=3),
    with_details(None),
]


class Waiting:
    async def act(self, observation: Observation) -> Decision:
        await asyncio.sleep(0)
        return Decision(observation.legal_actions[0])


@pytest.mark.parametrize("answer", FAULTS, ids=lambda fault: repr(fault)[:30])
def test_a_faulty_player_harms_nobody_else(answer: Any, tmp_path: Path) -> None:
    game = Cluedo(players=4)
    for seed in range(3):
        agents = Match(game, ["bot:detective"] * 4, seed).seat()
        agents[1] = Faulty(answer)
        writer = ReplayWriter(tmp_path, "game")
        episode = play_now(game, agents, seed, watchers=[writer])
        assert episode.outcome.status == "terminated"
        assert episode.failures and {failure.player for failure in episode.failures} == {1}
        if isinstance(answer, BaseException) and answer.args:
            assert str(answer) in episode.failures[0].text
        assert verify(read_replay(writer.path)) is None


@pytest.mark.parametrize("variant", ["cards", "classic"])
def test_a_fault_never_accuses(variant: str) -> None:
    """A fault of the line must not put a player out."""
    game = Cluedo(players=3, variant=variant)
    for seed in range(10):
        agents: list[Agent] = [Faulty(), *Match(game, ["bot:novice"] * 3, seed).seat()[1:]]
        episode = play_now(game, agents, seed, max_turns=60)
        for ply in episode.plies:
            assert not (ply.player == 0 and isinstance(ply.decision.action, Accuse))


def test_fallbacks_do_not_depend_on_who_answers_first() -> None:
    class Slow:
        def __init__(self, seconds: float) -> None:
            self.seconds = seconds

        async def act(self, observation: Observation) -> Decision:
            await asyncio.sleep(self.seconds)
            raise RuntimeError

    game = make_game("goofspiel", cards=4)
    first, second = (
        [str(ply.decision.action) for ply in play_now(game, [Slow(a), Slow(b)]).plies]
        for a, b in ((0.0, 0.01), (0.01, 0.0))
    )
    assert first == second


def test_a_fault_while_refuting_is_never_cannot_refute() -> None:
    """Whoever holds a named card shows one, whatever its agent does."""
    game = Cluedo(players=4)
    for seed in range(10):
        agents: list[Agent] = [Faulty() for _ in range(4)]
        agents[0] = Match(game, ["bot:novice"] * 4, seed).seat()[0]
        episode = play_now(game, agents, seed)
        hands = [set(hand) for hand in episode.plies[0].decision.action.hands]  # type: ignore[attr-defined]
        named: set[str] = set()
        for ply in episode.plies:
            for event in ply.events:
                if isinstance(event, Suggested):
                    named = set(event.triple)
                if isinstance(event, Unable):
                    assert not any(named & hands[player] for player in event.players)
                if isinstance(event, Refuted):
                    assert named & hands[event.player]
                if isinstance(event, CardShown):
                    assert event.card in named & hands[event.player]


def test_forced_moves_are_not_asked_for() -> None:
    asked: list[Observation] = []

    class Recording(RandomBot):
        async def act(self, observation: Observation) -> Decision:
            asked.append(observation)
            return await super().act(observation)

    game = TicTacToe()
    agents: list[Agent] = [Recording(Seat(game, p, stream(1, f"agent {p}"))) for p in range(2)]
    play_now(game, agents)
    assert all(len(observation.legal_actions) > 1 for observation in asked)


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    game = make_game("cluedo", variant="classic", players=6)
    paths = []
    for _ in range(2):
        writer = ReplayWriter(tmp_path, "game")
        agents = Match(game, ["bot:oracle", *["bot:detective"] * 5], 7).seat()
        asyncio.run(play(Match(game, (), 7), agents, watchers=[writer]))
        paths.append(writer.path)
    assert without_times(paths[0]) == without_times(paths[1])


def test_bots_act_without_an_event_loop() -> None:
    game = TicTacToe()
    state = game.initial_state()
    bot = make_agent("bot:random", Seat(game, 0, stream(0, "x")))
    assert act_now(bot, state.observe(0)).action in state.legal_actions(0)
    with pytest.raises(ArenaError, match="Waiting waits for something"):
        act_now(Waiting(), state.observe(0))
