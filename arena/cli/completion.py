"""Shell completion of games, SPECs and seats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def complete_game(incomplete: str) -> list[str]:
    """Return the games whose names start like this."""
    from arena.plugins.catalog import catalog

    families = [f"{family}/" for family in catalog().names("game_family")]
    return _starting([*catalog().names("game"), *families], incomplete)


def complete_spec(incomplete: str) -> list[str]:
    """Return bots, agents and the prefixes of backends that start like this."""
    return _starting(_specs(), incomplete)


def complete_seat(incomplete: str) -> list[str]:
    """Return completions of `I=SPEC`; of a bare seat number there is nothing to complete."""
    seat, equals, spec = incomplete.partition("=")
    return [f"{seat}={each}" for each in complete_spec(spec)] if equals else []


def _specs() -> Iterator[str]:
    from arena.plugins.catalog import catalog
    from backends.embedded import bundled_checkpoints

    bots = {name.rpartition("/")[2]: None for name in catalog().names("bot")}
    yield from (f"bot:{bot}" for bot in bots)
    yield from (name for name in catalog().names("agent") if name != "bot")
    yield from (f"embedded:{name}" for name in bundled_checkpoints())
    yield from (f"{name}:" for name in catalog().names("backend"))


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


COMPLETIONS = {"game": complete_game, "spec": complete_spec, "seat": complete_seat}
"""Functions by the name that a setting states."""
