"""`arena play`: play games and write their replays."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import typer

from arena.cli import models
from arena.cli.flags import Flag


def play_command(
    game: Annotated[str, typer.Argument(help="The game; 'arena games' lists them.")],
    variant: Annotated[str | None, Flag(help="Variant of the game.")] = None,
    players: Annotated[int | None, Flag(help="Number of seats.")] = None,
    option: Annotated[
        list[str], Flag("--option", "-o", help="NAME=VALUE, any option of the game.")
    ] = [],  # noqa: B006 - typer reads the default, nobody changes it.
    seat: Annotated[
        list[str],
        Flag(
            help="I=SPEC: who sits there, e.g. 0=bot:oracle or 1=human ('arena agents' lists "
            "them). Default: bot:detective, or bot:random in games that have none."
        ),
    ] = [],  # noqa: B006
    seed: Annotated[
        int | None, Flag(min=0, max=2**53, help="Deal and dice. Default: drawn.")
    ] = None,
    games: Annotated[
        int, Flag(min=1, max=10**9, help="Games to play, on seeds SEED, SEED+1, …")
    ] = 1,
    out: Annotated[Path, Flag(help="Folder for the replays.")] = Path("runs/play"),
    text_level: Annotated[
        str, Flag(help="Help in the text: events, notes or deductions.")
    ] = "notes",
    max_turns: Annotated[
        int | None, Flag(min=1, help="Turns after which a game is cut off.")
    ] = None,
    delay: Annotated[float, Flag(min=0, max=3600, help="Seconds between moves.")] = 0.0,
    watch: Annotated[
        bool | None, Flag("--watch/--no-watch", help="Show the game. Default: one game.")
    ] = None,
    as_json: Annotated[bool, Flag("--json", help="Result as JSON, last line.")] = False,
    at_once: models.AtOnceFlag = 16,
    backend: models.BackendFlag = None,
    chat: models.ChatFlag = "append",
    answers: models.AnswersFlag = "text",
    guided: models.GuidedFlag = False,
    max_attempts: models.AttemptsFlag = 3,
    fallback: models.FallbackFlag = "random",
    beliefs: models.BeliefsFlag = False,
    logprobs: models.LogprobsFlag = False,
    temperature: models.TemperatureFlag = 1.0,
    top_p: models.TopPFlag = 1.0,
    answer_tokens: models.AnswerTokensFlag = 1024,
    max_cost: models.MaxCostFlag = None,
    max_tokens: models.MaxTokensFlag = None,
    cache: models.CacheFlag = None,
) -> int:
    """Play games and write a replay of each."""
    from arena.cli.options import game_from_flags, specs_from_flags, unnamed_seats
    from arena.cli.table import Table, check, run
    from arena.observation import TextLevel

    models.one_of("--text-level", text_level, TextLevel)
    the_game = game_from_flags(game, variant, players, option)
    flags = models.ModelFlags(
        backend=backend,
        chat=chat,
        answers=answers,
        guided=guided,
        max_attempts=max_attempts,
        fallback=fallback,
        beliefs=beliefs,
        logprobs=logprobs,
        temperature=temperature,
        top_p=top_p,
        answer_tokens=answer_tokens,
        max_cost=max_cost,
        max_tokens=max_tokens,
        cache=cache,
    )
    specs = flags.seat(specs_from_flags(the_game, seat), unnamed_seats(the_game, seat))
    first = seed if seed is not None else random.SystemRandom().randrange(2**31)
    table = Table(
        game=the_game,
        specs=specs,
        seeds=range(first, first + games),
        out=out,
        text_level=text_level,  # type: ignore[arg-type]
        max_turns=max_turns,
        delay=delay,
        watch=(games == 1 and not as_json) if watch is None else watch,
        at_once=at_once,
        chat=flags.options(),
        llm=flags.service() if models.has_models(specs) else None,
    )
    check(table)
    return run(table, as_json)
