"""The library itself: loading games, their parameters, and facts about single games."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from pydantic import JsonValue

from arena.core.errors import UsageError
from arena.core.text import shorten
from arena.plugins.catalog import require

POSITIONAL = frozenset(
    [
        *("amazons", "antichess", "backgammon", "banqi", "chat_game", "chess", "chinese_checkers"),
        *("crazyhouse", "dark_chess", "einstein_wurfelt_nicht", "euchre", "hearts", "kriegspiel"),
        *("negotiation", "oh_hell", "quoridor", "rbc", "shogi", "social_deduction", "tarok"),
        *("ultimate_tic_tac_toe", "universal_poker", "xiangqi"),
    ]
)
"""Games in which the text of a move depends on the position. They were found by random play, which
`make test-adapters` repeats. In chess the text of an illegal move ends the process."""

WRAPPERS = frozenset(
    [
        *("add_noise", "cached_tree", "coop_to_1p", "misere", "normal_form_extensive_game"),
        *("repeated_game", "repeated_poker", "restricted_nash_response", "start_at"),
        *("turn_based_simultaneous_game", "zerosum"),
    ]
)
"""Games made from another game, whose texts are not known."""

FAULTY = {"chat_game": "it offers moves beyond the number of moves that it declares"}
"""Games that break OpenSpiel's own rules, and how."""

FILE_PARAMETER = re.compile(r"\b(?:filename|\w+_file)\s*=")
"""Names of parameters that hold a path, also within the parameters of a wrapped game."""

SEED_PARAMETERS = ("rng_seed", "seed")
"""Parameters that seed the random generator of a game that draws by itself."""


@cache
def pyspiel() -> Any:
    """Import the library with its games in Python. Raises MissingDependency without it."""
    require("a game of open_spiel", ["pyspiel"], "open-spiel")
    import pyspiel as library
    from open_spiel.python import games  # noqa: F401 - registers the games.

    return library


@cache
def game_types() -> Mapping[str, Any]:
    """Return the `GameType` of each registered game by its short name."""
    return {kind.short_name: kind for kind in pyspiel().registered_games()}


def load(name: str, options: Mapping[str, JsonValue]) -> Any:
    """Load a `pyspiel.Game`; options that have their default value are not passed on.

    Raises UsageError with OpenSpiel's reason.
    """
    library, kind = pyspiel(), game_types()[name]
    for key, value in options.items():
        if value and FILE_PARAMETER.search(f"{key}={value}"):
            raise UsageError(
                f"open_spiel/{name}: option {key} reads a file; arena does not open files that a "
                "replay of unknown origin could name"
            )
    defaults = kind.parameter_specification
    given = {key: value for key, value in options.items() if value != _as_option(defaults[key])}
    with _refused(f"open_spiel/{name}: cannot be loaded with {given}"):
        parameters = {
            key: _nested(value) if isinstance(defaults[key], dict) else value
            for key, value in given.items()
        }
        return library.load_game(name, parameters) if given else library.load_game(name)


def check_start(name: str, game: Any) -> None:
    """Raise UsageError if a loaded game has no first position.

    Some games check their parameters only there.
    """
    with _refused(f"open_spiel/{name}: cannot be played with {game}"):
        state = game.new_initial_state()
        if state.is_chance_node():
            state.chance_outcomes()


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """Raise UsageError with the library's reason, in one line, if it refuses its parameters."""
    try:
        with without_messages():
            yield
    # A RuntimeError: a number that does not fit into 32 bits, for example.
    except (pyspiel().SpielError, ValueError, TypeError, RuntimeError, MemoryError) as error:
        raise UsageError(f"{what}: {shorten(' '.join(str(error).split()))}") from None


def _nested(text: JsonValue) -> dict[str, Any]:
    """Return the parameters of a game that is a parameter, given as `goofspiel(num_cards=4)`."""
    inner = pyspiel().load_game(str(text))
    return {"name": inner.get_type().short_name, **inner.get_parameters()}


def _as_option(default: Any) -> Any:
    """Return the default of a parameter as an option; a game is written as text."""
    return "" if isinstance(default, dict) else default


def option_defaults(kind: Any) -> dict[str, JsonValue]:
    """Return the parameters of a game and their defaults."""
    return {name: _as_option(value) for name, value in kind.parameter_specification.items()}


@contextmanager
def without_messages() -> Iterator[None]:
    """Hide what the library writes to the standard error itself; its exceptions say the same."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
