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
from arena.cli.terminal import echo
from arena.core.errors import UsageError
from arena.core.spec import redacted
from arena.core.text import pluralize, shorten
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
    seat: list[str] = setting([])
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
            "outcome": outcome.model_dump(mode="json", exclude={"type"}) if outcome else None,
            "games": [game.model_dump(mode="json") for game in self.results],
        }

    def report(self, interrupted: bool, as_json: bool) -> None:
        """Print how often each seat won, here and in the parent, and where the games are."""
        if interrupted or len(self.results) < len(self.seeds):
            self.count_games(interrupted)
        if as_json or not self.results:
            return
        games = pluralize(len(self.results), "game")
        won = ", ".join(map(self._seat, range(len(self.match.specs))))
        echo(f"{self.start.parent} played on from position {len(self.start.plies)}, {games}: {won}")
        echo(f"Look: arena replay {self.results[0].replay}, or all: arena replay {self.out} --web")

    def _seat(self, seat: int) -> str:
        spec, before = redacted(self.match.specs[seat]), self.start.header.players[seat]
        outcome = self.parent.outcome
        facts = [f"was {before}"] if spec != before else []
        facts += ["won before"] if outcome and outcome.outcome.is_winner(seat) else []
        about = f" ({', '.join(facts)})" if facts else ""
        return f"seat {seat} {spec}{about} won {self.wins(seat)}"
