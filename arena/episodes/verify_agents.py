"""Verification of the agents of a replay: bots decide again, and the chats of models are rebuilt.

`replay.verify` checks the rules. Here the game is played again: each bot makes its moves from the
seed, and each model's seat is played by the same `ChatAgent`, which gets the recorded replies. So
prompts, sampling, the number of attempts, the reading of each reply and fallback moves must come
out as recorded. Free are the replies themselves and what a provider states about them.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from pydantic import JsonValue, TypeAdapter, ValidationError

from arena.agents.agent import Agent
from arena.agents.chat import Attempt
from arena.agents.chat_agent import ChatAgent
from arena.agents.seating import make_agent
from arena.core.errors import ArenaError, StopPlaying
from arena.core.event import Decision, Ply
from arena.core.observation import Observation
from arena.core.outcome import Outcome
from arena.core.spec import Spec
from arena.core.state import State
from arena.core.text import first_fault, shorten
from arena.episodes.branch import models_of
from arena.episodes.match import Match, play
from arena.episodes.record import DecisionLine, Header, Position
from arena.episodes.replay import Replay
from arena.llm.backend import BackendTraits, Completion, Request, Sampling
from arena.llm.tokens import common_prefix_length
from arena.plugins.loader import catalog

UNPROVEN = (
    "Not proven: who gave the recorded decisions and replies, their tokens, cost and times, and "
    "settings that no move depends on."
)
EXCERPT = 60
"""Characters of a text that a fault shows."""


async def verify_agents(replay: Replay) -> str | None:
    """Play a replay again with its agents; return the first difference in words, or None.

    People and agents of other programs repeat their recorded decisions. Raises ArenaError for a
    replay that the rules do not allow: check it with `replay.verify` first.
    """
    game, header = replay.make_game(), replay.header
    branch = header.branches[-1] if header.branches else None
    comparison = _Comparison(replay)
    match = Match(
        game,
        header.players,
        branch.seed if branch else header.seed,
        header.text_level,
        models_of(replay),
        header.max_turns,
        header.agents_seed,
        memories=header.memories,
    )
    start = None
    if branch:
        parent = header.model_copy(update={"branches": header.branches[:-1]})
        plies = tuple(walked.ply for walked in replay.walk() if walked.ply.number < branch.ply)
        start = Position(branch.parent, branch.parent_sha256, parent, plies)
    try:
        agents = [_agent(comparison, match, seat) for seat in range(game.num_players)]
        await play(match, agents, watchers=[comparison], start=start)
    except _EndOfReplay as end:
        return end.fault
    except StopPlaying:
        # A run with `fallback=stop` ends within a game.
        return "its players stop before its end" if replay.outcome else None
    return None


def _agent(comparison: _Comparison, match: Match, player: int) -> Agent:
    spec = match.specs[player]
    prefix = Spec.parse(spec).prefix
    if prefix == "bot":
        return make_agent(spec, match.seat_of(player))
    if prefix in catalog().names("backend"):
        return ChatAgent(spec, match.seat_of(player, _RecordedModel(comparison, player)))
    return _RecordedAgent(comparison, player)


class _EndOfReplay(StopPlaying):
    """Ends the game, with or without a fault; errors of other kinds would be fallback moves."""

    def __init__(self, fault: str | None = None) -> None:
        super().__init__(fault or "")
        self.fault = fault


class _Comparison:
    """Watcher that compares each ply with the recorded one, and ends the game at a difference."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self._state: State | None = None
        self._played = 0

    def recorded(self, player: int) -> Iterator[DecisionLine]:
        """Yield the decisions of a player from here on; the first is the one it makes now."""
        for move in self.replay.moves[self._played :]:
            if isinstance(move, DecisionLine) and move.player == player:
                yield move

    def move(self, player: int) -> DecisionLine:
        """Return the decision that a player makes now, or end an unfinished replay."""
        for move in self.recorded(player):
            return move
        raise _EndOfReplay

    def decision(self, player: int) -> Decision:
        move = self.move(player)
        assert self._state is not None
        return Decision(self._state.parse(move.action), move.failure, move.details)

    def begin(self, header: Header, state: State) -> None:
        self._state = state

    def ply(self, ply: Ply, state: State) -> None:
        moves = self.replay.moves
        move = moves[ply.number] if ply.number < len(moves) else None
        if isinstance(move, DecisionLine):
            spec = self.replay.header.players[move.player]
            if fault := _decision_fault(move, ply):
                raise _EndOfReplay(f"ply {ply.number + 1}: {spec} in seat {move.player} {fault}")
        self._played = ply.number + 1
        if self._played >= len(moves) and self.replay.outcome is None:
            raise _EndOfReplay

    def end(self, outcome: Outcome) -> None:
        if self._played != len(self.replay.moves):
            raise _EndOfReplay("the replay and the game of its players have different lengths")

    def close(self) -> None:
        """Do nothing: there are no resources."""


