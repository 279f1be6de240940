"""`arena replay branch`: other players from a position of a replay on."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from arena.cli.game_run import GameRun
from arena.cli.options import (
    ModelOptions,
    OutputOptions,
    SeedOptions,
    has_models,
    named_seats,
    seat_model,
)
from arena.cli.replay import ReplayOptions
from arena.cli.terminal import echo, print_grids
from arena.core.errors import UsageError
from arena.core.spec import redacted
from arena.core.text import percentage, pluralize, real_minus, shorten
from arena.evaluation.records import Interval, ReportPart
from arena.llm.config import setting

if TYPE_CHECKING:
    from arena.agents.chat import ChatOptions
    from arena.core.game import Game
    from arena.episodes.record import Position
    from arena.episodes.replay import Replay
    from arena.llm.backend import Sampling

FOLDER = Path("runs/branch")
SHIPPED = ("embedded", "embedded:clue-tiny")
"""The models that a replay may choose: another name after the colon may be a folder."""
LONGEST_STEM = 120
"""Characters of the parent's name: a branch of a branch of a branch has a long one."""


class BranchOptions(ReplayOptions, SeedOptions, ModelOptions, OutputOptions):
    """Options of `arena replay branch`."""

    short_help = "position seat seed games out max_concurrent max_cost as_json"
    help_examples = ("arena replay branch FILE --position 20 --seat 0=bot:oracle --games 10",)

    position: int = setting(0, ge=0)
    """Play on from position N, after N plies."""
    seat: list[str] = setting([], complete="seat")
    """I=SPEC: who plays on there. Default: the player of the replay, if it is a bot."""
    games: int = setting(1, ge=1, le=10**6)
    """Times to play on."""
    max_concurrent: int = setting(16, ge=1, le=10_000)
    """Games played at once."""
    out: Path = setting(FOLDER)
    """Folder for the replays."""


def branch(options: BranchOptions) -> int:
    """Let other players play on from a position of a replay, with the same hidden cards."""
    from arena.episodes.branch import deals_anew, position, turns_left
    from arena.episodes.match import Match

    replay = options.replay()
    game = replay.make_game()
    start = position(replay, options.position)
    specs = _players(replay, game, options.seat)
    if deals_anew(replay, start):
        echo(
            f"note: at position {len(start.plies)} no player has moved; the deal is drawn again",
            file=sys.stderr,
        )
    first, chat = options.first_seed(), branch_chat_options(replay, options)
    with_models = has_models(specs)
    branches = Branches(
        match=Match(
            game,
            specs,
            text_level=replay.header.text_level,
            # A branch keeps the requests of its parent's models, and so their chat options.
            chat=chat if with_models or replay.header.models else None,
            max_turns=turns_left(replay, start, game),
        ),
        seeds=range(first, first + options.games),
        out=options.out,
        max_concurrent=options.max_concurrent,
        llm=options.service() if with_models else None,
        start=start,
        parent=replay,
    )
    branches.check()
    return branches.run(options.as_json)


def _players(replay: Replay, game: Game, seats: list[str]) -> list[str]:
    """Return the SPEC of every seat: the parent's, or that of --seat.

    A replay is untrusted. Its header must not spend money, choose the receiver of requests and
    keys, or choose the files that are read: so it only chooses agents of the package.
    """
    named = named_seats(game, seats)
    for seat, spec in enumerate(replay.header.players):
        if not (seat in named or spec.startswith("bot:") or spec in SHIPPED):
            raise UsageError(
                f"seat {seat} was played by '{shorten(redacted(spec))}', and a replay chooses only "
                f"bots and {SHIPPED[-1]}: say who plays on, with --seat {seat}=SPEC"
            )
    specs = [named.get(seat, spec) for seat, spec in enumerate(replay.header.players)]
    return seat_model(None, specs, [])


