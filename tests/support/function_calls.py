"""Actions as calls of functions, as models write them."""

from __future__ import annotations

from arena.core.action import Action, Speech, field_names


def function_call(action: Action) -> tuple[str, dict[str, str]]:
    """Return the function of an action and its arguments, the inverse of `called_action`."""
    if isinstance(action, Speech):
        return type(action).__name__, {"text": action.text}
    return type(action).__name__, {f: str(getattr(action, f)) for f in field_names(action)}
