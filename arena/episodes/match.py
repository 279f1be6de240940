"""A match: the one set-up of a game that play, evaluation, training and held-out games share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from arena.agents.agent import Agent, Seat
from arena.agents.chat import ChatOptions
from arena.agents.seating import make_agent
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import TextLevel
from arena.core.seeds import check_seed, stream
from arena.core.spec import redacted
from arena.episodes.record import Header, Position
from arena.llm.backend import ModelService


@dataclass(frozen=True, slots=True)
class Match:
    """One game to play: rules, players, seed, the text that players read, and limits.

        match = Match(make_game("cluedo", players=3), ("bot:oracle", "bot:novice", "bot:novice"))
        episode = await play(match)

    Immutable and picklable. Equal matches with deterministic agents give equal episodes.
    """

    game: Game
    specs: Sequence[str] = ()
    """The SPEC of each seat; names for the record where `play` is given agents. Empty: the names
    of the agents' classes."""
    seed: int = 0
    """Seeds chance, the agents and the fallback moves."""
    text_level: TextLevel = "notes"
    chat: ChatOptions | None = None
    """How models are asked; None if no model plays."""
    max_turns: int | None = None
    """Turns after which the game is truncated; None for the game's own limit."""
    agents_seed: int | None = None
    """Seeds the agents' own draws instead of `seed`: games of one deal that differ in play."""

    def __post_init__(self) -> None:
        """Raises UsageError for a seed or a limit of a wrong type or out of range."""
        check_seed(self.seed)
        if self.agents_seed is not None:
            check_seed(self.agents_seed, "agents_seed")
        self.game.turn_limit(self.max_turns)
        # The class is frozen, so the assignment goes around it. A tuple makes the match hashable.
        object.__setattr__(self, "specs", tuple(self.specs))

    def with_seed(self, seed: int) -> Match:
        """Return the same match on the deal of another seed."""
        return replace(self, seed=seed)

    @property
    def turn_limit(self) -> int | None:
        """The limit that applies: that of the match, or the game's own; None for no limit."""
        return self.game.turn_limit(self.max_turns)

    def seat(
        self, llm: ModelService | None = None, given: Mapping[int, Agent] | None = None
    ) -> list[Agent]:
        """Make a fresh agent for each seat. Raises UsageError.

        Args:
            llm: Answers for models.
            given: Agents of some seats, which are made elsewhere; their SPECs are names only.
        """
        given = given or {}
        return [
            given[player] if player in given else make_agent(spec, self.seat_of(player, llm))
            for player, spec in enumerate(self.specs)
        ]

    def seat_of(self, player: int, llm: ModelService | None = None) -> Seat:
        """Return the seat of a player, from which an agent is made; `llm` answers for models."""
        # Each seat has its own stream, so a change of one agent does not shift the draws of the
        # others.
        seed = self.seed if self.agents_seed is None else self.agents_seed
        return Seat(
            self.game,
            player,
            stream(seed, f"agent {player}"),
            self.text_level,
            llm,
            self.chat or ChatOptions(),
            self.turn_limit,
        )

    def header(self, agents: Sequence[Agent], start: Position | None = None) -> Header:
        """Return the first line of the replay. Raises UsageError for a wrong number of agents."""
        names = self.specs or tuple(type(agent).__name__ for agent in agents)
        if not len(agents) == len(names) == self.game.num_players:
            needed = self.game.num_players
            raise UsageError(f"{self.game!r} needs {needed} agents, not {len(agents)}")
        return Header.of(
            self.game,
            self.seed,
            # The replay must not hold the password of a URL.
            [redacted(name) for name in names],
            self.turn_limit,
            self.text_level,
            self.chat,
            start,
        )
