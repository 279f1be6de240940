"""`arena replay --branch` and `--ask`: what other players would have done."""

from __future__ import annotations

import random
import shlex
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.common.models import ModelFlags, has_models, seat_model
from arena.cli.common.options import specs_from_flags
from arena.cli.common.table import Table, check, run
from arena.core.errors import UsageError
from arena.core.spec import shown
from arena.core.text import LONGEST_QUOTE, counted, shortened

if TYPE_CHECKING:
    from arena.agents.prompt import ChatOptions
    from arena.cli.replaying.call import Call
    from arena.core.game import Game
    from arena.core.json import Json
    from arena.episodes.record import Position
    from arena.episodes.replay import Replay
    from arena.llm.backend import Sampling

FOLDER = Path("runs/branch")
SHIPPED = ("embedded", "embedded:clue-tiny")
"""The models that a replay may choose: another name after the colon may be a folder."""
LONGEST_STEM = 120
"""Characters of the parent's name: a branch of a branch of a branch has a long one."""


def branch(call: Call) -> int:
    """Play on from a position, and say what came of it."""
    from arena.episodes.branch import deals_anew, position, turns_left

    replay, what_if = call.replay(), call.what_if
    game = replay.make_game()
    start = position(replay, what_if.branch or 0)
    specs = _players(replay, game, call.look.seat)
    if deals_anew(replay, start):
        print(
            f"note: at position {len(start.plies)} nobody has moved; it is dealt anew",
            file=sys.stderr,
        )
    seed = what_if.seed
    first = random.SystemRandom().randrange(2**31) if seed is None else seed
    table = Branches(
        game=game,
        specs=specs,
        seeds=range(first, first + what_if.games),
        out=FOLDER if call.data.out is None else call.data.out,
        text_level=replay.header.text_level,
        max_turns=turns_left(replay, start, game),
        delay=0.0,
        watch=False,
        at_once=what_if.at_once,
        chat=asked_how(replay, call),
        llm=call.asking.service() if has_models(specs) else None,
        start=start,
        parent=replay,
    )
    check(table)
    return run(table, call.as_json)


def _players(replay: Replay, game: Game, seats: list[str]) -> list[str]:
    """The SPEC of every seat: the parent's where no --seat names another.

    A replay may come from anywhere. Its header must not spend money, choose whom requests and
    keys are sent to, or which files are read: so it only chooses what ships with the package.
    """
    given = specs_from_flags(game, seats)
    named = {int(text.partition("=")[0]) for text in seats}
    for seat, spec in enumerate(replay.header.players):
        if seat in named:
            continue
        if not (spec.startswith("bot:") or spec in SHIPPED):
            raise UsageError(_whom_instead(seat, shown(spec)))
        given[seat] = spec
    return seat_model(None, given, [])


def _whom_instead(seat: int, spec: str) -> str:
    from arena.plugins.loader import catalog

    known = {*catalog().names("agent"), *catalog().names("backend")}
    again = ""
    if spec.partition(":")[0] in known and len(spec) <= LONGEST_QUOTE:
        again = f"; for the same again: --seat {shlex.quote(f'{seat}={spec}')}"
    return (
        f"seat {seat} was played by '{shortened(spec)}', and a replay chooses only bots and "
        f"{SHIPPED[-1]}: say who plays on, with --seat {seat}=SPEC{again}"
    )


def asked_how(replay: Replay, call: Call) -> ChatOptions:
    """As models were asked in the replay, but for the flags that say something else.

    What makes requests expensive is never more than the flags, or their defaults, allow.
    """
    from arena.episodes.branch import models_of

    given, usual = call.asking.options(), ModelFlags().options()
    kept = models_of(replay) or usual
    named = call.named & {each.name for each in fields(ModelFlags)} - {"max_tokens"}
    if "answer_tokens" in named:  # Called `max_tokens` here; the flag of that name is a budget.
        named |= {"max_tokens"}

    def changed(new: ChatOptions | Sampling, old: ChatOptions | Sampling) -> dict[str, Json]:
        values = {each.name: getattr(new, each.name) for each in fields(old)}
        return {n: v for n, v in values.items() if n in named or v != getattr(old, n)}

    sampling = replace(kept.sampling, **changed(given.sampling, usual.sampling))
    asked = replace(kept, **changed(given, usual))
    return replace(
        asked,
        max_attempts=min(asked.max_attempts, given.max_attempts),
        beliefs=asked.beliefs and given.beliefs,
        sampling=replace(sampling, max_tokens=min(sampling.max_tokens, given.sampling.max_tokens)),
    )


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
        from arena.evaluation.statistics.intervals import rate

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

        from arena.evaluation.output.tables import Grid

        several = len(self.results) > 1
        title = (
            f"{self.origin.parent} played on from position {len(self.origin.plies)}: "
            f"{counted(len(self.results), 'game')}, seed {self.seeds[0]}"
            f"{f' to {self.seeds[-1]}' if several else ''}"
        )
        headings = ["seat", "won", *(["95 %"] if several else []), "return", "in the parent"]
        rows = [_row(self._seat(seat), several) for seat in range(len(self.specs))]
        console = Console()
        console.print(Text(title, style="bold"))
        console.print(Grid(title, headings, rows).rich(console.width))
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


def ask(call: Call) -> int:
    """Ask somebody else at each decision, and compare with what was played."""
    from arena.cli.replaying.policy_agreement import report
    from arena.episodes.policy_agreement import SecondOpinion

    replay, seed = call.replay(), call.what_if.seed
    (spec,) = seat_model(None, [call.what_if.ask or ""], [])
    flags = sorted(call.named & {each.name for each in fields(ModelFlags)})
    if flags and not has_models([spec]):
        raise UsageError(f"--{flags[0].replace('_', '-')}: '{shown(spec)}' is no model")
    options = replace(asked_how(replay, call), beliefs=False, logprobs=False)
    opinion = SecondOpinion(
        replay,
        spec,
        _asked_seats(replay, call.look.seat),
        replay.header.seed if seed is None else seed,
        call.asking.service() if has_models([spec]) else None,
        options,
    )
    opinion.check()
    return report(opinion, call.what_if.at_once, call.as_json)


def _asked_seats(replay: Replay, given: list[str]) -> list[int]:
    """The seats at whose decisions somebody else is asked; all where none is named."""
    seats = range(replay.make_game().num_players)
    for text in given:
        if not (text.isascii() and text.isdecimal()) or int(text) not in seats:
            raise UsageError(
                f"--seat {text}: with --ask name a seat by its number, 0 to {seats[-1]}"
            )
    return sorted(set(map(int, given))) or list(seats)
