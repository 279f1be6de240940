"""Options and numbers of a game of codenames; `game` adds positions and texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pydantic import Field

from arena import WIN_RATE, Action, Game, GameOptions
from games.codenames.associations import WORDS
from games.codenames.moves import ASSASSIN, NEUTRAL, PASS, STOP, TEAMS, Clue, GuessWord


class CodenamesOptions(GameOptions):
    """Options of `codenames`."""

    players: int = Field(
        4, ge=4, le=8, multiple_of=2, description="Number of seats, half of them in each team."
    )
    rows: int = Field(5, ge=3, le=5, description="Rows of words on the table.")
    columns: int = Field(5, ge=3, le=5, description="Words in each row.")


class CodenamesBase(Game):
    """What the positions, texts, views and bots of codenames need to know about the game."""

    name = "codenames"
    summary = "find words by clues"
    Options = CodenamesOptions
    options: CodenamesOptions
    speech = (Clue,)
    return_scale = replace(WIN_RATE, par=0.5, team_names=("blue", "orange"))

    @property
    def num_players(self) -> int:
        return self.options.players

    @property
    def num_words(self) -> int:
        """Number of words on the table."""
        return self.options.rows * self.options.columns

    @property
    def owner_counts(self) -> Mapping[str, int]:
        """Number of words of each owner; in the same proportions as 9, 8, 7 and 1 of 25."""
        first = (9 * self.num_words + 12) // 25  # Rounded to the nearest number.
        neutral = self.num_words - 2 * first
        return {TEAMS[0]: first, TEAMS[1]: first - 1, NEUTRAL: neutral, ASSASSIN: 1}

    def _all_actions(self) -> Iterable[Action]:
        # All words of the list, so that a number means the same action in every game.
        return (PASS, STOP, *map(GuessWord, WORDS))
