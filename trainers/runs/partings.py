"""Games of the final evaluation before and after training, at the decision where they part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from arena.agents.display import ending
from arena.agents.names import PlayerNames
from arena.core.action import CHANCE
from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.episodes.replay import Replay, Walked, read_replay
from arena.evaluation.document import Grid
from trainers.runs.records import RunFiles

BEFORE, AFTER = "before", "after"
"""Folders of replays: of the starting policy, and of the newest checkpoint on the same deals."""
SHOWN = 2
"""Games that are shown: the first ones that part, so that nobody chooses them."""
_SEATS = PlayerNames(())
"""Names of seats for people, who count them from 1."""


def partings(files: RunFiles) -> Iterator[Grid]:
    """Yield a table for each of the first games in which the trained model decides otherwise."""
    paths = sorted((files.replays / BEFORE).glob("*.jsonl"))
    grids = (_parting(path, files.replays / AFTER / path.name) for path in paths)
    yield from islice(filter(None, grids), SHOWN)


def _parting(before: Path, after: Path) -> Grid | None:
    """Return both decisions where two games of one deal part; None if they do not."""
    try:
        replays = read_replay(before), read_replay(after)
        game, pairs = replays[0].make_game(), zip(*(each.walk() for each in replays), strict=False)
        for first, second in pairs:
            if str(first.ply.decision.action) != str(second.ply.decision.action):
                break
        else:
            return None
        if CHANCE in (first.ply.player, second.ply.player):
            return None
        courses = [_course(game, *each) for each in zip(replays, (first, second), strict=True)]
    except (ArenaError, OSError):
        return None  # A replay was deleted, or its game is no longer installed.
    seat = _SEATS.of(first.ply.player)
    title = f"Deal {replays[0].header.seed}, {seat} in turn {first.turn_before}"
    names = ("decision", "judged exactly", "end of the game", "replay")
    rows = [(name, *texts) for name, *texts in zip(names, *courses, strict=True) if any(texts)]
    return Grid(title, ["", "before training", "after training"], rows)


def _course(game: Game, replay: Replay, parted: Walked) -> Sequence[str]:
    """Return a decision, its judgement by exact knowledge, how the game ended, and its replay."""
    ply, outcome = parted.ply, replay.outcome
    texts = (
        str(ply.decision.action),
        _judgement(game, replay, ply.number, ply.player),
        ending(game, outcome.outcome) if outcome else "",
    )
    return (
        *map(_SEATS.text, texts),
        f"{replay.path.parent.name}/{replay.path.name}, position {ply.number}",
    )


def _judgement(game: Game, replay: Replay, number: int, player: int) -> str:
    """Return what the game's exact knowledge says of one decision; empty if it says nothing."""
    assessor = game.analysis.assessor((player,))
    if assessor is None:
        return ""
    for walked in replay.walk():
        assessments = [each for each in assessor.ply(walked.ply) if each.ply == number]
        comments = filter(None, map(game.analysis.comment, assessments))
        # The judgement of a turn may come some plies later.
        if texts := [comment.text for comment in comments]:
            return " ".join(texts)
    return ""
