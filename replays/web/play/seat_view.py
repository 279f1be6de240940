"""What one viewer of a game in play may be shown: a seat, or a spectator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from arena import Event, Game, Observation, PlacedKnowledge
from arena.agents.typed_action import usual_action
from arena.core.action import Action, field_names
from arena.core.analysis import Knowledge
from arena.core.observation import TextLevel
from replays.analysis.documents import PosteriorEntryJson, SceneJson
from replays.analysis.posterior import placement_json, posterior_entry
from replays.analysis.scenes import new_scene
from replays.web.play.documents import (
    Help,
    KindJson,
    OverJson,
    PartsJson,
    PosteriorNowJson,
    SeenEventJson,
    SpeechJson,
    TurnJson,
)

MAX_LISTED = 2_000
"""Actions in one form; negotiation may have tens of thousands."""


class SeatView:
    """The events that a viewer has witnessed, and everything that is drawn from them.

    A spectator has no seat and sees what is public. An event of which all know a part, such as a
    card that is drawn, changes its table without a sentence.
    """

    def __init__(self, game: Game, seat: int | None) -> None:
        self.seat = seat
        self.events: list[SeenEventJson] = []
        self.turn: TurnJson | None = None
        self.over: OverJson | None = None
        self.error: str | None = None
        self.help: Help = "none"
        self._game = game
        self._witnessed: list[Event] = []
        self._scene = new_scene(game, seat)
        self._drawn = self._before = self._draw()
        self._knowledge: Knowledge | None = None
        self._known = 0
        self._entry: PosteriorEntryJson | None = None

    def read(self, events: Sequence[Event]) -> bool:
        """Take in the events of the game that are new; return whether the viewer has seen any."""
        new = [each for each in events if self._witnesses(each)]
        for event in new:
            self._witnessed.append(event)
            if self._scene is not None:
                self._scene.update(event)
            if event.shown_to(self.seat):
                text = self._game.text.for_people(self._game.text.narrate(event))
                self.events.append({"text": text, "private": event.audience is not None})
        if new:
            drawn = self._draw()
            if drawn != self._drawn:
                self._before, self._drawn = self._drawn, drawn
        return bool(new)

    def parts(
        self, names: list[str], present: list[bool | None], observation: Observation | None
    ) -> PartsJson:
        """Return what the page shows now, with the names of players and whose pages are open.

        The observation is what the seat knows now; None for a spectator and before the game.
        """
        return {
            "scene": self._drawn,
            "before": self._before,
            "turn": self.turn,
            "names": names,
            "present": present,
            "help": self.help,
            "notes": self._notes(observation),
            "posterior": self._posterior(),
            "over": self.over,
            "error": self.error,
        }

    def _witnesses(self, event: Event) -> bool:
        if self.seat is not None:
            return event.seen_by(self.seat)
        # A partial event hides its secret from the one who sees it, so the rest is public.
        return event.audience is None or event.is_partial

    def _draw(self) -> SceneJson:
        return None if self._scene is None else self._scene.to_json()

    def _notes(self, observation: Observation | None) -> str:
        """Return the notes of the chosen level, without events and actions; a grid says more."""
        if observation is None or self.help == "none" or self._has_grid():
            return ""
        level = cast("TextLevel", "deductions" if self.help == "posterior" else self.help)
        quiet = replace(observation, legal_actions=self._game.no_actions)
        # The whole text, since later texts of some games have only what is new in the notes.
        text, events = quiet.text(level), quiet.text("events")
        notes = text[len(events) :] if text.startswith(events) else text
        return self._game.text.for_people(notes.strip("\n"))

    def _has_grid(self) -> bool:
        return self.help == "posterior" and isinstance(self._exact(), PlacedKnowledge)

    def _exact(self) -> Knowledge | None:
        """Return the exact knowledge of the seat; it is not kept up to date."""
        if self._knowledge is None and self.seat is not None:
            self._knowledge = self._game.analysis.knowledge(self.seat)
        return self._knowledge

    def known(self) -> Knowledge | None:
        """Return the exact knowledge of the seat now, if the game has it."""
        knowledge = self._exact()
        if knowledge is not None:
            for event in self._witnessed[self._known :]:
                knowledge.update(event)
            self._known = len(self._witnessed)
        return knowledge

    def _posterior(self) -> PosteriorNowJson | None:
        """Return the exact probabilities, if the help includes them and the game has them."""
        knowledge = self.known() if self.help == "posterior" else None
        if knowledge is None:
            return None
        if self._entry is None or self._entry["position"] != self._known:
            self._entry = posterior_entry(knowledge, self._known)
        return {**placement_json(knowledge), "entry": self._entry}


def offer(observation: Observation, number: int, until: float | None) -> TurnJson:
    """Return the form of a decision; `until` is in seconds since 1970, None for no limit."""
    legal = observation.legal_actions
    usual = usual_action(observation)
    speech: list[SpeechJson] = [
        {"verb": each.kind.verb, "form": each.kind.form, "max_length": each.kind.max_length}
        for each in legal.speech
    ]
    return {
        "number": number,
        "kinds": _kinds(legal[:MAX_LISTED]),
        "speech": speech,
        "left_out": max(0, len(legal) - MAX_LISTED),
        "usual": None if usual is None else str(usual),
        "until": until,
    }


def _kinds(actions: tuple[Action, ...]) -> list[KindJson]:
    kinds: dict[tuple[type[Action], str], KindJson] = {}
    for action in actions:
        text = str(action)
        # One class may have several verbs: "check" and "call" are one move in Leduc poker.
        verb = text.partition(" ")[0]
        kind = kinds.get((type(action), verb))
        if kind is None:
            name, fields = type(action).__name__, field_names(action)
            # A tuple is no value that a person can choose; its parts are chosen on the table.
            if not all(isinstance(getattr(action, each), str | int) for each in fields):
                fields = []
            kind = {"name": name, "verb": verb, "fields": fields, "actions": []}
            kinds[type(action), verb] = kind
        kind["actions"].append([text, *(str(getattr(action, each)) for each in kind["fields"])])
    return list(kinds.values())
