"""`arena replay --branch` and `--ask`: what other players would have done."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.models import ModelFlags, has_models, seat_model
from arena.cli.options import specs_from_flags
from arena.cli.table import Table, check, run
from arena.errors import UsageError

if TYPE_CHECKING:
    from arena.backend import Sampling
    from arena.cli.replay import WhatIfFlags
    from arena.episode import Position
    from arena.game import Game
    from arena.observation import Json
    from arena.prompt import ChatOptions
    from arena.replay import Replay

FOLDER = Path("runs/branch")
LONGEST_STEM = 120
"""Characters of the parent's name: a branch of a branch of a branch has a long one."""


def branch(
    replay: Replay,
    what_if: WhatIfFlags,
    seats: list[str],
    out: Path | None,
    asking: ModelFlags,
    as_json: bool,
) -> int:
    """Play on from a position, and say what came of it."""
    from arena.branch import deals_anew, position, turn_limit

    game, header = replay.make_game(), replay.header
    start = position(replay, what_if.branch or 0)
    specs = _players(replay, game, seats)
    if deals_anew(replay, start):
        print(
            f"note: at ply {len(start.plies)} nobody has moved; it is dealt anew", file=sys.stderr
        )
    seed = what_if.seed
    first = random.SystemRandom().randrange(2**31) if seed is None else seed
    table = Branches(
        game=game,
        specs=specs,
        seeds=range(first, first + what_if.games),
        out=FOLDER if out is None else out,
        text_level=header.text_level,
        max_turns=turn_limit(replay, game),
        delay=0.0,
        watch=False,
        at_once=what_if.at_once,
        chat=asked_how(replay, asking),
        llm=asking.service() if has_models(specs) else None,
        start=start,
        parent=replay,
    )
    check(table)
    return run(table, as_json)


def _players(replay: Replay, game: Game, seats: list[str]) -> list[str]:
    """The SPEC of every seat: the parent's where no --seat names another."""
    from arena.registry import catalog

    given = specs_from_flags(game, seats)
    named = {int(text.partition("=")[0]) for text in seats}
    known = {*catalog().names("agent"), *catalog().names("backend")}
    for seat, spec in enumerate(replay.header.players):
        if seat in named:
            continue
        # A replay may come from anywhere, and whoever is asked at a URL is sent a key.
        if "//" in spec:
            raise UsageError(
                f"seat {seat} was played by '{spec}'; a replay does not choose a server: "
                f"say who plays on, with --seat {seat}=SPEC"
            )
        if spec.partition(":")[0] not in known:
            raise UsageError(
                f"seat {seat} was played by '{spec}', which is no SPEC: say who plays on, with "
                f"--seat {seat}=SPEC"
            )
        given[seat] = spec
    return seat_model(None, given, [])


def asked_how(replay: Replay, asking: ModelFlags) -> ChatOptions:
    """As models were asked in the replay, but for the flags that say something else."""
    from arena.branch import models_of

    given, usual = asking.options(), ModelFlags().options()
    kept = models_of(replay) or usual

    def changed(new: ChatOptions | Sampling, old: ChatOptions | Sampling) -> dict[str, Json]:
        names = [each.name for each in fields(old)]
        return {n: getattr(new, n) for n in names if getattr(new, n) != getattr(old, n)}

    sampling = replace(kept.sampling, **changed(given.sampling, usual.sampling))
    return replace(kept, **{**changed(given, usual), "sampling": sampling})


