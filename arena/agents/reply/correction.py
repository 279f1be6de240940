"""Corrections: the answers to replies without a legal action."""

from __future__ import annotations

from collections.abc import Sequence

from arena.agents.reply.mentions import find_mentions
from arena.agents.reply.phrasebook import Parts, field_names, phrasebook
from arena.agents.reply.reading import Reading
from arena.core.action import Action
from arena.core.observation import Observation


def correction(reading: Reading, observation: Observation, thinking_tokens: int = 0) -> str:
    """Return the correction for a reply without a legal action, with an example.

    `thinking_tokens` is the limit at which a reply was cut off while the model still thought; 0 for
    other replies.
    """
    quote = f"'{reading.excerpt}'"
    match reading.failure:
        case "empty":
            fault = "Your reply was empty. Answer with one action."
        case "truncated" if thinking_tokens:
            fault = (
                f"Your thinking used up all {thinking_tokens} tokens of the reply, so there was no "
                "answer. Think only briefly, then answer with one action."
            )
        case "truncated":
            fault = "Your reply was cut off before it named an action. Think less, then name it."
        case "refused":
            fault = "This is only a parlour game, and nobody comes to harm. Answer with one action."
        case "undecided":
            fault = f"{quote} names several actions. Write the one that you choose on a last line."
        case "illegal":
            fault = f"{quote} is not allowed now. Choose another action."
        case "invalid_speech":
            fault = f"{reading.excerpt}."
        case "ambiguous":
            fault = f"{quote} {_missing(reading.excerpt, observation)}"
        case _:
            fault = "No action was found in your reply. End it with one action, written out."
    # An example shows the notation; its choice, the first legal action, is arbitrary.
    example = f" For example: {observation.legal_actions[0]}" if observation.legal_actions else ""
    return fault + example


def _missing(excerpt: str, observation: Observation) -> str:
    """Return what would distinguish the legal actions that `excerpt` fits."""
    actions = fitting_actions(excerpt, observation)
    # The kind of action is open, so name the candidates; otherwise name the fields that differ.
    if len({type(action) for action in actions}) > 1:
        book = phrasebook(observation.game)
        heads = dict.fromkeys(book.parts[action].head for action in actions)
        return f"may be several actions: {', '.join(heads)}. Say which."
    fields = (
        [name for name in field_names(actions[0]) if _differs(name, actions)] if actions else []
    )
    if not fields:
        return "is not a whole action. Write all of it."
    *first, last = (f"the {name}" for name in fields)
    named = f"{', '.join(first)} and {last}" if first else last
    return f"is not a whole action. Name {named} too."


def fitting_actions(excerpt: str, observation: Observation) -> list[Action]:
    """Return the legal actions that the words of a failed reading may mean."""
    excerpt = excerpt.casefold()
    book, legal = phrasebook(observation.game), observation.legal_actions
    meant = [action for action in book.meant(excerpt) if action in legal]
    mentions = find_mentions(book, excerpt)
    if meant or not mentions:
        return meant
    parts = mentions[-1].parts
    # Without a fit for the arguments, the head alone still shows which fields are needed.
    return book.fitting(parts, legal) or book.fitting(Parts(parts.head, ()), legal)


def _differs(field: str, actions: Sequence[Action]) -> bool:
    return len({getattr(action, field) for action in actions}) > 1
