"""What a person types: an action, a guess at one that is offered, completion by Tab.

A person is read as forgivingly as a model, by the same reader, but never more: only what can have
one meaning is played at once. A guess is offered and needs Enter, and an irrevocable action, such
as an accusation, is offered only to a person who has written its verb.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from arena.agents.reply.phrasebook import phrasebook
from arena.agents.reply.reader import correction, fitting_actions, read_reply
from arena.core.action import Action, Speech, normalise
from arena.core.errors import ActionError
from arena.core.observation import Observation
from arena.core.text import plain_letters

COMMANDS = ("table", "all", "help")
"""Words that a person may type instead of an action; `HumanAgent` carries them out."""


@dataclass(frozen=True, slots=True)
class Guess:
    """The reading of a text that is no whole action."""

    action: Action | None
    """The action that is offered; None if there is none, or several, or only irrevocable ones."""
    remark: str
    """One sentence about what is missing or wrong."""


def parse(answer: str, observation: Observation) -> Action:
    """Return the action of this text; a prefix is enough if it fits one legal action only.

    Raises an ActionError for every text that needs a `guess`.
    """
    speech = observation.game.actions.parse_speech(answer)
    if speech is not None:
        observation.legal_actions.check(speech)
        return speech
    answer = plain_letters(answer)
    wanted = normalise(answer)
    legal = {normalise(str(action)): action for action in observation.legal_actions}
    fitting = [action for text, action in legal.items() if wanted and text.startswith(wanted)]
    if len(fitting) == 1:
        return fitting[0]
    try:
        return observation.parse(answer)
    except ActionError:
        # The words of an action in another order, as models may write it too.
        book = phrasebook(observation.game)
        meant = [a for a in book.meant(answer) if a in observation.legal_actions]
        if len(meant) == 1 and not observation.game.is_irrevocable(meant[0]):
            return meant[0]
        raise


def guess(answer: str, observation: Observation) -> Guess:
    """Return what this text may mean, for a person who confirms it."""
    reading = read_reply(answer, observation)
    if isinstance(reading.action, Speech):
        return Guess(reading.action, "")
    if reading.action is not None:
        found = [reading.action]
    elif reading.failure == "ambiguous":
        found = fitting_actions(reading.excerpt, observation)
    else:
        found = _near(answer, observation)
    harmless = [action for action in found if _may_offer(action, answer, observation)]
    if len(harmless) == 1:
        return Guess(harmless[0], "")
    speech = _as_speech(answer, observation)
    if speech is not None and not harmless:
        return Guess(speech, "")
    if found and not harmless:
        return Guess(None, f"To do this, write all of it: {found[0]}")
    if reading.failure in ("ambiguous", "illegal", "undecided", "invalid_speech"):
        return Guess(None, correction(reading, observation))
    example = observation.legal_actions[0] if observation.legal_actions else None
    return Guess(
        None,
        f"'{reading.excerpt}' is not an action of this game."
        + (f" For example: {example}" if example else ""),
    )


def _as_speech(answer: str, observation: Observation) -> Speech | None:
    """Return a text of several words as speech without its verb, where speech is legal."""
    if len(answer.split()) < 2:
        return None
    for offer in observation.legal_actions.speech:
        try:
            speech = observation.game.actions.parse_speech(f"{offer.kind.verb} {answer}")
        except ActionError:
            continue
        if speech is not None and observation.legal_actions.speech_fault(speech) is None:
            return speech
    return None


def _may_offer(action: Action, answer: str, observation: Observation) -> bool:
    """Return whether an action may be offered: an irrevocable one only after its own verb."""
    verb, written = normalise(str(action)).partition(" ")[0], normalise(answer).split()
    return verb in written or not observation.game.is_irrevocable(action)


def usual_action(observation: Observation) -> Action | None:
    """Return the action that Enter plays: the only legal one that is not irrevocable, if any."""
    legal = observation.legal_actions
    # Most sets are long, and two candidates are enough to see that there is no single one.
    harmless = (action for action in legal if not observation.game.is_irrevocable(action))
    first = next(harmless, None)
    return first if next(harmless, None) is None else None


def _near(answer: str, observation: Observation) -> list[Action]:
    """Return the legal action with the most similar spelling, if one is near."""
    legal = {normalise(str(action)): action for action in observation.legal_actions}
    near = difflib.get_close_matches(normalise(answer), legal, n=1, cutoff=0.7)
    return [legal[text] for text in near]


class ActionCompleter(Completer):
    """Completes an action piece by piece: the verb, then each name."""

    def __init__(self, actions: Iterable[str]) -> None:
        self._texts = [*actions, *COMMANDS]

    def pieces(self, typed: str) -> Iterator[str]:
        """Yield the prefixes of actions that extend `typed` by one piece, each once."""
        seen = set()
        for text in self._texts:
            if not text.casefold().startswith(typed.casefold()):
                continue
            # A piece ends after a comma, or after the verb if commas follow.
            # The lookahead requires a later comma: without one, the action is a single piece.
            end = re.compile(r", " if " " in typed else r" (?=.*, )").search(text, len(typed))
            piece = text[: end.end()] if end else text
            if piece not in seen:
                seen.add(piece)
                yield piece

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        typed = document.text_before_cursor.lstrip()
        for piece in self.pieces(typed):
            yield Completion(piece, start_position=-len(typed))
