"""Games of `arena play` and of branches: playing, display and results."""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, JsonValue

from arena.cli.common.accounts import settle_accounts
from arena.cli.common.descriptors import reserve_descriptors
from arena.cli.common.executors import LOCAL, ExecutorFlags
from arena.cli.common.models import has_models, probe_models
from arena.cli.common.terminal import echo, progress_bar, run_until_stopped
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import Spec, redacted
from arena.core.text import pluralize
from arena.episodes.files import game_stem

if TYPE_CHECKING:
    from arena.episodes.executors.executor import Executor
    from arena.episodes.match import Match
    from arena.episodes.record import Failure, OutcomeLine, Position
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


@dataclass(slots=True)
class Table:
    """The games of one command: what is played, how it is shown, and the results so far."""

    match: Match
    """Set-up of all games; each gets one of the seeds."""
    seeds: range
    out: Path
    delay: float
    watch: bool
    max_concurrent: int
    llm: LLMService | None
    """None if no model plays."""
    executor: ExecutorFlags = LOCAL
    probe: bool = False
    """Check the models once before several games."""
    start: Position | None = None
    """Position at which the games start; None for new games."""
    results: list[PlayedGame] = field(default_factory=list)
    """Finished games, also those that an earlier run has left in `out`."""
    unfinished: list[Path] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def persons(self) -> int:
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
            for seat, spec in enumerate(self.match.specs):
                won = f"won {self.wins(seat)}"
                if not scale.is_win_rate:
                    mean = sum(game.returns[seat] for game in self.results) / len(self.results)
                    won += f", mean {scale.name} {mean:.2f}"
                echo(f"  seat {seat}  {spec:<24} {won}", file=sys.stderr)
        elif interrupted:
            kept = "".join(f"; the unfinished game is kept: {path}" for path in self.unfinished)
            echo(f"interrupted{kept}", file=sys.stderr)
        elif not as_json:
            path = self.results[0].replay
            # Two lines, so that neither a path nor a word is broken in a narrow terminal.
            echo(f"Replay: {path}\nStep through it: arena replay {path}")

    def count_games(self, interrupted: bool) -> None:
        """Print the number of finished games on stderr."""
        echo(
            f"{'Interrupted: ' if interrupted else ''}{len(self.results)} of "
            f"{pluralize(len(self.seeds), 'game')} finished, replays in {self.out}",
            file=sys.stderr,
        )
        if self.unfinished:
            kept = pluralize(len(self.unfinished), "unfinished game")
            verb = "is" if len(self.unfinished) == 1 else "are"
            echo(f"{kept} {verb} kept as *.part there", file=sys.stderr)

    def wins(self, seat: int) -> int:
        """Return the number of games that this seat, or its team, has won alone."""
        return sum(seat in game.winners for game in self.results)


