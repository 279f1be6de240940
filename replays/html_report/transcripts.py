"""Games of the starting policy beside games of the trained one: the learner's decisions.

The content of a replay is not trusted. It is shown as text, and a file that cannot be read is
named with the reason.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from arena import ArenaError, Decision, Replay, read_replay
from arena.core.action import CHANCE
from arena.core.text import pluralize, printable

LEARNER_PREFIX = "policy:"
"""Prefix of the SPEC of a seat that learns."""
MAX_PAIRS = 4
MAX_FILES = 40
"""Replays of a folder that are read."""
MAX_CHARACTERS = 160
"""Length of a reply, or of the text of an event."""
MAX_DECISIONS = 60


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """One decision of the learner."""

    turn: int
    action: str
    note: str = ""
    """Note on an illegal reply or a fallback."""
    heard: list[str] = field(default_factory=list)
    """Events that the learner observed afterwards, in the same turn."""
    bits: float | None = None
    """Entropy of the exact posterior of its seat before the decision, if the game has one."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """One game from the learner's seat."""

    path: Path
    link: str
    """Relative to the run's folder."""
    title: str
    result: str = ""
    decisions: Sequence[TranscriptLine] = ()
    truncated: bool = False
    """True if the replay has more decisions."""
    fault: str = ""
    """Reason why the game cannot be shown completely."""

    @property
    def command(self) -> str:
        """The command that opens the replay."""
        return printable(f"arena replay {shlex.quote(str(self.path))}")


@dataclass(frozen=True, slots=True)
class TranscriptPair:
    """The same deal before and after training. One of the two may be missing."""

    title: str
    before: Transcript | None
    after: Transcript | None


ReplayFile = tuple[Path, Replay | ArenaError]
"""A file with its replay, or with the reason why it cannot be read."""


def transcript_pairs(run: Path) -> list[TranscriptPair]:
    """Pair the first games of `replays/before` and `replays/after` in the run's folder by deal."""
    before, after = (
        {_deal(file): file for file in _replay_files(run / "replays" / when)}
        for when in ("before", "after")
    )
    # Deals that both policies played come first: only these are a comparison.
    deals = sorted(before | after, key=lambda deal: not (deal in before and deal in after))
    pairs = []
    for deal in deals[:MAX_PAIRS]:
        first, second = (
            transcript(*files[deal], run) if deal in files else None for files in (before, after)
        )
        shown = first or second
        pairs.append(TranscriptPair(shown.title if shown else "", first, second))
    return pairs


def _replay_files(folder: Path) -> Iterator[ReplayFile]:
    try:
        paths = sorted(path for path in folder.glob("*.jsonl") if path.is_file())
    except OSError:
        return
    for path in paths[:MAX_FILES]:
        try:
            yield path, read_replay(path)
        except ArenaError as error:
            yield path, error


def _deal(file: ReplayFile) -> str:
    """Return a key that replays of the same deal and the same learning seat share."""
    path, replay = file
    if isinstance(replay, ArenaError):
        return f"file {path.name}"
    header = replay.header
    return f"{header.game} {header.options} {header.seed} {learner_of(replay)}"


def learner_of(replay: Replay) -> int | None:
    """Return the first seat that learns."""
    specs = enumerate(replay.header.players)
    return next((seat for seat, spec in specs if spec.startswith(LEARNER_PREFIX)), None)


def transcript(path: Path, replay: Replay | ArenaError, run: Path) -> Transcript:
    """Return the learner's game. Problems of the file are reported in `fault`."""
    link = "/".join(quote(part) for part in path.relative_to(run).parts)
    if isinstance(replay, ArenaError):
        return Transcript(path, link, path.name, fault=str(replay))
    title, seat = f"seed {replay.header.seed}", learner_of(replay)
    if seat is None:
        return Transcript(path, link, title, fault=f"no SPEC starts with {LEARNER_PREFIX}")
    fault, decisions = replay.notice or "", list[TranscriptLine]()
    try:
        for decision in _decisions(replay, seat):
            decisions.append(decision)
    except ArenaError as error:  # The decisions before the error are kept.
        fault = str(error)
    return Transcript(
        path,
        link,
        f"{title}, seat {seat}",
        _result(replay, seat),
        decisions[:MAX_DECISIONS],
        len(decisions) > MAX_DECISIONS,
        fault,
    )


def _result(replay: Replay, seat: int) -> str:
    outcome = replay.outcome
    if outcome is None:
        return "unfinished"
    winners = list(filter(outcome.outcome.is_winner, range(len(outcome.returns))))
    if seat in winners:
        result = "won"
    elif winners:
        result = f"lost to seat{'s' * (len(winners) > 1)} {', '.join(map(str, winners))}"
    else:
        result = "no winner"
    return f"{result} after {pluralize(outcome.turns, 'turn')}: {outcome.reason}"


def _decisions(replay: Replay, seat: int) -> Iterator[TranscriptLine]:
    """Yield each decision with the events until the next decision or the end of the turn.

    Forced moves are left out, because the model does not make them.
    """
    game = replay.make_game()
    knowledge = game.analysis.knowledge(seat)
    current: TranscriptLine | None = None
    forced = False
    observed_any = False
    for position in replay.walk():
        ply, turn = position.ply, position.turn_before
        decides = ply.player == seat and not forced
        # Before the update: the entropy at the time of the decision.
        bits = knowledge.entropy() if decides and knowledge and observed_any else None
        observed = [event for event in ply.events if event.seen_by(seat)]
        observed_any = observed_any or bool(ply.events)
        if knowledge:
            for event in observed:
                knowledge.update(event)
        heard = [_shortened(game.text.narrate(event)) for event in observed]
        if decides:
            if current:
                yield current
            action = _shortened(str(ply.decision.action))
            current = TranscriptLine(turn, action, _note(ply.decision), heard, bits)
        elif current and ply.player != CHANCE and turn == current.turn:
            current.heard.extend(heard)
        # The position after this ply is the one before the seat's next decision.
        forced = position.state.legal_actions(seat).is_forced
    if current:
        yield current


def _note(decision: Decision) -> str:
    """Return a note if the first reply was not a legal action."""
    if decision.failure:
        return f"fallback: {_shortened(decision.failure)}"
    attempts = decision.details.get("attempts")
    for attempt in attempts if isinstance(attempts, list) else ():
        if isinstance(attempt, dict) and attempt.get("failure"):
            return f"first reply “{_shortened(str(attempt.get('reply', '')))}”: not a legal action"
    return ""


def _shortened(text: str) -> str:
    text = " ".join(printable(text).split())
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
