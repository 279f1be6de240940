"""Seats from flags: the SPEC of each, and the seats that the model takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from arena.agents.seating import default_bot
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.spec import Spec, redacted
from arena.llm.settings import Settings
from arena.plugins.loader import catalog


def seat_specs(game: Game, seats: Sequence[str], backend: str | None) -> list[str]:
    """Return the SPEC of each seat from --seat and --backend; the default bot takes the others."""
    named, bot = named_seats(game, seats), default_bot(game)
    free = [seat for seat in range(game.num_players) if seat not in named]
    return seat_model(backend, [named.get(seat, bot) for seat in range(game.num_players)], free)


def named_seats(game: Game, seats: Sequence[str]) -> dict[int, str]:
    """Return the SPECs of --seat by seat. Raises UsageError for a wrong or repeated seat."""
    named: dict[int, str] = {}
    for text in seats:
        number, _, spec = text.partition("=")
        if not spec or not (number.isascii() and number.isdecimal()):
            raise UsageError(f"--seat {redacted(text)!r} is not I=SPEC, for example 0=bot:oracle")
        if int(number) >= game.num_players:
            raise UsageError(
                f"--seat {redacted(text)!r}: {game.name} has seats 0 to {game.num_players - 1} here"
            )
        if int(number) in named:
            raise UsageError(f"--seat {redacted(text)!r}: seat {number} is named twice")
        named[int(number)] = spec
    return named


def seat_model(backend: str | None, specs: list[str], free: list[int]) -> list[str]:
    """Put the model on its seats; `free` are the seats without --seat."""
    asked = backend or Settings.load().llm_backend
    wanted = [seat for seat, spec in enumerate(specs) if spec == "model"]
    # The environment variable takes no seat if any seat was named by hand.
    if asked and not wanted and (backend or len(free) == len(specs)):
        wanted = free[:1]
    if backend and not wanted:
        raise UsageError(f"--backend {redacted(backend)}: all seats are taken; name one I=model")
    parsed = Spec.parse(asked or "embedded")
    spec = replace(parsed, prefix=parsed.prefix.lower())
    known = catalog().names("backend")
    if wanted and spec.prefix not in known:
        name = redacted(asked or spec.prefix)
        raise UsageError(f"--backend {name}: unknown backend; known: {', '.join(known)}")
    return [str(spec) if seat in wanted else other for seat, other in enumerate(specs)]
