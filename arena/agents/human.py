"""Agent for a person at this terminal, who reads the observation and types an action."""

from __future__ import annotations

import asyncio
import difflib
import re
import sys
from collections.abc import Iterable, Iterator

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from rich.console import Console

from arena.agents.agent import Seat
from arena.agents.reply.phrasebook import phrasebook
from arena.core.action import Action, normalise
from arena.core.errors import ActionError, UsageError
from arena.core.game import State
from arena.core.observation import Observation
from arena.core.ply import Decision
from arena.plugins.views import draw_picture

HELP = (
    "Type an action; Tab completes it. Also: 'table' draws the table, 'all' repeats everything so "
    "far, 'help' gives the rules, Ctrl-D leaves."
)


class HumanAgent:
    """Asks a person. Only the seat's own observation is shown."""

    def __init__(self, rest: str, seat: Seat) -> None:
        if rest:
            raise UsageError(f"seat {seat.player}: 'human' takes no name, not 'human:{rest}'")
        self._seat = seat
        # Number of events that were printed already.
        self._read = 0
        self._console = Console()

    async def act(self, observation: Observation) -> Decision:
        if not self._read:
            self._say(f"{HELP}\n")
        self._say(observation.text(self._seat.text_level, self._read))
        self._read = observation.num_events
        while True:
            answer = (await self._ask(observation)).strip()
            # An empty line asks again without a message.
            if answer and not self._answered(answer, observation):
                try:
                    return Decision(parse(answer, observation))
                except ActionError as error:
                    self._say(f"{error}. {HELP}")

    def print_rest_of_game(self, state: State) -> None:
        """Print the events that the seat has witnessed since its last decision."""
        game = self._seat.game
        for event in state.log.witnessed[self._seat.player][self._read :]:
            self._say(game.narrate(event))

    def _say(self, text: str) -> None:
        """Print text, wrapped between words on a terminal and unchanged on a pipe."""
        wrap = not self._console.is_terminal
        self._console.print(text, markup=False, highlight=False, soft_wrap=wrap)

    def _answered(self, answer: str, observation: Observation) -> bool:
        """Carry out a command (`help`, `all`, `table`); return False for anything else."""
        if answer in ("help", "?"):
            self._say(observation.game.rules())
        elif answer == "all":
            self._say(observation.text(self._seat.text_level))
        elif answer == "table":
            self._draw_table(observation)
        else:
            return False
        return True

    def _draw_table(self, observation: Observation) -> None:
        picture = draw_picture(self._seat.game, observation.events, observation.player)
        if picture is None:
            self._say("This game has no table to draw; try 'all'.")
        else:
            self._console.print(picture.renderable)

    async def _ask(self, observation: Observation) -> str:
        prompt = f"{observation.game.seat_names[observation.player]}> "
        # A person who closes the input leaves, and the game cannot go on without that seat.
        if sys.stdin is None:
            raise KeyboardInterrupt
        # Completion needs a terminal. On a pipe, plain lines are read in a thread, so that other
        # players go on.
        if sys.stdin.isatty():
            return await _prompt(prompt, observation)
        print(prompt, end="", flush=True)
        line: str = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            raise KeyboardInterrupt
        return line


def parse(answer: str, observation: Observation) -> Action:
    """Return the action of this text; a prefix is enough if it fits one legal action only.

    Raises an ActionError, which names the nearest legal action if one is near.
    """
    speech = observation.game.actions.parse_speech(answer)
    if speech is not None:
        observation.legal_actions.check(speech)
        return speech
    wanted = normalise(answer)
    legal = {normalise(str(action)): action for action in observation.legal_actions}
    fitting = [action for text, action in legal.items() if text.startswith(wanted)]
    if len(fitting) == 1:
        return fitting[0]
    try:
        return observation.parse(answer)
    except ActionError as error:
        # The words of an action in another order, as models may write it too.
        book = phrasebook(observation.game)
        meant = [a for a in book.meant(answer.casefold()) if a in observation.legal_actions]
        if len(meant) == 1 and not observation.game.is_irrevocable(meant[0]):
            return meant[0]
        near = difflib.get_close_matches(wanted, legal, n=1, cutoff=0.7)
        if not near:
            raise
        raise type(error)(f"{error}; did you mean '{legal[near[0]]}'?") from None


class ActionCompleter(Completer):
    """Completes an action piece by piece: the verb, then each name."""

    def __init__(self, actions: Iterable[str]) -> None:
        self._texts = [*actions, "table", "all", "help"]

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


async def _prompt(prompt: str, observation: Observation) -> str:
    legal = observation.legal_actions
    completer = ActionCompleter([*map(str, legal), *(f"{o.kind.verb} " for o in legal.speech)])
    session: PromptSession[str] = PromptSession(completer=completer, complete_while_typing=True)
    try:
        answer: str = await session.prompt_async(prompt)
    except EOFError:
        raise KeyboardInterrupt from None
    return answer
