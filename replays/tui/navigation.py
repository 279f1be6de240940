"""Navigation of the terminal viewer: position, perspective and panel, changed by keys."""

from __future__ import annotations

from collections import Counter

from arena import CHANCE, Replay
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.tui.background_analysis import BackgroundAnalysis
from replays.tui.frame import take_snapshots

FORWARD = {"n", " ", "right", "c-m", "c-j", "l"}
BACK = {"p", "b", "left", "backspace", "h"}
QUIT = {"q", "c-c", "c-d"}
ENDS = {"home": 0, "end": -1}
LINE = {"down": 1, "j": 1, "up": -1, "k": -1}
# Names of keys are those of prompt_toolkit; "c-m" and "c-j" are Enter, "c-i" is Tab.
PAGE = {"pagedown": 1, "pageup": -1}
"""In the table panel, which does not scroll, these keys move by a turn."""
FOCUS = {"f": 1, "F": -1}
EVENT_KIND = {"s": 1, "S": -1}
TABLE = "table"
HELP = "help"
PANEL_NAMES = (TABLE, "grid", "comments", "decision", "entropy", "result")
SHORTCUTS = {name[0]: name for name in PANEL_NAMES}


JUMPS = {
    "m": ("mistake", True),
    "M": ("mistake", False),
    "a": ("event", True),
    "A": ("event", False),
    "]": ("move", True),
    "[": ("move", False),
}
"""Target of a jump, and whether it goes ahead; the same keys as on the web page."""


class Navigation:
    """Position, perspective and panel of the viewer, and the keys that change them."""

    def __init__(self, replay: Replay, position: int, seat: int | None) -> None:
        self.replay = replay
        self.position = position
        self.seat = seat
        """The perspective; None: everything is open."""
        self.chosen_seat = 0
        """The focused seat while everything is open."""
        self.event_kind: str | None = None
        """Class name of the events that are looked for; None: the rarest one."""
        self.panel = TABLE
        self.scroll = 0
        self.visible_lines = 1
        """Lines of the panel on the screen; set when it is drawn."""
        self.message = ""
        """Reason why the latest key changed nothing."""
        self.snapshots = take_snapshots(replay)
        self.seats = len(replay.header.players)
        self.analysis = BackgroundAnalysis(ReplayAnalysis(replay), self.seats, seat)
        self._panel_before_help = TABLE

    @property
    def focus(self) -> int:
        """The seat whose facts are shown."""
        return self.chosen_seat if self.seat is None else self.seat

    def press(self, key: str) -> bool:
        """Handle one key, by its name in prompt_toolkit; return False to quit."""
        before, self.message = (self.position, self.panel, self.focus), ""
        if key in QUIT:
            return False
        handlers = (self._move, self._jump, self._switch_panel, self._switch_view)
        any(handler(key) for handler in handlers)  # The first handler that knows the key.
        if before != (self.position, self.panel, self.focus):
            self.scroll = 0
        return True

    def _move(self, key: str) -> bool:
        """Move through the game, or scroll a panel."""
        if key in LINE and self.panel != TABLE:
            self.scroll += LINE[key]
        elif key in PAGE and self.panel != TABLE:
            self.scroll += PAGE[key] * max(1, self.visible_lines - 1)
        elif key in FORWARD or LINE.get(key) == 1:
            self.position = min(self.position + 1, len(self.snapshots) - 1)
        elif key in BACK or LINE.get(key) == -1:
            self.position = max(self.position - 1, 0)
        elif key in PAGE:
            self._move_by_turn(PAGE[key])
        elif key in ENDS:
            self.position = range(len(self.snapshots))[ENDS[key]]
        else:
            return False
        return True

    def _move_by_turn(self, step: int) -> None:
        turn = self.snapshots[self.position].turn
        while 0 <= self.position + step < len(self.snapshots):
            self.position += step
            if self.snapshots[self.position].turn != turn:
                return

    def _jump(self, key: str) -> bool:
        """Move to the nearest position of a kind."""
        if key not in JUMPS:
            return False
        target, ahead = JUMPS[key]
        name, more = target, ""
        if target == "mistake":
            comments = self.analysis.comments(self.seat)
            positions = [each["visible_from"] for each in comments.value if each["mistake"]]
            more = "" if comments.complete else " yet: computing …"
        elif target == "move":
            players = enumerate(self._players(), start=1)
            positions = [position for position, player in players if player == self.focus]
        else:
            kind, later = self._wanted_kind(), range(1, len(self.snapshots))
            positions = [position for position in later if kind in self._kinds_at(position)]
            name = f"event '{kind}'"
        if ahead:
            found = min((each for each in positions if each > self.position), default=None)
        else:
            found = max((each for each in positions if each < self.position), default=None)
        if found is None:
            self.message = f"no {'later' if ahead else 'earlier'} {name}{more}"
        else:
            self.position = found
        return True

    def _players(self) -> list[int]:
        """Return the player of each ply."""
        return [getattr(move, "player", CHANCE) for move in self.replay.moves]

    def _kinds_at(self, position: int) -> list[str]:
        """Return the kinds of the events of the ply that led to a position."""
        before, after = self.snapshots[position - 1], self.snapshots[position]
        events = after.log[before.num_events : after.num_events]
        return [type(event).__name__ for event in events if event.shown_to(self.seat)]

    def _event_kinds(self) -> list[str]:
        """Return the kinds of events of players' plies, the rarest first.

        A rare event is usually an important one. A seat's perspective offers only the kinds that
        have occurred until this position.
        """
        # Kinds of later events would reveal what is going to happen.
        last = len(self.snapshots) - 1 if self.seat is None else self.position
        counts = Counter[str]()
        for position, player in enumerate(self._players()[:last], start=1):
            if player != CHANCE:
                counts.update(self._kinds_at(position))
        return sorted(counts, key=lambda kind: (counts[kind], kind))

    def _wanted_kind(self) -> str | None:
        return self.event_kind or next(iter(self._event_kinds()), None)

    def _choose_event_kind(self, step: int) -> None:
        kinds = self._event_kinds()
        if not kinds:
            self.message = "no events yet"
            return
        wanted = self._wanted_kind()
        number = kinds.index(wanted) + step if wanted in kinds else 0
        self.event_kind = kinds[number % len(kinds)]
        self.message = f"a looks for: {self.event_kind}"

    def _switch_panel(self, key: str) -> bool:
        if self.panel == HELP and key in ("?", "escape"):
            self.panel = self._panel_before_help
        elif key == "?":
            self._panel_before_help, self.panel = self.panel, HELP
        elif key == "escape":
            self.message = "q quits" if self.panel == TABLE else ""
            self.panel = TABLE
        elif key in SHORTCUTS:
            self.panel = SHORTCUTS[key]
        elif key in ("c-i", "tab", "s-tab"):
            number = PANEL_NAMES.index(self.panel) if self.panel in PANEL_NAMES else -1
            step = -1 if key == "s-tab" else 1
            self.panel = PANEL_NAMES[(number + step) % len(PANEL_NAMES)]
        else:
            return False
        return True

    def _switch_view(self, key: str) -> bool:
        """Change the perspective, the focused seat or the kind of event."""
        if key == "o":
            self.chosen_seat, self.seat = self.focus, None
        elif key in FOCUS and self.seat is None:
            self.chosen_seat = (self.chosen_seat + FOCUS[key]) % self.seats
        elif key in EVENT_KIND:
            self._choose_event_kind(EVENT_KIND[key])
        elif key.isascii() and key.isdecimal() and int(key) < self.seats:
            self.seat = int(key)
        else:
            return False
        return True
