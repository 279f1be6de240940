"""The game as it went, for one perspective."""

from __future__ import annotations

from collections.abc import Sequence

from arena import CHANCE, Decision, Event, Game, Json, PlacedKnowledge, Scene, catalog
from replays.analysis.documents import (
    BranchJson,
    EventJson,
    GameJson,
    OutcomeJson,
    PlyJson,
    StoryJson,
)
from replays.analysis.numbers import finite
from replays.analysis.redaction import seeds_in, without_seeds
from replays.analysis.timeline import Course, Played

LONGEST_DRAWN = 500
"""Events. A diagram is drawn from all events so far each time, so that the work grows with the
square of their number: a longer game has none. A scene takes its events in one by one."""


def story(course: Course, scenes: Sequence[Json], seat: int | None, first: int) -> StoryJson:
    """`scenes` are those of all positions; plies before `first` are left out."""
    first = max(0, min(first, course.last))
    return {
        "game": describe_game(course, seat),
        "seat": seat,
        "first": first,
        "plies": [_ply(course, played, seat) for played in course.plies[first:]],
        "scenes": _scenes_from(scenes, first),
        "outcome": _outcome(course),
        "notice": course.replay.notice,
    }


def describe_game(course: Course, seat: int | None) -> GameJson:
    """What is known before the game begins."""
    header, game = course.replay.header, course.game
    knowledge = game.knowledge(0)
    parts = [game.name, header.options.get("variant"), f"{len(header.players)} players"]
    found: GameJson = {
        "name": game.name,
        "title": " · ".join(str(part) for part in parts if part),
        "seats": list(game.seat_names),
        "specs": list(header.players),
        "options": game.options.model_dump(mode="json"),
        "text_level": header.text_level,
        "created": header.created.isoformat(),
        "branches": _branches(course, seat),
        "scene": game.name if _has_scene(game) else None,
        "knowledge": knowledge is not None,
        "placed": isinstance(knowledge, PlacedKnowledge),
    }
    if seat is None:
        found["seed"] = header.seed
    return found


def _branches(course: Course, seat: int | None) -> list[BranchJson]:
    """Where the game left others. A parent has the same hidden cards, and the seed in its name."""
    found: list[BranchJson] = []
    for branch in course.replay.header.branches:
        players = list(branch.players)
        if seat is None:
            left: BranchJson = {"parent": branch.parent, "ply": branch.ply, "players": players}
            found.append({**left, "seed": branch.seed})
        else:
            found.append({"parent": "", "ply": branch.ply, "players": players})
    return found


def _outcome(course: Course) -> OutcomeJson | None:
    line = course.replay.outcome
    if line is None:
        return None
    return {
        "status": line.status,
        "reason": line.reason,
        "returns": [finite(value) for value in line.returns],
        "winner": line.winner,
        "turns": line.turns,
    }


def _ply(course: Course, played: Played, seat: int | None) -> PlyJson:
    ply = played.ply
    events = course.witnessed(ply.number, seat)
    own = seat is None or seat == ply.player
    decision = ply.decision
    return {
        "ply": ply.number,
        "turn": played.turn,
        "player": ply.player if own else _named(played, events),
        "action": str(decision.action) if own else None,
        "events": [_event(course, event) for event in events],
        # A seat knows that it must act itself. That others must may tell who has committed
        # already, or who has a secret to act upon.
        "to_act": [player for player in played.to_act if seat in (None, player)],
        "asked": own and ("attempts" in decision.details or "beliefs" in decision.details),
        "failure": _failure(decision, seat) if own else None,
        "seconds": finite(ply.seconds) if own and ply.seconds is not None else None,
    }


def _failure(decision: Decision, seat: int | None) -> str | None:
    """What a seat may read of why a fallback was played."""
    if seat is None or decision.failure is None:
        return decision.failure
    return str(without_seeds(decision.failure, seeds_in(dict(decision.details))))


def _named(played: Played, events: Sequence[Event]) -> int | None:
    """Who moved, for another seat that witnesses `events`: only if these tell it."""
    player = played.ply.player
    if not events or played.sealed:
        return None
    if player == CHANCE or any(getattr(event, "player", None) == player for event in events):
        return player
    return None


def _event(course: Course, event: Event) -> EventJson:
    audience = event.audience
    return {
        "text": course.talk[id(event)],
        "kind": type(event).__name__,
        "private": audience is not None,
        "audience": None if audience is None else list(audience),
    }


# The table


def draw_scenes(course: Course, seat: int | None) -> list[Json]:
    """The table at each position; None where it is as it was one position earlier."""
    if _has_scene(course.game):
        return _scenes(course, seat)
    return _diagrams(course, seat)


def _has_scene(game: Game) -> bool:
    return game.name in catalog().names("scene")


def _scenes(course: Course, seat: int | None) -> list[Json]:
    scene: Scene = catalog().load("scene", course.game.name)(course.game, seat)
    last = scene.to_json()
    found = [last]
    for number in range(course.last):
        events = course.witnessed(number, seat)
        for event in events:
            scene.update(event)
        now = scene.to_json() if events else last
        found.append(None if now == last else now)
        last = now
    return found


def _diagrams(course: Course, seat: int | None) -> list[Json]:
    found: list[Json] = [None] * (course.last + 1)
    seen = [course.witnessed(number, seat) for number in range(course.last)]
    drawn = type(course.game).diagram is not Game.diagram
    if not drawn or sum(map(len, seen)) > LONGEST_DRAWN:
        return found
    events = list[Event]()
    last = found[0] = course.game.diagram(events) or None
    for number, more in enumerate(seen):
        events += more
        now = (course.game.diagram(events) or None) if more else last
        found[number + 1] = None if now == last else now
        last = now
    return found


def _scenes_from(scenes: Sequence[Json], first: int) -> list[Json]:
    """Those from a position on; its own is given in any case."""
    earlier = (scene for scene in scenes[first::-1] if scene is not None)
    return [next(earlier, None), *scenes[first + 1 :]]
