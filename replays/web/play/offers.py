"""The legal actions of a decision as a form: kinds of actions, and the values of their fields."""

from __future__ import annotations

from arena.agents.reply.phrasebook import field_names
from arena.agents.typed_action import usual_action
from arena.core.action import Action
from arena.core.observation import Observation
from replays.web.play.documents import KindJson, SpeechJson, TurnJson

MAX_LISTED = 2_000
"""Actions in one form; negotiation may have tens of thousands."""


def offer(observation: Observation, number: int, until: float | None) -> TurnJson:
    """Return the form of a decision.

    Args:
        observation: What the seat knows, with its legal actions.
        number: Number of the decision.
        until: End of the time for it, in seconds since 1970; None: no limit.
    """
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
            kind = {"name": name, "verb": verb, "fields": fields, "actions": []}
            kinds[type(action), verb] = kind
        kind["actions"].append([text, *(str(getattr(action, each)) for each in kind["fields"])])
    return list(kinds.values())
