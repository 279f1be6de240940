"""The one published study of language models at Clue: what its 18 games show.

R. Ansell and A. Toney-Wails, "How Clued up are LLMs? Evaluating multi-step deductive reasoning in a
text-based game environment" (2026), arXiv:2603.17169: six agents of two models, 18 games, four
correct wins.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from arena.cli.reproductions.run import Numbers, ReproductionRun, Row, exact, share
from arena.core.game import Game
from arena.episodes.record import Episode
from arena.evaluation.paired import games_needed_for_rates
from arena.evaluation.records import Interval
from arena.evaluation.statistics import rate
from arena.plugins.loader import make_game

SOURCE = "arXiv:2603.17169, abstract"
WINS, GAMES = 4, 18
BOTS = {"random": 40, "novice": 100, "detective": 100, "oracle": 50}
"""Games of each bot."""


def solved(_: Game, episode: Episode) -> Numbers:
    """Measure whether a player accused rightly, and the turns until the end."""
    won = any(episode.outcome.is_winner(seat) for seat in range(len(episode.outcome.returns)))
    return float(won), float(episode.turns)


async def rows(run: ReproductionRun) -> AsyncIterator[Row]:
    """Yield the rows."""
    observed = WINS / GAMES
    yield Row(
        quantity="games with a right accusation",
        published=f"{WINS} of {GAMES}",
        source=SOURCE,
        measured=Interval.of(rate(WINS, GAMES)),
        unit="%",
        digits=0,
        note="Wilson's interval of the published count; the abstract gives none.",
    )
    for other in (1 / 3, 1 / 2, 3 / 4):
        needed = games_needed_for_rates(observed, other)
        assert needed is not None
        yield Row(
            quantity=f"games of each of two models that tell {observed:.0%} from {other:.0%}",
            published=f"{GAMES} in all",
            source=SOURCE,
            measured=exact(needed),
            digits=0,
            note="Independent games, power 80 %.",
        )
    half = GAMES // 2
    least = next(
        points
        for points in range(23, 101)
        if (games_needed_for_rates(observed, points / 100) or 0) <= half
    )
    yield Row(
        quantity=f"least rate that {half} games of each tell from {observed:.0%}",
        published="fine-tuning does not reliably improve performance",
        source=SOURCE,
        measured=exact(least / 100),
        unit="%",
        digits=0,
        note="So 18 games could not have shown an improvement unless it was larger than this.",
    )
    game = make_game("cluedo", players=6)
    for bot, number in BOTS.items():
        games = await run.play(bot, game, [f"bot:{bot}"] * 6, solved, number)
        turns = sum(length for _, length in games) / len(games)
        yield Row(
            quantity=f"games that six `bot:{bot}` solve",
            measured=share([won for won, _ in games]),
            unit="%",
            digits=0,
            note=f"{turns:.0f} turns in the mean. The study's text, board and limit of turns are "
            "not known here, so this is the scale and no repetition.",
        )