@dataclass(slots=True)
class Branches(Table):
    """Games that leave one replay at one position."""

    parent: Replay | None = None

    @property
    def origin(self) -> Position:
        assert self.start is not None
        return self.start

    def stem(self, seed: int) -> str:
        name = self.origin.parent.removesuffix(".part").removesuffix(".jsonl")[:LONGEST_STEM]
        return f"{name}-branch{len(self.origin.plies)}-seed{seed}"

    def to_json(self) -> dict[str, Json]:
        assert self.parent is not None
        outcome = self.parent.outcome
        return {
            "parent": str(self.parent.path),
            "ply": len(self.origin.plies),
            "seeds": [self.seeds[0], self.seeds[-1]],
            "outcome": outcome.model_dump(mode="json", exclude={"type"}) if outcome else None,
            "seats": [self._seat(seat) for seat in range(len(self.specs))],
            "games": self.results,
        }

    def _seat(self, seat: int) -> dict[str, Json]:
        from arena.agent import shown
        from arena.evaluation.intervals import rate

        assert self.parent is not None
        outcome, played = self.parent.outcome, len(self.results)
        earned = [result["returns"][seat] for result in self.results]
        return {
            "seat": seat,
            "player": shown(self.specs[seat]),
            "player_before": self.origin.header.players[seat],
            "won": self.wins(seat),
            "games": played,
            "win_rate": rate(self.wins(seat), played).to_json(),
            "mean_return": sum(earned) / played if played else None,
            "return_before": outcome.returns[seat] if outcome else None,
            "won_before": outcome.winner == seat if outcome else None,
        }

    def tell(self, interrupted: bool, as_json: bool) -> None:
        """A row per seat, and where to look."""
        if interrupted or len(self.results) < len(self.seeds):
            self.count_games(interrupted)
        if as_json or not self.results:
            return
        from rich.console import Console
        from rich.text import Text

        from arena.evaluation.tables import Grid

        several = len(self.results) > 1
        title = (
            f"{self.origin.parent} played on from ply {len(self.origin.plies)}: "
            f"{len(self.results)} {'games' if several else 'game'}, seed {self.seeds[0]}"
            f"{f' to {self.seeds[-1]}' if several else ''}"
        )
        headings = ["seat", "won", *(["95 %"] if several else []), "return", "in the parent"]
        rows = [_row(self._seat(seat), several) for seat in range(len(self.specs))]
        console = Console()
        console.print(Text(title, style="bold"))
        console.print(Grid(title, headings, rows).rich())
        print(
            f"Look: arena replay {self.results[0]['replay']}, or all: arena replay {self.out} --web"
        )


def _row(seat: dict[str, Json], several: bool) -> list[str]:
    before, player = seat["player_before"], seat["player"]
    who = player if player == before else f"{player} (was {before})"
    rate, earned = seat["win_rate"], seat["return_before"]
    result = "won" if seat["won_before"] else "not won"
    return [
        f"{seat['seat']} {who}",
        f"{seat['won']} of {seat['games']}",
        *([f"{rate['low']:.0%} to {rate['high']:.0%}"] if several else []),
        f"{seat['mean_return']:.3g}",
        "unfinished" if earned is None else f"{result}, {earned:g}",
    ]


def ask(
    replay: Replay,
    what_if: WhatIfFlags,
    seats: list[str],
    out: Path | None,
    asking: ModelFlags,
    as_json: bool,
) -> int:
    """Ask somebody else at each decision, and compare with what was played."""
    from arena.cli.opinions import report
    from arena.second_opinion import SecondOpinion

    if out is not None:
        raise UsageError("--out: --ask writes no file; --json prints everything")
    (spec,) = seat_model(None, [what_if.ask or ""], [])
    options = replace(asked_how(replay, asking), beliefs=False, logprobs=False)
    opinion = SecondOpinion(
        replay,
        spec,
        _asked_seats(replay, seats),
        replay.header.seed if what_if.seed is None else what_if.seed,
        asking.service() if has_models([spec]) else None,
        options,
    )
    opinion.check()
    return report(opinion, what_if.at_once, as_json)


def _asked_seats(replay: Replay, given: list[str]) -> list[int]:
    """The seats at whose decisions somebody else is asked; all where none is named."""
    seats = range(replay.make_game().num_players)
    for text in given:
        if not (text.isascii() and text.isdecimal()) or int(text) not in seats:
            raise UsageError(
                f"--seat {text}: with --ask name a seat by its number, 0 to {seats[-1]}"
            )
    return sorted(map(int, given)) or list(seats)
