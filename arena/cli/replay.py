"""`arena replay`: look at finished games, check them, play on from one, export them as data."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.cli.game_run import GameRun
from arena.cli.options import (
    ModelOptions,
    OutputOptions,
    SeedOptions,
    has_models,
    named_seats,
    seat_model,
)
from arena.cli.terminal import check_file, counter, echo, print_copies, print_result
from arena.core.errors import ReplayError, UsageError
from arena.core.spec import redacted
from arena.core.text import pluralize, printable, shorten
from arena.llm.config import Config, argument, setting

if TYPE_CHECKING:
    from pydantic import JsonValue

    from arena.agents.chat import ChatOptions
    from arena.core.game import Game
    from arena.episodes.record import Position
    from arena.episodes.replay import Replay
    from arena.llm.backend import Sampling
    from trainers.export.exporter import ExportResult

SUFFIXES = frozenset({".jsonl", ".json", ".parquet", ".csv", ".html", ".txt"})
"""Suffixes with a known meaning; a file of another format must not have one of them."""
NAMED = 10
"""Files that were left out and are named; the rest is counted. --json names all."""
SHIPPED = ("embedded", "embedded:clue-tiny")
"""The models that a replay may choose: another name after the colon may be a folder."""
LONGEST_STEM = 120
"""Characters of the parent's name: a branch of a branch of a branch has a long one."""


class ReplayOptions(Config):
    """One replay."""

    path: Path = argument(metavar="FILE")
    """A replay (.jsonl)."""

    def replay(self) -> Replay:
        """Read the replay. Raises ReplayError for another file, UsageError for a folder or none."""
        from arena.episodes.files import check_exists
        from arena.episodes.replay import read_replay

        check_exists(self.path)
        if self.path.is_dir():
            raise UsageError(
                f"{self.path} is a folder, and this takes one file; `arena replay {self.path} "
                "--web` lists what is in it"
            )
        return read_replay(self.path)


class ViewOptions(ReplayOptions):
    """Options of `arena replay view`."""

    path: Path = argument()
    """A replay (.jsonl); with --web also a folder of them."""
    position: int | None = setting(None, ge=0)
    """Position N, after N plies."""
    seat: int | None = setting(None, ge=0)
    """Only what this seat could see."""
    web: bool = setting(False, flag="--web")
    """Serve a page to a browser on this machine."""
    port: int = setting(8765, ge=0, le=65535)
    """With --web: the port; 0: any that is free."""
    html: Path | None = setting(None)
    """Write the page with this one game to a file that works offline."""

    def moment(self) -> tuple[Replay, int | None, int | None]:
        """Return the replay, --position and --seat; raises UsageError for what it lacks."""
        replay = self.replay()
        if self.position is not None and self.position > len(replay.moves):
            plies = pluralize(len(replay.moves), "ply")
            raise UsageError(f"--position {self.position}: {replay.path} has {plies}")
        if self.seat is not None and self.seat >= (seats := replay.make_game().num_players):
            raise UsageError(f"--seat {self.seat}: {replay.path} has seats 0 to {seats - 1}")
        return replay, self.position, self.seat


def view(options: ViewOptions) -> int:
    """Step through a replay in the terminal, or show it in a browser.

    arena replay FILE --position 20 --seat 0

    arena replay FOLDER --web
    """
    if options.web and options.html:
        raise UsageError("--html and --web: one of them at a time")
    if options.web:
        from replays.web import serve

        return serve(options.path, options.port, _fragment(options))
    replay, ply, seat = options.moment()
    if options.html is None:
        from replays.tui.viewer import step_through

        step_through(replay, ply, seat)
    elif ply is not None:
        raise UsageError("--position goes with --web or the terminal, not with --html")
    else:
        from replays.web.bundle import write_bundle

        check_file("--html", options.html)
        write_bundle(replay, seat, options.html)
    return 0


def _fragment(options: ViewOptions) -> str:
    """Return the fragment of the page's address for --position and --seat; "" without them."""
    if options.position is None and options.seat is None:
        return ""
    if options.path.is_dir():
        raise UsageError("--position and --seat with --web: name the replay that they are about")
    _, ply, seat = options.moment()
    fields = {"at": ply, "seat": seat}
    return "#" + "&".join(f"{name}={value}" for name, value in fields.items() if value is not None)


class VerifyReplayOptions(OutputOptions):
    """Options of `arena replay verify`."""

    paths: list[Path] = argument(metavar="PATH...")
    """Replays (.jsonl), or folders of them."""


