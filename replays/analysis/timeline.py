"""Timeline of a replay: all plies with the positions around them, and the document of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from arena import CHANCE, Action, Decision, Event, Game, Header, PlacedKnowledge, Ply, Replay
from arena.agents.names import display_names
from arena.core.analysis import Appraiser
from replays.analysis.documents import (
    BranchJson,
    EventJson,
    GameFactsJson,
    GameJson,
    OutcomeJson,
    PlyJson,
    SceneJson,
    TimelineJson,
)
from replays.analysis.sanitize import find_seeds, finite_or_zero, redact_text
from replays.analysis.scenes import new_scene, scene_name


@dataclass(frozen=True, slots=True)
class TimelinePly:
    """One ply, and facts of the positions before and after it."""

    ply: Ply
    turn: int
    """The turn in which it was made."""
    legal: Sequence[Action]
    """Legal actions of its player; empty for chance."""
    to_act: tuple[int, ...]
    """The players who must act after it."""
    simultaneous: bool
    """Several players commit at the same time, so the order in which they do so is secret."""


@dataclass
class Timeline:
    """A game from the beginning to the last recorded ply."""

    replay: Replay
    game: Game
    plies: list[TimelinePly] = field(default_factory=list)

    @property
    def last_position(self) -> int:
        """The number of the last position."""
        return len(self.plies)

    @cached_property
    def narration(self) -> dict[int, str]:
        """The text of each event, by `id(event)`; it is the same for all who witness it."""
        texts = self.game.text
        events = (event for entry in self.plies for event in entry.ply.events)
        return {id(event): texts.for_people(texts.narrate(event)) for event in events}

    def events_seen_by(self, seat: int | None, ply: int) -> Sequence[Event]:
        """Return the events of a ply that `seat` witnesses; None means that everything is open."""
        events = self.plies[ply].ply.events
        return events if seat is None else [event for event in events if event.seen_by(seat)]


def build_timeline(replay: Replay) -> Timeline:
    """Play the replay once.

    Raises ReplayError if a move does not fit the rules, or there is no such game.
    """
    game = replay.make_game()
    timeline = Timeline(replay, game)
    to_act, simultaneous = game.initial_state().to_act, False
    for walked in replay.walk():
        ply, next_to_act = walked.ply, walked.state.to_act
        simultaneous = simultaneous or len(to_act) > 1
        legal = walked.observation.legal_actions if walked.observation else ()
        timeline.plies.append(
            TimelinePly(ply, walked.turn_before, legal, next_to_act, simultaneous)
        )
        # The last of several who commit together is alone to act, but belongs to the same group.
        remaining = tuple(player for player in to_act if player != ply.player)
        simultaneous = simultaneous and next_to_act == remaining
        to_act = next_to_act
    return timeline


def players_at(header: Header, ply: int) -> tuple[str, ...]:
    """Return the SPEC of each seat at the time this ply was played."""
    players = header.players
    # Branches are in order of time. Each one names the players that sat before its ply.
    for branch in reversed(header.branches):
        if ply >= branch.ply:
            break
        players = branch.players
    return players


def timeline_json(
    timeline: Timeline, scenes: Sequence[SceneJson], seat: int | None, first: int
) -> TimelineJson:
    """Return the document from ply `first` on, as a seat may see it; None: everything is open.

    The scenes are those of all positions, from `render_scenes` for the same seat.
    """
    first = max(0, min(first, timeline.last_position))
    return {
        "game": _game_json(timeline, seat),
        "seat": seat,
        "first": first,
        "plies": [_ply_json(timeline, entry, seat) for entry in timeline.plies[first:]],
        "scenes": _scenes_from(scenes, first),
        "outcome": _outcome_json(timeline),
        "notice": timeline.replay.notice,
    }


def _game_json(timeline: Timeline, seat: int | None) -> GameJson:
    header, game = timeline.replay.header, timeline.game
    document: GameJson = {
        **game_facts(game),
        "specs": list(header.players),
        "names": display_names(header.players),
        "text_level": header.text_level,
        "created": header.created.isoformat(),
        "branches": _branches_json(timeline, seat),
        "has_rankings": ranks_moves(game),
        "facts": {
            name: {"unit": fact.unit, "about": fact.about}
            for name, fact in game.analysis.facts.items()
        },
        "seed": header.seed,
    }
    if seat is not None:
        # The seed determines the deal, so a seat must not get it.
        del document["seed"]
    return document


def game_facts(game: Game) -> GameFactsJson:
    """Return what a page shows of any game. Its title: "Cluedo · classic · 4 players"."""
    variant, players = getattr(game.options, "variant", None), f"{game.num_players} players"
    # All seats have the same kind of knowledge, so seat 0 represents them.
    knowledge = game.analysis.knowledge(0)
    return {
        "name": game.name,
        "title": " · ".join(filter(None, (game.title, variant, players))),
        "seats": list(game.seat_names),
        "options": game.options.model_dump(mode="json"),
        "scene": scene_name(game),
        "has_posterior": knowledge is not None,
        "has_grid": isinstance(knowledge, PlacedKnowledge),
    }


def _branches_json(timeline: Timeline, seat: int | None) -> list[BranchJson]:
    """Return the branches; a seat may not know the parent, whose file name contains the seed.

    The parent was played with the same deal.
    """
    documents: list[BranchJson] = []
    for branch in timeline.replay.header.branches:
        document: BranchJson = {
            "parent": branch.parent if seat is None else "",
            "ply": branch.ply,
            "players": list(branch.players),
        }
        if seat is None:
            document["seed"] = branch.seed
        documents.append(document)
    return documents


def _outcome_json(timeline: Timeline) -> OutcomeJson | None:
    line = timeline.replay.outcome
    if line is None:
        return None
    return {
        "status": line.status,
        "reason": line.reason,
        "returns": [finite_or_zero(value) for value in line.returns],
        "winners": [seat for seat in range(len(line.returns)) if line.outcome.is_winner(seat)],
        "score": None if timeline.game.return_scale.has_winner else finite_or_zero(line.returns[0]),
        "turns": line.turns,
    }


def _ply_json(timeline: Timeline, entry: TimelinePly, seat: int | None) -> PlyJson:
    ply = entry.ply
    events = timeline.events_seen_by(seat, ply.number)
    # A player knows its own action; others know only what the events reveal.
    is_own = seat in (None, ply.player)
    decision = ply.decision
    has_requests = not decision.details.keys().isdisjoint(("attempts", "beliefs"))
    return {
        "ply": ply.number,
        "turn": entry.turn,
        "player": ply.player if is_own else _public_player(entry, events),
        "action": str(decision.action) if is_own else None,
        "events": [_event_json(timeline, event) for event in events if event.shown_to(seat)],
        # A seat knows that it must act itself. The other names could reveal who has already
        # committed, or who has a secret to act upon.
        "to_act": [player for player in entry.to_act if seat in (None, player)],
        "has_requests": is_own and has_requests,
        "failure": _failure(decision, seat) if is_own else None,
        "seconds": finite_or_zero(ply.seconds) if is_own and ply.seconds is not None else None,
    }


def _failure(decision: Decision, seat: int | None) -> str | None:
    if seat is None or decision.failure is None:
        return decision.failure
    return redact_text(decision.failure, find_seeds(decision.details))


def _public_player(entry: TimelinePly, events: Sequence[Event]) -> int | None:
    """Return the player who moved, for another seat that witnesses `events`.

    Returns None unless the events reveal the player.
    """
    player = entry.ply.player
    # Without an event even the mover stays hidden; in a simultaneous move the order is secret.
    if not events or entry.simultaneous:
        return None
    if player == CHANCE or any(getattr(event, "player", None) == player for event in events):
        return player
    return None


def _event_json(timeline: Timeline, event: Event) -> EventJson:
    audience = event.audience
    return {
        "text": timeline.narration[id(event)],
        "kind": type(event).__name__,
        "private": audience is not None,
        "audience": None if audience is None else list(audience),
    }


def ranks_moves(game: Game) -> bool:
    """Return whether the game declares rankings of moves, and can compute them."""
    declared = any(fact.ranks for fact in game.analysis.facts.values())
    return declared and isinstance(game.analysis.assessor((0,), frozenset()), Appraiser)


# Scenes


def render_scenes(timeline: Timeline, seat: int | None) -> list[SceneJson]:
    """Return the scene of each position; None means unchanged."""
    scene = new_scene(timeline.game, seat)
    if scene is None:
        return [None] * (timeline.last_position + 1)
    last: SceneJson = scene.to_json()
    scenes = [last]
    for ply in range(timeline.last_position):
        events = timeline.events_seen_by(seat, ply)
        for event in events:
            scene.update(event)
        # Only witnessed events change a scene.
        current = scene.to_json() if events else last
        scenes.append(None if current == last else current)
        last = current
    return scenes


def _scenes_from(scenes: Sequence[SceneJson], first: int) -> list[SceneJson]:
    """Return the scenes from position `first` on; the first one is always written out."""
    # Searches backwards from `first` for the scene that is still valid there.
    earlier = (scene for scene in scenes[first::-1] if scene is not None)
    return [next(earlier, None), *scenes[first + 1 :]]
