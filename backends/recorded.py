"""Answers from a replay: a finished game can be played again without its provider.

`recorded:REPLAY` answers each request with the model's reply to the same request in that game. A
request that the replay does not contain stops the run, and the error shows the difference.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from arena.agents.chat import Attempt, non_default_fields, requests_of
from arena.core.errors import ReplayError, StopPlaying, UsageError
from arena.core.text import shorten
from arena.episodes.record import DecisionLine
from arena.episodes.replay import Replay, read_replay
from arena.llm.backend import Completion, Message, Request
from arena.llm.settings import Settings
from arena.llm.tokens import common_prefix_length

RequestKey = tuple[tuple[Message, ...], str]
"""Messages and sampling of a request."""
EXCERPT_LENGTH = 60
"""Characters of a message that an error shows around a difference."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request of a replay and its answer."""

    ply: int
    messages: tuple[Message, ...]
    sampling: dict[str, JsonValue]
    attempt: Attempt


class RecordedBackend:
    """Answers the requests of a replay with its replies, each reply once.

    `model` and `setup`, a description of the recorded game, are for errors.
    """

    context_length: int | None = None

    def __init__(self, recordings: Iterable[RecordedRequest], model: str, setup: str = "") -> None:
        self.model = model
        self._setup = setup
        self._recordings = list(recordings)
        # A queue per request: equal requests of a game may have had different replies.
        self._unused: defaultdict[RequestKey, deque[RecordedRequest]] = defaultdict(deque)
        for recording in self._recordings:
            self._unused[_request_key(recording.messages, recording.sampling)].append(recording)

    async def complete(self, request: Request) -> Completion:
        sampling = _deciding(non_default_fields(request.sampling))
        # Equal requests have the answers of the recorded game in its order.
        matches = self._unused[_request_key(request.messages, sampling)]
        if not matches:
            difference = self._describe_difference(request.messages, sampling)
            raise StopPlaying("; ".join(filter(None, [difference, self._setup])))
        # Without cost: nothing is paid for again.
        return replace(matches.popleft().attempt.completion(), cost=0.0)

    async def close(self) -> None:
        """Do nothing: there are no resources."""

    def _describe_difference(
        self, messages: tuple[Message, ...], sampling: dict[str, JsonValue]
    ) -> str:
        """Compare a request with the recorded one that has the longest common beginning."""
        if not self._recordings:
            return f"{self.model}: the replay has no answers of models"
        nearest = max(
            self._recordings,
            key=lambda recording: common_prefix_length(recording.messages, messages),
        )
        number = common_prefix_length(nearest.messages, messages)  # The first message that differs.
        place = (
            f"{self.model}: the replay does not contain this request; the nearest one was for ply "
            f"{nearest.ply + 1}"
        )
        if number == len(messages) == len(nearest.messages):
            if sampling == nearest.sampling:
                return f"{place}, and its answer has already been used"
            return f"{place}, with sampling {nearest.sampling}, not {sampling}"
        old = nearest.messages[number].content if number < len(nearest.messages) else ""
        new = messages[number].content if number < len(messages) else ""
        # The excerpt starts half its length before the first character that differs.
        start = max(0, common_prefix_length(old, new) - EXCERPT_LENGTH // 2)
        excerpts = [text[start : start + EXCERPT_LENGTH] for text in (old, new)]
        return f"{place}; message {number + 1} had {excerpts[0]!r}, now {excerpts[1]!r}"


def recorded(rest: str, settings: Settings) -> RecordedBackend:
    """Return the backend of `recorded:REPLAY`. Raises UsageError for an unreadable replay."""
    if not rest:
        raise UsageError("recorded: name the replay of a finished game, recorded:REPLAY")
    try:
        replay = read_replay(rest)
        recordings = read_recordings(replay)
    except ReplayError as error:
        raise UsageError(f"recorded: {error}") from error
    header = replay.header
    players = shorten(", ".join(header.players))
    # The parts of the set-up that decide the requests.
    setup = (
        f"it was played with seed {header.seed}, text level {header.text_level}, by {players}; "
        "give the flags of that game"
    )
    return RecordedBackend(recordings, f"recorded:{rest}", setup)


def read_recordings(replay: Replay) -> list[RecordedRequest]:
    """Return every request to a model in a replay. Raises ReplayError."""
    seats: defaultdict[int, list[tuple[int, Attempt]]] = defaultdict(list)
    for move in replay.moves:
        if isinstance(move, DecisionLine) and move.details.get("attempts"):
            attempts = _parse_attempts(replay.path, move)
            seats[move.player] += [(move.ply, attempt) for attempt in attempts]
    # The replay stores only the new messages of each request; `requests_of` restores the chats.
    return [
        RecordedRequest(ply, messages, _deciding(attempt.sampling), attempt)
        for moves in seats.values()
        for (ply, attempt), messages in zip(
            moves, requests_of(attempt for _, attempt in moves), strict=True
        )
    ]


def _parse_attempts(path: Path, move: DecisionLine) -> list[Attempt]:
    try:
        return _ATTEMPTS.validate_python(move.details["attempts"])
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, ("attempts", *fault["loc"])))
        raise ReplayError(f"{path}: ply {move.ply + 1}: {place}: {fault['msg']}") from error


_ATTEMPTS = TypeAdapter(list[Attempt])


def _deciding(sampling: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the sampling without what may differ although the reply is the same.

    Belief questions shift the seeds of a game, and the limit of a reply depends on whether the
    model thinks.
    """
    return {name: value for name, value in sampling.items() if name not in {"seed", "max_tokens"}}


def _request_key(messages: Iterable[Message], sampling: dict[str, JsonValue]) -> RequestKey:
    # Messages compare without the turns of their provider, which a replay does not hold.
    return tuple(messages), repr(sorted(sampling.items()))
