"""Agent for a person at this terminal, who reads the observation and types an action.

Each turn shows what is new, the table where the game draws one, and the legal actions, in this
order: the table is always just above the prompt.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from prompt_toolkit import PromptSession
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from arena.agents.agent import Seat
from arena.agents.display import Picture, draw_table, ending
from arena.agents.names import HUMAN, PlayerNames, display_names, person_spec
from arena.agents.typed_action import ActionCompleter, guess, parse, usual_action
from arena.core.action import Action
from arena.core.errors import ActionError
from arena.core.event import Decision, Event, Outcome
from arena.core.game import State
from arena.core.observation import Observation

HELP = (
    "Type an action; Tab completes it, and a few words of it are often enough. Also: 'all' repeats "
    "everything so far, 'table' draws the table, 'help' gives the rules, Ctrl-D leaves."
)
PICTURE_WIDTH = 80
"""Columns that a picture may need."""
MENU_LINES = 4
"""Lines below the prompt that are kept for the completions."""
YES = ("y", "yes")


class HumanAgent:
    """Asks a person. Only the seat's own observation is shown."""

    decision_seconds = None

    def __init__(self, rest: str, seat: Seat) -> None:
        self._seat = seat
        specs = [HUMAN] * seat.game.num_players
        specs[seat.player] = person_spec(rest)
        self.names = PlayerNames(display_names(specs))
        """Names of the players; those of the others are known when the game begins."""
        # Number of events that were printed already.
        self._read = 0
        self._is_introduced = False
        self._console = Console()

    async def act(self, observation: Observation) -> Decision:
        """Show the turn and ask until the answer is a legal action."""
        self._show_turn(observation)
        default = usual_action(observation)
        while True:
            answer = (await self._ask(observation, default)).strip()
            if not answer:
                action = default
            elif self._answered(answer, observation):
                continue
            else:
                action, offered = self._interpret(answer, observation)
                default = offered or default
            # An empty line without an offer asks again without a message.
            if action is not None and await self._is_sure(action):
                return Decision(action)

    @property
    def player(self) -> int:
        """The seat of the person."""
        return self._seat.player

    def _named(self, text: object) -> str:
        return self.names.text(str(text))

    def print_rest_of_game(self, state: State) -> None:
        """Print the events that the seat has witnessed since it has last read any."""
        witnessed = state.log.witnessed[self.player]
        for event in witnessed[self._read :]:
            self._print(self._seat.game.text.narrate(event))
        self._read = len(witnessed)

    def print_end(self, state: State | None, outcome: Outcome) -> None:
        """Print the rest of the game, the table at its end, and the result in plain words."""
        if state is not None:
            self.print_rest_of_game(state)
            self._draw_table(state.log.witnessed[self.player])
        self._print(ending(self._seat.game, outcome, self.player), "bold")

    def _show_turn(self, observation: Observation) -> None:
        """Print what is new, the table, and the legal actions."""
        if not self._is_introduced:
            self._is_introduced = True
            game = self._seat.game
            self._print(f"{game.title}: {game.summary}.\n{HELP}\n")
        elif self._console.is_terminal:
            self._console.print(
                Rule(Text(f"you are {self.names.of(self.player)}", "dim"), style="dim")
            )
        picture = draw_table(self._seat.game, observation.events, self.player, self._named)
        level = self._seat.text_level
        # The notebook is not repeated in words where the picture shows it.
        if level == "notes" and picture is not None and observation.game.text.table_shows_notes:
            level = "events"
        news, actions = split_actions(observation.text(level, self._read), observation)
        self._print(news)
        self._print_picture(picture)
        self._print(actions)
        self._read = observation.num_events

    def _interpret(
        self, answer: str, observation: Observation
    ) -> tuple[Action | None, Action | None]:
        """Return the action that was typed, or None and the action that Enter accepts now."""
        typed = self.names.typed(answer)
        try:
            return parse(typed, observation), None
        except ActionError:
            meant = guess(typed, observation)
        if meant.action is not None:
            self._print(f"Did you mean '{meant.action}'? Enter accepts it; or type another action.")
        else:
            self._print(f"{meant.remark} ('help' gives the rules.)")
        return None, meant.action

    def _print(self, text: str, style: str = "") -> None:
        """Print text, wrapped between words on a terminal and unchanged on a pipe."""
        if not text:
            return
        wrap = not self._console.is_terminal
        self._console.print(Text(self._named(text), style), highlight=False, soft_wrap=wrap)

    def _answered(self, answer: str, observation: Observation) -> bool:
        """Carry out a command (`help`, `all`, `table`); return False for anything else."""
        if answer in ("help", "?"):
            self._print(f"{observation.game.text.rules()}\n\n{HELP}")
        elif answer == "all":
            self._print(observation.text(self._seat.text_level))
        elif answer == "table":
            if not self._draw_table(observation.events):
                self._print("This game has no table to draw; try 'all'.")
        else:
            return False
        return True

    def _draw_table(self, events: Sequence[Event]) -> bool:
        """Print the table; return whether there is one."""
        picture = draw_table(self._seat.game, events, self.player, self._named)
        self._print_picture(picture)
        return picture is not None

    def _print_picture(self, picture: Picture | None) -> None:
        if picture is None:
            return
        # On a narrow terminal in words.
        is_narrow = self._console.width < PICTURE_WIDTH
        self._console.print(
            Text(self._named(picture.table.text())) if is_narrow else picture.renderable
        )
        legend = picture.table.legend
        if legend and not is_narrow:
            signs = "   ".join(f"{sign} {meaning}" for sign, meaning in legend.items())
            self._print(signs, "dim")

    async def _is_sure(self, action: Action) -> bool:
        """Ask again before an irrevocable action. On a pipe, a line is a decision."""
        if not self._seat.game.is_irrevocable(action) or not _has_keyboard():
            return True
        answer = await _prompt(f"{self._named(action)}: this cannot be taken back. Sure? [y/N] ")
        return answer.strip().casefold() in YES

    async def _ask(self, observation: Observation, default: Action | None) -> str:
        prompt = "You> "
        if default is not None:
            prompt = f"You [Enter: {self._named(default)}]> "
        # A person who closes the input leaves, and the game cannot go on without that seat.
        if sys.stdin is None:
            raise KeyboardInterrupt
        # Completion needs a terminal. On a pipe, plain lines are read in a thread, so that other
        # players go on.
        if _has_keyboard():
            legal = observation.legal_actions
            words = [*map(str, legal), *(f"{offer.kind.verb} " for offer in legal.speech)]
            return await _prompt(prompt, [*map(self._named, words)])
        print(prompt, end="", flush=True)
        line: str = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            raise KeyboardInterrupt
        return line


def split_actions(text: str, observation: Observation) -> tuple[str, str]:
    """Split the text of an observation into what has happened and the legal actions at its end.

    The second part is empty if the end is not found: the text is then shown in one piece.
    """
    # After all events, and without notes, only the legal actions are left.
    actions = observation.text("events", observation.num_events).split("\n")
    lines = text.split("\n")
    end = lines[-len(actions) :]
    # A first text may add an example to the line.
    if len(end) < len(actions) or not all(map(str.startswith, end, actions)):
        return text, ""
    return "\n".join(lines[: -len(actions)]), "\n".join(end)


def _has_keyboard() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


async def _prompt(prompt: str, words: Sequence[str] = ()) -> str:
    """Read a line from the keyboard; Tab completes the words."""
    completer = ActionCompleter(words) if words else None
    session: PromptSession[str] = PromptSession(
        completer=completer,
        complete_while_typing=completer is not None,
        # More lines would push the table out of a terminal of 24 lines.
        reserve_space_for_menu=MENU_LINES if completer else 0,
    )
    try:
        answer: str = await session.prompt_async(prompt)
    except EOFError:
        raise KeyboardInterrupt from None
    return answer