def check(table: Table) -> None:
    """Check everything before anything is written; models are loaded last."""
    from arena.agents.agent import Seat
    from arena.agents.seating import make_agent
    from arena.core.seeds import stream

    table.executor.check_executor()
    if table.executor.has_workers and (table.persons or table.watch or table.delay):
        raise UsageError("games in workers cannot be watched: --executor local, or --no-watch")
    reserve_descriptors(min(table.max_concurrent, len(table.seeds)))
    for player, spec in enumerate(table.match.specs):
        if not has_models([spec]):
            make_agent(spec, Seat(table.match.game, player, stream(table.seeds[0], "check")))
    if table.persons and (len(table.seeds) > 1 or table.persons > 1):
        raise UsageError("one person plays one game at a time: --games 1 and one seat 'human'")
    existing = next(p for p in [table.out, *table.out.absolute().parents] if p.exists())
    if not existing.is_dir():
        raise UsageError(f"--out {table.out}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ArenaError(f"cannot write into {existing} (--out {table.out}): permission denied")
    with _preparing(table):
        table.match.with_seed(table.seeds[0]).seat(table.llm)


def _preparing(table: Table) -> AbstractContextManager[object]:
    """Return a status line for the terminal: loading a model may take seconds."""
    models = [redacted(spec) for spec in dict.fromkeys(table.match.specs) if has_models([spec])]
    if not models or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console
    from rich.markup import escape

    return Console(stderr=True).status(escape(f"preparing {', '.join(models)}"))


def run(table: Table, as_json: bool) -> int:
    """Play the games and report them; return the exit code.

    Raises the error that ended the run early.
    """
    stop = run_until_stopped(_play_all(table))
    interrupted = isinstance(stop, KeyboardInterrupt)
    table.results.sort(key=lambda game: game.seed)
    try:
        if table.results or interrupted:
            table.report(interrupted, as_json)
        _report(table, as_json)
    finally:  # The error that ended the games outranks one of their report.
        if stop and not interrupted:
            raise stop
    return 130 if interrupted else 0


def _report(table: Table, as_json: bool) -> None:
    """Print failures, the ledger, and the result as JSON."""
    _warn_of_failures(table)
    if as_json:
        ledger = {"ledger": table.llm.ledger.to_json()} if table.llm else {}
        print(json.dumps({**table.to_json(), **ledger}))
    if table.llm is not None:
        settle_accounts(table.llm.ledger, table.out, table.stem(table.seeds[0]), quiet=as_json)


async def _play_all(table: Table) -> None:
    from arena.episodes.runner import play_many

    max_concurrent = 1 if table.watch else table.max_concurrent
    finished = {game.seed for game in table.results}
    missing = [seed for seed in table.seeds if seed not in finished]
    shown = len(table.seeds) == 1 and bool(table.watch or table.persons)
    async with (
        table.llm or nullcontext(),
        table.executor.make_executor(len(missing), table.llm) as executor,
    ):
        play_one = partial(_play_one, table)
        if table.executor.has_workers:
            play_one = partial(_play_in_worker, table, executor)
            if table.llm is None:  # With two games per worker, no worker waits for its next game.
                max_concurrent = 2 * executor.workers
        if table.llm and table.probe and len(missing) > 1:
            await probe_models(table.llm, table.match.specs)
        with progress_bar(hidden=shown) as progress:
            bar = progress.add_task(
                table.match.game.name, total=len(table.seeds), completed=len(finished)
            )
            async for _ in play_many(play_one, missing, max_concurrent):
                progress.advance(bar)


async def _play_one(table: Table, seed: int) -> None:
    """Play one seed with fresh agents, write its replay and record its result."""
    from arena.episodes.record import OutcomeLine
    from arena.episodes.replay_writer import ReplayWriter
    from arena.episodes.runner import Watcher, play

    writer = ReplayWriter(table.out, table.stem(seed))
    watchers: list[Watcher] = [writer]
    # A person sees only the observation of the own seat, at the prompt.
    if table.watch and not table.persons:
        from replays.tui.live import LiveView

        watchers.append(LiveView(table.match.game, list(table.match.specs)))
    match = _match_of(table, seed)
    agents = match.seat(table.llm)
    if table.persons:
        from arena.cli.playing.epilogue import Epilogue

        watchers += Epilogue.of(agents)
    try:
        episode = await play(
            match, agents, llm=table.llm, watchers=watchers, delay=table.delay, start=table.start
        )
    finally:
        if writer.unfinished:
            table.unfinished.append(writer.path)
    table.failures += episode.failures
    line = OutcomeLine.of(episode.outcome, episode.turns, episode.decisions)
    table.results.append(PlayedGame.of(table.match, seed, line, writer.path))


def _match_of(table: Table, seed: int) -> Match:
    # A branch keeps the requests of its parent's models, and so their chat options.
    branch_of_models = table.start is not None and table.start.header.models is not None
    match = table.match.with_seed(seed)
    return match if table.llm or branch_of_models else replace(match, chat=None)


async def _play_in_worker(table: Table, executor: Executor, seed: int) -> None:
    """Play one seed in a worker, write the replay of the game, and record the result."""
    from arena.episodes.record import OutcomeLine
    from arena.episodes.replay_writer import write_episode
    from arena.episodes.runner import play_in_worker

    work = partial(play_in_worker, _match_of(table, seed), table.start)
    episode = await executor.run(work, table.match.specs, f"the game of seed {seed}")
    path = write_episode(table.out, table.stem(seed), episode)
    table.failures += episode.failures
    line = OutcomeLine.of(episode.outcome, episode.turns, episode.decisions)
    table.results.append(PlayedGame.of(table.match, seed, line, path))


def _warn_of_failures(table: Table) -> None:
    """Warn of fallback moves: they make the results doubtful."""
    for seat, spec in enumerate(table.match.specs):
        texts = [failure.text for failure in table.failures if failure.player == seat]
        if texts:
            echo(
                f"warning: seat {seat} ({spec}) failed {pluralize(len(texts), 'time')}, and "
                f"fallback moves were played for it; the first time: {texts[0]}",
                file=sys.stderr,
            )
