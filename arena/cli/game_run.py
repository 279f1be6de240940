"""Games of `arena play` and of branches: playing, display and results."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, JsonValue

from arena.agents.names import PlayerNames, display_names
from arena.agents.seating import make_agent
from arena.cli.options import games_that_fit, has_models, loading
from arena.cli.terminal import (
    check_folder,
    echo,
    progress_bar,
    run_until_stopped,
    settle_accounts,
)
from arena.core.errors import ArenaError, UsageError
from arena.core.game import Game
from arena.core.spec import Spec
from arena.core.text import pluralize
from arena.episodes.files import ReplayWriter, game_stem
from arena.episodes.match import Watcher, play
from arena.episodes.record import Episode, Failure, Header, OutcomeLine, Position
from arena.plugins.catalog import GAME_FILES

if TYPE_CHECKING:
    from arena.agents.agent import Agent
    from arena.agents.human import HumanAgent
    from arena.core.event import Outcome, Ply
    from arena.core.game import State
    from arena.episodes.match import Match
    from arena.llm.service import LLMService


class PlayedGame(BaseModel):
    """Result of one finished game, as `--json` prints it."""

    model_config = ConfigDict(frozen=True)

    game: str
    variant: str | None
    seed: int
    players: tuple[str, ...]
    winner: int | None
    winners: tuple[int, ...] = ()
    """The winner, or the seats of the team that has won."""
    returns: tuple[float, ...]
    turns: int
    decisions: int
    outcome: str
    replay: str

    @classmethod
    def of(cls, match: Match, seed: int, line: OutcomeLine, replay: Path) -> PlayedGame:
        """Return the result of the game whose replay is this file and ends with this line."""
        seats = range(len(line.returns))
        return cls(
            game=match.game.name,
            variant=getattr(match.game.options, "variant", None),
            seed=seed,
            players=tuple(match.specs),
            winner=line.winner,
            winners=tuple(filter(line.outcome.is_winner, seats)),
            returns=line.returns,
            turns=line.turns,
            decisions=line.decisions,
            outcome=line.status,
            replay=str(replay),
        )


def movers_of(game: Game, episode: Episode) -> set[int]:
    """Return the players who have made a move of their own."""
    seats = set(range(game.num_players))
    if not episode.failures:
        return seats
    # Few games have failures, and the forced moves of those are found by playing them again.
    from arena.evaluation.scoring import count_decisions

    failed = Counter(failure.player for failure in episode.failures)
    decided = count_decisions(game, episode)
    return {seat for seat in seats if failed[seat] < decided[seat]}


@dataclass(slots=True)
class GameRun:
    """The games of one command: what is played, how it is shown, and the results so far."""

    match: Match
    """Set-up of all games; each gets one of the seeds."""
    seeds: range
    out: Path
    max_concurrent: int
    llm: LLMService | None
    """None if no model plays."""
    delay: float = 0.0
    watch: bool = False
    start: Position | None = None
    """Position at which the games start; None for new games."""
    results: list[PlayedGame] = field(default_factory=list)
    """Finished games."""
    unfinished: list[Path] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    movers: set[int] = field(default_factory=set)
    """Players who have made a move of their own in any game."""
    seated: dict[int, list[Agent]] = field(default_factory=dict)
    """Agents that `check` has made, by the seed of the game that they play."""

    @property
    def humans(self) -> int:
        """Number of seats of a person at this terminal."""
        return sum(Spec.parse(spec).is_human for spec in self.match.specs)

    def stem(self, seed: int) -> str:
        """Return the name of the replay of this seed."""
        return game_stem(self.match.game, seed)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the result of all games for `--json`."""
        games = [game.model_dump(mode="json") for game in self.results]
        return games[0] if games and len(self.seeds) == 1 else {"games": [*games]}

    def report(self, interrupted: bool, as_json: bool) -> None:
        """Print the result for people."""
        if len(self.seeds) > 1:
            self.count_games(interrupted)
            scale = self.match.game.return_scale
            names = display_names(self.match.specs)
            for seat, (name, spec) in enumerate(zip(names, self.match.specs, strict=True)):
                won = f"won {self.wins(seat)}"
                if self.results and not scale.names_winner_only:
                    mean = sum(game.returns[seat] for game in self.results) / len(self.results)
                    won += f", mean {scale.name} {mean:.2f}"
                echo(f"  {name:<{max(map(len, names))}}  {spec:<24} {won}", file=sys.stderr)
        elif interrupted:
            kept = "".join(f"; the unfinished game is kept: {path}" for path in self.unfinished)
            echo(f"interrupted{kept}", file=sys.stderr)
        elif not as_json:
            path, files = self.results[0].replay, os.environ.get(GAME_FILES)
            command = f"{GAME_FILES}={files} arena replay" if files else "arena replay"
            # Two lines, so that neither a path nor a word is broken in a narrow terminal.
            echo(f"Replay: {path}\nStep through it: {command} {path}")

    def count_games(self, interrupted: bool) -> None:
        """Print the number of finished games on stderr."""
        echo(
            f"{'Interrupted: ' if interrupted else ''}{len(self.results)} of "
            f"{pluralize(len(self.seeds), 'game')} finished, replays in {self.out}",
            file=sys.stderr,
        )
        if self.unfinished:
            kept = pluralize(len(self.unfinished), "unfinished game")
            echo(f"{kept} kept as *.part there", file=sys.stderr)

    def wins(self, seat: int) -> int:
        """Return the number of games that this seat, or its team, has won alone."""
        return sum(seat in game.winners for game in self.results)

    def check(self) -> None:
        """Check everything before anything is written, and seat the first game.

        Models are loaded last. Raises UsageError and ArenaError.
        """
        most = min(self.max_concurrent, len(self.seeds))
        self.max_concurrent = games_that_fit(most, self.match.specs)
        first = self.match.with_seed(self.seeds[0])
        # Each seat gets its agent once; a wrong name is reported before a model is loaded.
        others: dict[int, Agent] = {
            seat: make_agent(spec, first.seat_of(seat))
            for seat, spec in enumerate(first.specs)
            if not has_models([spec])
        }
        if self.humans and (len(self.seeds) > 1 or self.humans > 1):
            raise UsageError("one person plays one game at a time: --games 1 and one seat 'human'")
        check_folder("--out", self.out)
        with loading(self.match.specs):
            self.seated[first.seed] = first.seat(self.llm, others)

    def run(self, as_json: bool) -> int:
        """Play the games and report them; return the exit code.

        Raises the error that ended the run early.
        """
        return self.conclude(run_until_stopped(self._play_all()), as_json)

    def conclude(self, stop: BaseException | None, as_json: bool) -> int:
        """Report the finished games; return the exit code, or raise the error that ended them."""
        interrupted = isinstance(stop, KeyboardInterrupt)
        self.results.sort(key=lambda game: game.seed)
        try:
            if self.results or interrupted:
                self.report(interrupted, as_json)
            self._report_accounts(as_json)
            if self.llm and not stop:
                self.llm.ledger.check_answers()
            silent = {failure.player for failure in self.failures} - self.movers
            if silent and not stop:
                specs = ", ".join(self.match.specs[seat] for seat in sorted(silent))
                raise ArenaError(f"{specs} made no legal move in any game")
        finally:  # The error that ended the games outranks one of their report.
            if stop and not interrupted:
                raise stop
        return 130 if interrupted else 0

    def _report_accounts(self, as_json: bool) -> None:
        """Print failures, the ledger, and the result as JSON."""
        for seat, name in enumerate(display_names(self.match.specs)):
            texts = [failure.text for failure in self.failures if failure.player == seat]
            if texts:  # Fallback moves make the results doubtful.
                spec, times = self.match.specs[seat], pluralize(len(texts), "time")
                echo(
                    f"warning: {name} ({spec}) failed {times}, and fallback moves were played for "
                    f"it; the first time: {texts[0]}",
                    file=sys.stderr,
                )
        if as_json:
            ledger = {"ledger": self.llm.ledger.to_json()} if self.llm else {}
            print(json.dumps({**self.to_json(), **ledger}))
        settle_accounts(self.llm, self.out, self.stem(self.seeds[0]), quiet=as_json)

    async def _play_all(self) -> None:
        from arena.episodes.job import LOOKAHEAD, run_jobs

        shown = len(self.seeds) == 1 and bool(self.watch or self.humans)
        concurrent = 1 if self.watch else self.max_concurrent
        async with self.llm or nullcontext():
            with progress_bar(hidden=shown) as progress:
                bar = progress.add_task(self.match.game.name, total=len(self.seeds))

                def keep(game: PlayedGame) -> None:
                    self.results.append(game)
                    progress.advance(bar)

                free = asyncio.Semaphore(concurrent)
                async for _ in run_jobs(self.seeds, self._play, LOOKAHEAD * concurrent, free, keep):
                    pass

    async def _play(self, seed: int) -> PlayedGame:
        """Play a game, which people may play and watch at this terminal."""
        match = self.match.with_seed(seed)
        agents = self.seated.pop(seed, None) or match.seat(self.llm)
        writer = ReplayWriter(self.out, self.stem(seed))
        watchers: list[Watcher] = [writer]
        # A person sees only the observation of the own seat, at the prompt.
        if self.humans:
            from arena.agents.human import HumanAgent

            watchers += [Epilogue(agent) for agent in agents if isinstance(agent, HumanAgent)]
        elif self.watch:
            from replays.tui.frame import LiveView

            watchers.append(LiveView(match.game, list(match.specs)))
        try:
            episode = await play(
                match, agents, llm=self.llm, watchers=watchers, delay=self.delay, start=self.start
            )
        finally:
            if writer.unfinished:
                self.unfinished.append(writer.path)
        self.failures += episode.failures
        self.movers |= movers_of(match.game, episode)
        line = OutcomeLine.of(episode.outcome, episode.turns, episode.decisions)
        return PlayedGame.of(match, seed, line, writer.path)


class Epilogue(Watcher):
    """A watcher that shows a person the game after the person's last move, and its end."""

    def __init__(self, agent: HumanAgent) -> None:
        self._agent = agent
        self._state: State | None = None

    def begin(self, header: Header, state: State) -> None:
        self._state = state
        self._agent.names = PlayerNames(display_names(header.players))

    def ply(self, ply: Ply, state: State) -> None:
        """Show the events to a person who is out; else they are shown at the person's next move."""
        if state.is_out(self._agent.player):
            self._agent.print_rest_of_game(state)

    def end(self, outcome: Outcome) -> None:
        self._agent.print_end(self._state, outcome)
