"""Games of the starting policy beside games of the trained one: what the learner decided, and why.

Everything in a replay may be hostile; it is shown as text, and what cannot be read is named.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from arena import ArenaError, Decision, Event, Replay, read_replay
from arena.core.action import CHANCE
from replays.tui.frame import Beliefs, Moment
from trainers.runs.figures import clean

LEARNER = "policy:"
"""What the SPEC of a seat that learns begins with."""
MOST_PAIRS = 4
MOST_FILES = 40
"""Replays of a folder that are looked at."""
LONGEST = 160
"""Characters of a reply, or of a sentence of table talk."""
MOST_DECISIONS = 60


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision of the learner."""

    turn: int
    action: str
    note: str = ""
    """That the reply was no legal action, or that a fallback was played."""
    heard: list[str] = field(default_factory=list)
    """What the learner witnessed after it, in the same turn."""
    bits: float | None = None
    """Its uncertainty then, if the game can say what a perfect reasoner would know."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """One game, as the learner lived it."""

    path: Path
    link: str
    """Relative to the run's folder."""
    title: str
    result: str = ""
    decisions: Sequence[Decided] = ()
    cut: bool = False
    """Whether there are more decisions than are shown."""
    fault: str = ""
    """Why there is nothing to show, or not all."""

    @property
    def command(self) -> str:
        return clean(f"arena replay {shlex.quote(str(self.path))}")


@dataclass(frozen=True, slots=True)
class Pair:
    """The same deal, before and after; one of them may be missing."""

    title: str
    before: Transcript | None
    after: Transcript | None


NOBODY = Transcript(Path(), "", "")


@dataclass(frozen=True, slots=True)
class Found:
    """A file of a folder: a replay, or why it is none."""

    path: Path
    replay: Replay | None
    fault: str = ""

    @property
    def deal(self) -> str:
        """What two replays share if they are the same deal with the same seat to play."""
        if self.replay is None:
            return f"file {self.path.name}"
        header = self.replay.header
        return f"{header.game} {header.options} {header.seed} {learner_of(self.replay)}"


def pairs_of(run: Path) -> list[Pair]:
    """The first games of `replays/before` and `replays/after` in the run's folder, deal by deal."""
    before, after = ({f.deal: f for f in _found(run / "replays" / w)} for w in ("before", "after"))
    # Deals that both played come first: only they compare like with like.
    deals = sorted(dict.fromkeys([*before, *after]), key=lambda d: not (d in before and d in after))
    pairs = []
    for deal in deals[:MOST_PAIRS]:
        first = transcript(before[deal], run) if deal in before else None
        second = transcript(after[deal], run) if deal in after else None
        pairs.append(Pair((first or second or NOBODY).title, first, second))
    return pairs


def _found(folder: Path) -> Iterator[Found]:
    try:
        files = sorted(path for path in folder.glob("*.jsonl") if path.is_file())
    except OSError:
        return
    for path in files[:MOST_FILES]:
        try:
            yield Found(path, read_replay(path))
        except ArenaError as error:
            yield Found(path, None, str(error))


def learner_of(replay: Replay) -> int | None:
    """The first seat that learns."""
    seats = (n for n, spec in enumerate(replay.header.players) if spec.startswith(LEARNER))
    return next(seats, None)


def transcript(found: Found, run: Path) -> Transcript:
    """The learner's game; what is wrong with it is said in its `fault`."""
    path, replay = found.path, found.replay
    link = "/".join(quote(part) for part in path.relative_to(run).parts)
    if replay is None:
        return Transcript(path, link, path.name, fault=found.fault)
    title, seat = f"seed {replay.header.seed}", learner_of(replay)
    if seat is None:
        return Transcript(path, link, title, fault=f"no seat's SPEC begins with {LEARNER}")
    fault, decisions = replay.notice or "", []
    try:
        for decided in _decisions(replay, seat):
            decisions.append(decided)
    except ArenaError as error:  # What was read up to there is worth seeing.
        fault = str(error)
    return Transcript(
        path,
        link,
        f"{title}, seat {seat}",
        _result(replay, seat),
        decisions[:MOST_DECISIONS],
        len(decisions) > MOST_DECISIONS,
        fault,
    )


def _result(replay: Replay, seat: int) -> str:
    outcome = replay.outcome
    if outcome is None:
        return "unfinished"
    who = {seat: "won", None: "nobody won"}.get(outcome.winner, f"lost to seat {outcome.winner}")
    return f"{who} after {outcome.turns} turns: {outcome.reason}"


def _decisions(replay: Replay, seat: int) -> Iterator[Decided]:
    """A decision with what the learner heard until it acted again, or the turn was over.

    A move that was forced is left out: nobody asked the model for it.
    """
    game = replay.make_game()
    beliefs, log = Beliefs(game), list[Event]()
    current: Decided | None = None
    forced = False
    for walked in replay.walk():
        ply, turn = walked.ply, walked.turn_before
        decides = ply.player == seat and not forced
        bits = beliefs.bits(seat, Moment(game, turn, (), log, len(log))) if decides else None
        log.extend(ply.events)
        heard = [_shortened(game.narrate(event)) for event in ply.events if event.seen_by(seat)]
        if decides:
            if current:
                yield current
            action = _shortened(str(ply.decision.action))
            current = Decided(turn, action, _note(ply.decision), heard, bits)
        elif current and ply.player != CHANCE and turn == current.turn:
            current.heard.extend(heard)
        forced = len(walked.state.legal_actions(seat)) == 1
    if current:
        yield current


def _note(decision: Decision) -> str:
    """What went wrong with the reply, if anything did."""
    if decision.failure:
        return f"a fallback was played: {_shortened(decision.failure)}"
    attempts = decision.details.get("attempts")
    replies = attempts if isinstance(attempts, list) else []
    wrong = [each for each in replies if isinstance(each, dict) and each.get("failure")]
    if not wrong:
        return ""
    return f"first answered “{_shortened(str(wrong[0].get('reply', '')))}”, which was not legal"


def _shortened(text: str) -> str:
    text = " ".join(clean(text).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
