"""One game that people play: its links, its pages, its clock and its replay."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import replace
from pathlib import Path

from arena.agents.display import ending
from arena.agents.names import display_names, person_spec
from arena.agents.seating import level_bot
from arena.agents.typed_action import guess, parse
from arena.core.action import Action
from arena.core.errors import ActionError, ArenaError, UsageError
from arena.core.event import Outcome, Ply
from arena.core.game import State
from arena.core.observation import Observation
from arena.core.text import shorten
from arena.episodes.files import ReplayWriter
from arena.episodes.match import Watcher
from arena.episodes.session import GameSession
from arena.llm.backend import ModelService
from replays.web.play.advice import UsedHelp, hint_json, strong_move
from replays.web.play.documents import AnswerJson, Help, OverJson, PartsJson, SeatMessage
from replays.web.play.links import MAX_PAGES, Link, Page, WebGameSetup, allows_advice, offered_help
from replays.web.play.seat_view import SeatView, offer

HIDDEN_FOLDER = ".playing"
"""Folder of replays of games in play. The viewer does not serve it, since a replay holds the cards
of all seats."""


class WebGame(Watcher):
    """A game whose persons play through links. It starts when each of them has opened theirs.

    It is used in one event loop.
    """

    def __init__(
        self,
        setup: WebGameSetup,
        out: Path,
        stem: str,
        llm: ModelService | None = None,
        served_as: str | None = None,
    ) -> None:
        """Prepare the game; it starts when all persons are there.

        Its replay has the name `stem` in `out`, whose path in the viewer is `served_as`, see
        `WebGames`.
        """
        self.setup = setup
        self.game = setup.match.game
        self.pace = setup.pace
        """Seconds between moves."""
        self.quiet_since = time.monotonic()
        """When the last page was closed."""
        self._out, self._stem, self._llm, self._served_as = out, stem, llm, served_as
        self._session: GameSession | None = None
        self._read = 0
        self._is_closing = False
        self._tasks: list[asyncio.Task[None]] = []
        self._decided = {seat: asyncio.Event() for seat in setup.persons}
        self._specs = list(setup.match.specs)
        self._used = {seat: UsedHelp() for seat in setup.persons}
        self.links = {seat: Link(SeatView(self.game, seat)) for seat in setup.persons}
        self.spectators = Link(SeatView(self.game, None))

    @property
    def all_links(self) -> list[Link]:
        return [*self.links.values(), self.spectators]

    @property
    def has_pages(self) -> bool:
        return any(link.pages for link in self.all_links)

    # Pages

    def open_page(self, link: Link) -> Page:
        """Add a page, and start the game if it is that of the last person.

        Raises:
            UsageError: Too many pages are open at this link.
        """
        if len(link.pages) >= MAX_PAGES:
            raise UsageError(f"this link is open in {MAX_PAGES} pages already: close one of them")
        page = Page()
        link.pages.add(page)
        self._change_all()  # The others see who is there.
        if self._session is None and all(each.pages for each in self.links.values()):
            self._start()
        return page

    def close_page(self, link: Link, page: Page) -> None:
        link.pages.discard(page)
        self.quiet_since = time.monotonic()
        self._change_all()

    def parts(self, link: Link) -> PartsJson:
        """Return what a link shows now."""
        if link.parts is None:
            present = [
                bool(self.links[seat].pages) if seat in self.links else None
                for seat in range(self.game.num_players)
            ]
            names = display_names(self._specs)
            link.parts = link.view.parts(names, present, self._observation(link.view))
        return link.parts

    # What persons do

    def take(self, seat: int, message: SeatMessage) -> AnswerJson:
        """Carry out a message of a person; an empty answer means that it was.

        Raises:
            ArenaError: It is not this seat's turn, or the message has neither part.
        """
        if message.help is not None:
            return self._show_help(seat, message.help)
        if message.name is not None:
            self.rename(seat, message.name)
            return {}
        if message.skip:
            # Other people want to follow the game.
            self.pace = 0 if len(self.links) == 1 else self.pace
            return {}
        if message.act is None or message.turn is None:
            raise UsageError("send 'act' with 'turn', 'help', 'advise', 'skip' or 'name'")
        return self._act(seat, message.act, message.turn, message.sure)

    def rename(self, seat: int, name: str) -> None:
        """Show a person under this name; the replay has it if the game has not started.

        Raises:
            UsageError: It cannot be a name.
        """
        self._specs[seat] = person_spec(name)
        self._change_all()

    def _show_help(self, seat: int, level: Help) -> AnswerJson:
        if level not in offered_help(self.setup):
            raise UsageError(f"this game does not offer the help '{level}'")
        self.links[seat].view.help = level
        self._used[seat].show(level)
        self.links[seat].change()
        return {}

    async def advise(self, seat: int, turn: int) -> AnswerJson:
        """Return what a strong player would do in this turn.

        Raises:
            ArenaError: This table gives no advice, it is not this turn, or the bot fails.
        """
        if not allows_advice(self.setup):
            raise UsageError("this table gives no advice")
        observation = self._started().awaited(seat, turn)
        # In a thread: some bots think for seconds.
        spec = level_bot(self.game, "strong")
        action = await asyncio.to_thread(strong_move, self.game, spec, observation)
        self._started().awaited(seat, turn)  # It may be over by now.
        self._used[seat].advice["hint"] = str(action)
        return {"hint": hint_json(self.game, spec, action, self.links[seat].view.known())}

    def _act(self, seat: int, text: str, turn: int, sure: bool) -> AnswerJson:
        session = self._started()
        observation = session.awaited(seat, turn)
        try:
            action = read_action(text, observation)
        except ActionError:
            meant = guess(text, observation)
            if meant.action is not None:
                return {"offer": str(meant.action)}
            return {"error": meant.remark}
        if self.game.is_irrevocable(action) and not sure:
            return {"confirm": str(action)}
        session.act(seat, action, turn, self._used[seat].take(self.links[seat].view.help))
        self._end_turn(seat)
        return {}

    def _end_turn(self, seat: int) -> None:
        self.links[seat].view.turn = None
        self.links[seat].change()
        self._decided[seat].set()

    def _started(self) -> GameSession:
        if self._session is None:
            raise UsageError("the game has not started: it waits for the other people")
        return self._session

    # The game

    def _start(self) -> None:
        setup = self.setup
        # Not in the folder of the viewer while it is played: it holds all hands.
        writer = ReplayWriter(self._out / HIDDEN_FOLDER, f"{self._stem}-{secrets.token_hex(4)}")
        try:
            self._session = session = GameSession(
                replace(setup.match, specs=tuple(self._specs)),
                setup.persons,
                llm=self._llm,
                watchers=(self, writer),
                turn_seconds=setup.clock,
                delay=lambda: self.pace,
                start=setup.start,
            )
        except ArenaError as error:
            self._fail(error)
            return
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._follow(session, seat)) for seat in setup.persons]
        self._tasks.append(loop.create_task(self._finish(session, writer)))

    async def _follow(self, session: GameSession, seat: int) -> None:
        """Show each decision of a seat to its person."""
        while True:
            try:
                turn = await session.turn(seat)
            except ArenaError:
                return  # `_finish` reports it.
            if turn.is_over:
                return
            self._decided[seat].clear()
            clock = self.setup.clock
            until = None if clock is None else time.time() + clock
            self.links[seat].view.turn = offer(turn.observation, turn.number, until)
            self.links[seat].change()
            await self._decided[seat].wait()

    async def _finish(self, session: GameSession, writer: ReplayWriter) -> None:
        """Wait for the end, and move the replay to where the viewer finds it."""
        await session.wait()
        try:
            assert session.episode
            replay = publish(writer.path, self._out, self._stem)
        except ArenaError as error:
            if not self._is_closing:
                self._fail(error)
            return
        for link in self.all_links:
            over = link.view.over
            if over is not None and self._served_as is not None:
                path = f"{self._served_as}/{replay.name}".lstrip("/")
                link.view.over = {**over, "replay": path}
            link.change()

    def _fail(self, error: ArenaError) -> None:
        # The text of an error may name what a seat may not know, so it is for the terminal only.
        print(f"{self._stem}: the game has stopped: {shorten(str(error))}", flush=True)
        for link in self.all_links:
            link.view.error = "the game has stopped; the terminal of the server shows the reason"
            link.view.turn = None
            link.change()

    async def stop(self) -> None:
        """End the game if it goes on; the unfinished replay is kept."""
        self._is_closing = True
        if self._session is not None:
            await self._session.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _observation(self, view: SeatView) -> Observation | None:
        # Nothing is known, and there is no position, before the first ply.
        if view.seat is None or self._session is None or not self._read:
            return None
        return self._session.observe(view.seat)

    def _change_all(self) -> None:
        for link in self.all_links:
            link.change()

    # What the game reports to its watchers

    def ply(self, ply: Ply, state: State) -> None:
        """Show the new events to the views whose viewers have witnessed them."""
        new = state.log.events[self._read :]
        self._read = len(state.log.events)
        for link in self.all_links:
            # Without an event the viewer must not notice that there was a ply.
            if link.view.read(new):
                link.change()
        if ply.player in self.links and self.links[ply.player].view.turn is not None:
            self._end_turn(ply.player)  # The time was up.

    def end(self, outcome: Outcome) -> None:
        """Show the end to everyone."""
        for link in self.all_links:
            link.view.turn = None
            link.view.over = self._over(outcome, link.view.seat)
            link.change()

    def _over(self, outcome: Outcome, seat: int | None) -> OverJson:
        won, scores, scale = None, list(outcome.returns), self.game.return_scale
        if scale.is_win_rate or not scale.unit:
            scores = [float(outcome.is_winner(each)) for each in range(self.game.num_players)]
        if seat is not None and scale.has_winner and scale.has_rivals:
            won = outcome.is_winner(seat)
        return {
            "text": ending(self.game, outcome, seat),
            "won": won,
            "scores": scores,
            "unit": "" if scale.is_win_rate else scale.unit,
            "replay": None,
        }


def read_action(text: str, observation: Observation) -> Action:
    """Return the action of a text. Raises ActionError for one that needs a guess."""
    # A click sends the whole text, and comparing that is much faster than reading.
    for action in observation.legal_actions:
        if str(action) == text:
            return action
    return parse(text, observation)


def publish(finished: Path, out: Path, stem: str, suffix: str = ".jsonl") -> Path:
    """Move a replay to the first free name of its stem. Raises ArenaError."""
    number = 1
    while True:
        path = out / (f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}")
        try:
            # A hard link fails if the name is taken, so nothing is overwritten.
            path.hardlink_to(finished)
            finished.unlink()
            return path
        except FileExistsError:
            number += 1
        except OSError as error:
            raise ArenaError(f"cannot write {path}: {error.strerror}; {finished} is kept") from None
