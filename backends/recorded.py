"""Answers taken from a replay: a finished game can be run again without its provider.

`recorded:REPLAY` answers a request with what the model said to the same request in that game. A
request that was not made there stops the run and shows where it differs.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import ValidationError

from arena.agents.model_call import Attempt, requests_of, shared, unusual
from arena.core.errors import BackendError, ContextOverflow, ReplayError, StopPlaying, UsageError
from arena.core.json import Json
from arena.core.text import shortened
from arena.episodes.record import DecisionLine
from arena.episodes.replay import Replay, read_replay
from arena.llm.backend import Choice, Completion, Message, Request, Token, Usage
from arena.llm.settings import Settings

AROUND = 60
"""Characters shown of a difference."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One request of a replay and what came back."""

    ply: int
    messages: tuple[Message, ...]
    sampling: dict[str, Json]
    attempt: Attempt


class Recorded:
    """Gives the answers of a replay to the requests of that replay, each answer once."""

    context_length: int | None = None

    def __init__(self, recordings: Iterable[Recording], model: str, setting: str = "") -> None:
        """`setting` says how the game was played, for whoever plays another one."""
        self.model = model
        self._setting = setting
        self._recordings = list(recordings)
        self._waiting: defaultdict[str, deque[Recording]] = defaultdict(deque)
        for recording in self._recordings:
            self._waiting[_key(recording.messages, recording.sampling)].append(recording)

    async def complete(self, request: Request) -> Completion:
        sampling = _drawn_how(unusual(request.sampling))
        same = self._waiting[_key(request.messages, sampling)]
        if not same:
            difference = self._difference(request.messages, sampling)
            raise StopPlaying("; ".join(filter(None, [difference, self._setting])))
        return _completion(same.popleft().attempt)

    async def close(self) -> None:
        """There is nothing to give back."""

    def _difference(self, messages: tuple[Message, ...], sampling: dict[str, Json]) -> str:
        """Where the request leaves the recorded one that it shares the longest beginning with."""
        if not self._recordings:
            return f"{self.model}: the replay holds no model's answers"
        nearest = max(self._recordings, key=lambda recording: shared(recording.messages, messages))
        number = shared(nearest.messages, messages)
        place = (
            f"{self.model}: this request was not made; the nearest was for ply {nearest.ply + 1}"
        )
        if number == len(messages) == len(nearest.messages):
            if sampling == nearest.sampling:
                return f"{place}, and its answer has been given already"
            return f"{place}, with sampling {nearest.sampling}, not {sampling}"
        then, now = (_text(found, number) for found in (nearest.messages, messages))
        start = max(0, shared(then, now) - AROUND // 2)
        shown = [repr(text[start : start + AROUND]) for text in (then, now)]
        return f"{place}; message {number + 1} had {shown[0]}, now {shown[1]}"


def recorded(rest: str, settings: Settings) -> Recorded:
    """The backend of `recorded:REPLAY`. Raises UsageError for a file that is no replay."""
    if not rest:
        raise UsageError("recorded: which game? recorded:REPLAY, the file of a finished game")
    try:
        replay = read_replay(rest)
        return Recorded(read_recordings(replay), f"recorded:{rest}", setting_of(replay))
    except ReplayError as error:
        raise UsageError(f"recorded: {error}") from error


def setting_of(replay: Replay) -> str:
    """What decides the requests of a game, beside how models were asked."""
    header = replay.header
    players = shortened(", ".join(header.players))
    return f"it was played with seed {header.seed}, text level {header.text_level}, by {players}"


def read_recordings(replay: Replay) -> list[Recording]:
    """Every request of every model in a replay. Raises ReplayError."""
    seats: defaultdict[int, list[DecisionLine]] = defaultdict(list)
    for move in replay.moves:
        if isinstance(move, DecisionLine) and move.details.get("attempts"):
            seats[move.player].append(move)
    return [recording for moves in seats.values() for recording in _of_seat(replay.path, moves)]


def _of_seat(path: Path, moves: list[DecisionLine]) -> list[Recording]:
    pairs = [
        (move, _attempt(path, move, raw)) for move in moves for raw in move.details["attempts"]
    ]
    requests = requests_of(attempt for _, attempt in pairs)
    return [
        Recording(move.ply, messages, _drawn_how(attempt.sampling), attempt)
        for (move, attempt), messages in zip(pairs, requests, strict=True)
    ]


def _attempt(path: Path, move: DecisionLine, raw: Json) -> Attempt:
    try:
        return Attempt.model_validate(raw)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))
        raise ReplayError(
            f"{path}: ply {move.ply + 1}: attempts: {place}: {fault['msg']}"
        ) from error


def _completion(attempt: Attempt) -> Completion:
    """What came back then, at no cost now. Raises BackendError if nothing did."""
    if attempt.cause == "context_length":
        raise ContextOverflow(attempt.excerpt)
    if attempt.failure == "provider_error":
        raise BackendError(attempt.excerpt, attempt.cause or "bad_response")
    tokens = tuple(Token(id, "", logprob, sampled) for id, logprob, sampled in attempt.tokens)
    choice = Choice(
        attempt.reply, attempt.finish_reason, attempt.reasoning, attempt.refusal, tokens
    )
    return Completion(
        choices=(choice,),
        model=attempt.model,
        usage=Usage(attempt.prompt_tokens, attempt.completion_tokens),
        cost=0.0,
        policy_version=attempt.policy_version,
        prompt_token_ids=attempt.prompt_token_ids,
    )


def _drawn_how(sampling: Mapping[str, Json]) -> dict[str, Json]:
    """Without the seed: nothing is drawn, and a game that was asked for beliefs has used more."""
    return {name: value for name, value in sampling.items() if name != "seed"}


def _key(messages: Iterable[Message], sampling: dict[str, Json]) -> str:
    return repr(([asdict(message) for message in messages], sorted(sampling.items())))


def _text(messages: tuple[Message, ...], number: int) -> str:
    """A message, or nothing behind the last."""
    return messages[number].content if number < len(messages) else ""