def verify_replay(options: VerifyReplayOptions) -> int:
    """Play the games again by the rules; name the first difference of each, and exit with 1.

    With --json there is a line for each replay.
    """
    from arena.episodes.replay import UNPROVEN
    from arena.evaluation.analysis import find_files

    files = find_files(options.paths)
    verified = sum(_verify(path, options.as_json) for path in files)
    if not options.as_json:
        if len(files) > 1:
            echo(f"{verified} of {len(files)} replays verified")
        if verified:
            echo(UNPROVEN)
    return 0 if verified == len(files) else 1


def _verify(path: Path, as_json: bool) -> bool:
    """Compare one replay with the rules and print the result; return whether they agree."""
    from arena.episodes.replay import UNPROVEN, read_replay, verify

    replay: Replay | None
    try:
        replay = read_replay(path)
        difference = verify(replay)
    except ReplayError as error:  # The other files are verified all the same.
        replay, difference = None, str(error)
    if as_json:
        complete = replay is not None and replay.outcome is not None
        found = {"verified": difference is None, "difference": difference, "unproven": UNPROVEN}
        print(json.dumps({"replay": str(path), **found, "complete": complete}))
    elif replay is None:
        echo(printable(f"{difference}"))
    elif difference:
        echo(printable(f"{path}: differs at {difference}"))
    else:
        state = "verified" if replay.outcome else "verified as far as it goes"
        echo(printable(f"{path}: {state}, {pluralize(len(replay.moves), 'ply')}"))
    if replay and replay.notice and not as_json:
        echo(replay.notice)
    return difference is None


class ExportOptions(OutputOptions):
    """Options of `arena replay export`."""

    paths: list[Path] = argument(metavar="PATH...")
    """Replays (.jsonl), or folders of them."""
    format: str = setting("chat")
    """chat or parquet: what models read and wrote."""
    reward: str = setting("")
    """TERM=WEIGHT,…: what the column 'reward' holds, in the words of arena train --reward. Default:
    the game's own reward."""
    out: Path | None = setting(None)
    """File of the data."""


def export(options: ExportOptions) -> int:
    """Write the replays to one file; an existing one is replaced when the new one is complete.

    arena replay export FOLDER --format chat --out games.jsonl
    """
    from trainers.export.exporter import export_format, export_replays

    form = export_format(options.format)
    out, suffix = options.out or Path(f"replays-{form.suffix}"), Path(form.suffix).suffix
    if out.suffix.lower() in SUFFIXES - {suffix}:
        raise UsageError(
            f"--out {out}: --format {options.format} writes {suffix}; name the file "
            f"{out.with_suffix(suffix)}"
        )
    with counter("replays") as count:
        exported = export_replays(options.paths, out, form, options.reward, count)
    _print_result(exported, options.as_json)
    return 0


def _print_result(exported: ExportResult, as_json: bool) -> None:
    from trainers.export.exporter import summarise_reasons

    for skipped in exported.skipped[:NAMED]:
        echo(printable(f"skipped {skipped.path}: {skipped.reason}"), file=sys.stderr)
    more = exported.skipped[NAMED:]
    if more:
        why = "; ".join(summarise_reasons(more))
        echo(printable(f"skipped {pluralize(len(more), 'more file')}; {why}"), file=sys.stderr)
    print_copies(exported.copies)
    counts = {"rows": exported.rows, "games": exported.games, "copies": exported.copies}
    left_out = [{"path": str(each.path), "reason": each.reason} for each in exported.skipped]
    rows, games = pluralize(exported.rows, "row"), pluralize(exported.games, "game")
    text = printable(f"wrote {rows} of {games} to {exported.file}")
    print_result(as_json, {**counts, "skipped": left_out, "file": str(exported.file)}, text)


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
    out: Path = setting(Path("runs/branch"))
    """Folder for the replays."""


def branch(options: BranchOptions) -> int:
    """Let other players play on from a position of a replay, with the same hidden cards."""
    from arena.episodes.branch import position, redraws_deal, turns_left
    from arena.episodes.match import Match

    replay = options.replay()
    game = replay.make_game()
    start = position(replay, options.position)
    specs = _players(replay, game, options.seat)
    if redraws_deal(replay, start):
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
    default = ModelOptions().chat_options()
    kept = models_of(replay) or default
    named = options.given_by("flag")

    def changed(new: ChatOptions | Sampling, old: ChatOptions | Sampling) -> dict[str, Any]:
        values = {each.name: getattr(new, each.name) for each in fields(old)}
        return {n: v for n, v in values.items() if n in named or v != getattr(old, n)}

    sampling = replace(kept.sampling, **changed(given.sampling, default.sampling))
    asked = replace(kept, **changed(given, default))
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