def branch_chat_options(replay: Replay, options: ModelOptions) -> ChatOptions:
    """Return the chat options of the replay, changed by the flags of the command line.

    Settings that make requests expensive never exceed the options or their defaults.
    """
    from arena.episodes.branch import models_of

    given = options.chat_options(replay.make_game(), max_turns=replay.header.max_turns)
    usual = ModelOptions().chat_options()
    kept = models_of(replay) or usual
    named = options.given_by("flag")

    def changed(new: ChatOptions | Sampling, old: ChatOptions | Sampling) -> dict[str, Any]:
        values = {each.name: getattr(new, each.name) for each in fields(old)}
        return {n: v for n, v in values.items() if n in named or v != getattr(old, n)}

    sampling = replace(kept.sampling, **changed(given.sampling, usual.sampling))
    asked = replace(kept, **changed(given, usual))
    return replace(
        asked,
        max_attempts=min(asked.max_attempts, given.max_attempts),
        beliefs=asked.beliefs and given.beliefs,
        thinking_room=given.thinking_room,
        sampling=replace(
            sampling,
            max_tokens=min(sampling.max_tokens, given.sampling.max_tokens),
            reasoning_effort=given.sampling.reasoning_effort,
        ),
    )


class BranchSeat(ReportPart):
    """Results of one seat over all games of a branch, beside those of the parent."""

    seat: int
    player: str
    player_before: str
    won: int
    games: int
    win_rate: Interval
    mean_return: float | None
    return_before: float | None
    won_before: bool | None


@dataclass(slots=True, kw_only=True)
class Branches(GameRun):
    """Games that start from one position of a replay."""

    start: Position
    parent: Replay

    def stem(self, seed: int) -> str:
        name = self.start.parent.removesuffix(".part").removesuffix(".jsonl")[:LONGEST_STEM]
        return f"{name}-branch{len(self.start.plies)}-seed{seed}"

    def to_json(self) -> dict[str, JsonValue]:
        outcome = self.parent.outcome
        return {
            "parent": str(self.parent.path),
            "ply": len(self.start.plies),
            "seeds": [self.seeds[0], self.seeds[-1]],
            "outcome": outcome.model_dump(mode="json", exclude={"type"}) if outcome else None,
            "seats": [self._seat(s).model_dump(mode="json") for s in range(len(self.match.specs))],
            "games": [game.model_dump(mode="json") for game in self.results],
        }

    def _seat(self, seat: int) -> BranchSeat:
        from arena.evaluation.statistics import rate

        outcome, played = self.parent.outcome, len(self.results)
        earned = [game.returns[seat] for game in self.results]
        return BranchSeat(
            seat=seat,
            player=redacted(self.match.specs[seat]),
            player_before=self.start.header.players[seat],
            won=self.wins(seat),
            games=played,
            win_rate=Interval.of(rate(self.wins(seat), played)),
            mean_return=sum(earned) / played if played else None,
            return_before=outcome.returns[seat] if outcome else None,
            won_before=outcome.outcome.is_winner(seat) if outcome else None,
        )

    def report(self, interrupted: bool, as_json: bool) -> None:
        """Print a row for each seat and the command that shows the games."""
        if interrupted or len(self.results) < len(self.seeds):
            self.count_games(interrupted)
        if as_json or not self.results:
            return
        from arena.evaluation.document import Grid

        several = len(self.results) > 1
        title = (
            f"{self.start.parent} played on from position {len(self.start.plies)}: "
            f"{pluralize(len(self.results), 'game')}, seed {self.seeds[0]}"
            f"{f' to {self.seeds[-1]}' if several else ''}"
        )
        headings = ["seat", "won", *(["95 %"] if several else []), "return", "in the parent"]
        rows = [_row(self._seat(seat), several) for seat in range(len(self.match.specs))]
        print_grids([Grid(title, headings, rows)])
        echo(f"Look: arena replay {self.results[0].replay}, or all: arena replay {self.out} --web")


def _row(seat: BranchSeat, several: bool) -> list[str]:
    before, player = seat.player_before, seat.player
    name = player if player == before else f"{player} (was {before})"
    rate, earned = seat.win_rate, seat.return_before
    result = "won" if seat.won_before else "not won"
    return [
        f"{seat.seat} {name}",
        f"{seat.won} of {seat.games}",
        *([f"{percentage(rate.low)} to {percentage(rate.high)}"] if several else []),
        real_minus(f"{seat.mean_return:.3g}"),
        "unfinished" if earned is None else real_minus(f"{result}, {earned:g}"),
    ]
