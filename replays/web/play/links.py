"""Set-up of a game that people play, the links to its seats, and the pages that are open."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import asdict, dataclass, field, replace
from typing import cast

from arena.core.observation import GameText
from arena.core.spec import Spec, redacted
from arena.episodes.match import Match
from arena.episodes.record import Position
from replays.analysis.posterior import placement_json
from replays.analysis.timeline import game_facts
from replays.web.play.advice import gives_advice
from replays.web.play.documents import HELP_LEVELS, GuideJson, Help, PartsJson, WebGameJson
from replays.web.play.seat_view import SeatView

TOKEN_BYTES = 16
"""Random bytes of a link; as many as cannot be guessed."""
MAX_PAGES = 16
"""Pages that are open at the same link at once."""


@dataclass(frozen=True, slots=True)
class WebGameSetup:
    """What is played, and how."""

    match: Match
    """Seats with the SPEC `human` are taken by links."""
    pace: float = 0.7
    """Seconds between moves."""
    clock: float | None = None
    """Seconds for a decision of a person, after which a fallback move is played."""
    most_help: Help = "posterior"
    """The highest level of help that a person may show."""
    hints: tuple[tuple[str, str], ...] = ()
    """Hints of a guided game, see `FirstGame`."""
    start: Position | None = None
    """Position of a recorded game at which this one starts."""

    @property
    def persons(self) -> tuple[int, ...]:
        """The seats of people."""
        specs = enumerate(self.match.specs)
        return tuple(seat for seat, spec in specs if Spec.parse(spec).is_human)


class Page:
    """One open page: what it was sent so far, and whether there is something new."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.changed.set()
        self.events_sent = 0
        self.parts_sent: dict[str, object] = {}


@dataclass(slots=True)
class Link:
    """Address of a seat, or of the place of spectators."""

    view: SeatView
    token: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_BYTES))
    pages: set[Page] = field(default_factory=set)
    parts: PartsJson | None = None
    """Parts that are shown; None after a change, until a page needs them."""

    def change(self) -> None:
        """Let every page look for news."""
        self.parts = None
        for page in self.pages:
            page.changed.set()


def web_game_json(setup: WebGameSetup) -> WebGameJson:
    """Return what each page of a game gets first."""
    match = setup.match
    guide, known = match.game.text.guide(), match.game.analysis.knowledge(0)
    return {
        **game_facts(match.game),
        "specs": [redacted(spec) for spec in match.specs],
        "rules": match.game.text.rules(),
        "guide": cast("GuideJson", asdict(replace(guide, first_game=None))) if guide else None,
        "hints": list(setup.hints),
        "gives_advice": allows_advice(setup) and gives_advice(match.game),
        "sheet": placement_json(known) if known and match.game.analysis.has_sheet else None,
        "offered_help": offered_help(setup),
    }


def allows_advice(setup: WebGameSetup) -> bool:
    """Return whether a person may ask for a move: in a guided game, the lessons advise."""
    return setup.most_help == "posterior" and not setup.hints


def offered_help(setup: WebGameSetup) -> list[Help]:
    """Return the levels of help that are allowed and that the game has."""
    game = setup.match.game
    missing = set[Help]()
    if game.analysis.knowledge(0) is None:
        missing.add("posterior")
    kind = type(game.text)
    if (kind.describe, kind.situation) == (GameText.describe, GameText.situation):
        missing |= {"notes", "deductions"}
    most = HELP_LEVELS.index(setup.most_help)
    return [level for level in HELP_LEVELS[: most + 1] if level not in missing]
