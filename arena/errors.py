"""Every error that arena raises on purpose.

A class exists because some caller does something different with it. `str(error)` is one line for
a person: the input, the place and what to do.
"""


class ArenaError(Exception):
    """The base of all of them; the command line prints the message and exits with 1."""


class UsageError(ArenaError, ValueError):
    """The request itself is wrong (a name, an option, a seat); the command line exits with 2."""


class ActionError(ArenaError, ValueError):
    """A move that cannot be played; an agent is told why and may try again."""


class InvalidAction(ActionError):
    """The text, or the value, is no action of this game at all."""


class AmbiguousAction(ActionError):
    """The text fits several actions of this game."""


class IllegalAction(ActionError):
    """An action of this game that the rules do not allow now, or not to this player."""


class ReplayError(ArenaError):
    """A replay that cannot be read: not a replay, tampered with, or of another version."""


class NameTaken(ArenaError):
    """Two plugins claim one name; the one fault of a plugin that stops everything."""


class MissingDependency(ArenaError, ImportError):
    """An optional package is not installed; the message names the command that installs it."""


class PluginWarning(UserWarning):
    """A plugin could not be loaded and is left out."""