def _decision_fault(move: DecisionLine, ply: Ply) -> str | None:
    """Return the difference between a recorded decision and the one that is made again."""
    decision, action = ply.decision, str(ply.decision.action)
    if (move.player, move.action) != (ply.player, action):
        return (
            f"plays '{shorten(action, EXCERPT)}' in this version of arena, not "
            f"'{shorten(move.action, EXCERPT)}'"
        )
    if (move.failure is None) != (decision.failure is None):
        return "differs in whether this move was a fallback"
    # An agent that failed has left no details, and the text of its error may differ elsewhere.
    if move.failure is not None and not move.details and not decision.details:
        return None
    if move.failure != decision.failure:
        return (
            f"failed by '{shorten(decision.failure or '', EXCERPT)}', not by "
            f"'{shorten(move.failure or '', EXCERPT)}'"
        )
    difference = json_difference(dict(move.details), dict(decision.details))
    return f"has other details: {difference.text}" if difference else None


@dataclass(frozen=True, slots=True)
class JsonDifference:
    """The first difference between two JSON values."""

    place: str
    """Names and numbers with dots between them; "" for the whole."""
    found: str
    expected: str

    @property
    def text(self) -> str:
        """The place and excerpts of both values, from shortly before they differ."""
        start = max(0, common_prefix_length(self.found, self.expected) - EXCERPT // 2)
        one, other = (
            shorten(text[start : start + EXCERPT]) for text in (self.found, self.expected)
        )
        return f"{self.place or 'the whole'} is '{one}', expected '{other}'"


def json_difference(
    found: JsonValue, expected: JsonValue, tolerance: float = 0.0, place: str = ""
) -> JsonDifference | None:
    """Return the first difference; floats may differ by `tolerance`, absolute or relative."""
    pairs: Iterable[tuple[object, JsonValue, JsonValue]] = ()
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        pairs = ((key, found[key], expected[key]) for key in found)
    elif isinstance(found, list) and isinstance(expected, list):
        if len(found) != len(expected):
            lengths = (f"{len(each)} entries" for each in (found, expected))
            return JsonDifference(place, *lengths)
        pairs = ((n, *pair) for n, pair in enumerate(zip(found, expected, strict=True)))
    elif _are_close(found, expected, tolerance):
        return None
    elif found != expected or type(found) is not type(expected):
        texts = (
            each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)
            for each in (found, expected)
        )
        return JsonDifference(place, *texts)
    differences = (
        json_difference(a, b, tolerance, f"{place}.{key}".lstrip(".")) for key, a, b in pairs
    )
    return next(filter(None, differences), None)


def _are_close(one: JsonValue, other: JsonValue, tolerance: float) -> bool:
    """Compare two numbers of which one is a float; anything else is not close."""
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return False
    is_float = isinstance(one, float) or isinstance(other, float)
    return is_float and math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)


class _RecordedAgent:
    """Agent that repeats the recorded decisions of a seat."""

    def __init__(self, comparison: _Comparison, player: int) -> None:
        self._comparison = comparison
        self._player = player

    async def act(self, observation: Observation) -> Decision:
        return self._comparison.decision(self._player)


class _RecordedModel:
    """Model service of one seat, which answers with the recorded replies in their order."""

    def __init__(self, comparison: _Comparison, player: int) -> None:
        self._comparison = comparison
        self._player = player
        self._ply = -1
        self._answers: deque[Callable[[], Completion]] = deque()

    def traits(self, spec: str) -> BackendTraits:
        """Return traits that allow the recorded limit of a reply, which the model decides."""
        for move in self._comparison.recorded(self._player):
            for attempt in _attempts(move):
                limit = attempt.sampling.get("max_tokens", Sampling().max_tokens)
                longest = limit if isinstance(limit, int) else None
                return BackendTraits(always_thinks=True, max_reply_tokens=longest)
        return BackendTraits()

    async def complete(self, spec: str, request: Request) -> Completion:
        """Return the next recorded reply. Raises the recorded error, or ArenaError without one."""
        move = self._comparison.move(self._player)
        if move.ply != self._ply:
            self._ply = move.ply
            self._answers = deque(_answers(move))
        if not self._answers:
            raise ArenaError("the replay has no reply to this request")
        return self._answers.popleft()()

    def game(self, specs: Iterable[str]) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def count_decision(self, spec: str, failure: str | None) -> None:
        """Do nothing: the run is over."""

    def hint(self, topic: str, line: str) -> None:
        """Do nothing: the user has read it in the run."""


def _attempts(move: DecisionLine) -> list[Attempt]:
    raw = move.details.get("attempts")
    try:
        return _ATTEMPTS.validate_python(raw or [])
    except ValidationError as error:
        raise _EndOfReplay(f"ply {move.ply + 1}: attempts: {first_fault(error)}") from None


_ATTEMPTS = TypeAdapter(list[Attempt])


def _answers(move: DecisionLine) -> Iterator[Callable[[], Completion]]:
    """Yield the answers of a decision in the order of its requests: beliefs, then attempts."""
    beliefs = move.details.get("beliefs")
    if isinstance(beliefs, dict):
        own = {name: value for name, value in beliefs.items() if name in Attempt.model_fields}
        yield Attempt.model_validate({"messages": (), **own}).completion
    yield from (attempt.completion for attempt in _attempts(move))
