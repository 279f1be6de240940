"""A person at this terminal: reads what its seat may know, and types an action."""

from __future__ import annotations

import asyncio
import sys

from arena.action import Action, normalise
from arena.agent import Decision, Seat
from arena.errors import ActionError, UsageError
from arena.observation import Observation

HELP = "Type an action; Tab completes it. 'help': the rules, 'all': everything so far, 'table'."


class HumanAgent:
    """Asks a person. Only the seat's own observation is shown."""

    def __init__(self, rest: str, seat: Seat) -> None:
        if rest:
            raise UsageError(f"seat {seat.player}: 'human' takes no name, not 'human:{rest}'")
        self._seat = seat
        self._read = 0

    async def act(self, observation: Observation) -> Decision:
        if not self._read:
            print(f"{HELP}\n")
        print(observation.text(self._seat.text_level, self._read))
        self._read = observation.num_events
        while True:
            answer = (await self._ask(observation)).strip()
            if answer and not self._answered(answer, observation):
                try:
                    return Decision(parse(answer, observation))
                except ActionError as error:
                    print(f"{error}. {HELP}")

    def _answered(self, answer: str, observation: Observation) -> bool:
        """Carry out the words that are no action."""
        game = observation.game
        if answer == "help":
            print(game.rules())
        elif answer == "all":
            print(observation.text(self._seat.text_level))
        elif answer == "table":
            print(game.diagram(observation.events))
        else:
            return False
        return True

    async def _ask(self, observation: Observation) -> str:
        prompt = f"{observation.game.seat_names[observation.player]}> "
        if sys.stdin.isatty():
            return await _prompt(prompt, observation)
        print(prompt, end="", flush=True)
        line: str = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            raise KeyboardInterrupt  # The person has closed the input: the game is over for all.
        return line


def parse(answer: str, observation: Observation) -> Action:
    """The action meant; one legal action left of those that begin so is enough."""
    wanted = normalise(answer)
    fitting = [a for a in observation.legal_actions if normalise(str(a)).startswith(wanted)]
    return fitting[0] if len(fitting) == 1 else observation.parse(answer)


async def _prompt(prompt: str, observation: Observation) -> str:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter

    words = [*map(str, observation.legal_actions), "help", "all", "table"]
    completer = WordCompleter(words, ignore_case=True, sentence=True, match_middle=True)
    session: PromptSession[str] = PromptSession(completer=completer, complete_while_typing=True)
    try:
        answer: str = await session.prompt_async(prompt)
        return answer
    except EOFError:
        raise KeyboardInterrupt from None
