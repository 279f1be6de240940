"""Werewolf without knowledge, exactly and played, and how much a seer's find is worth.

P. Migdał, "A mathematical model of the Mafia game" (2010), arXiv:1009.1031: by day a player is
eliminated at random, at night the mafia kills a citizen. With n players, m of them mafia, at the
beginning of a day, the mafia wins with probability

    w(n, m) = m/n w(n - 2, m - 1) + (1 - m/n) w(n - 2, m).

Here is a proof of a closed form. One day changes E[C(M, k)] by the factor (1 - k/j), with M the
number of mafia and j that of players; the probability of M = 0 is sum_k (-1)^k E[C(M, k)]. So

    w(n, m) = 1 - sum_k (-1)^k C(m, k) prod_{j = n, n-2, ... > 1} (j - k) / j.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from math import comb, prod

from arena.cli.reproductions.run import Numbers, ReproductionRun, Row, by_team, exact, share
from arena.core.game import Game
from arena.episodes.record import Episode
from arena.plugins.loader import make_game
from games.werewolf.moves import VILLAGE, SeerSaw

MIGDAL = "arXiv:1009.1031"
KAGGLE = "yui-sh.github.io/blog/werewolf/stats.html: 31,479 games of eight models on Kaggle"
SIZES = ((7, 2), (8, 2), (12, 3))
"""Players and wolves."""


def closed_form(players: int, wolves: int) -> float:
    """Return w(n, m); see the head of this file."""
    days = range(players, 1, -2)
    return 1 - sum(
        (-1 if k % 2 else 1) * comb(wolves, k) * prod((j - k) / j for j in days)
        for k in range(wolves + 1)
    )


@cache
def recursion(players: int, wolves: int, parity: bool) -> float:
    """Return the wolves' chance at the beginning of a day; `parity`: they win with half of all."""
    if wolves == 0:
        return 0.0
    if players <= wolves or (parity and 2 * wolves >= players):
        return 1.0
    lynched = wolves / players
    # After the day the rule of parity holds before the night, too, and that of the end after it.
    parts = ((lynched, wolves - 1), (1 - lynched, wolves))
    return sum(chance * _after_day(players - 1, left, parity) for chance, left in parts)


def _after_day(players: int, wolves: int, parity: bool) -> float:
    over = wolves == 0 or (parity and 2 * wolves >= players) or players <= wolves
    return float(wolves > 0) if over else recursion(players - 1, wolves, parity)


def result(_: Game, episode: Episode) -> Numbers:
    """Measure whether the village won, and whether the seer found a wolf."""
    village = episode.outcome.teams.index(VILLAGE)
    events = (event for ply in episode.plies for event in ply.events)
    found = any(isinstance(event, SeerSaw) and event.is_wolf for event in events)
    return float(episode.outcome.returns[village] > 0), float(found)


async def rows(run: ReproductionRun) -> AsyncIterator[Row]:
    """Yield the rows."""
    for players, wolves in SIZES:
        setting = f"{players} players, {wolves} wolves"
        yield Row(
            quantity=f"wolves win by chance, {setting}, day first: recursion",
            published=f"{closed_form(players, wolves):.4f} (closed form)",
            source=MIGDAL,
            measured=exact(recursion(players, wolves, parity=False)),
            digits=4,
            note="The model of the paper. Its closed form could not be read here, so it was "
            "derived from the model; both agree for all sizes up to 40.",
        )
        options = {"players": players, "wolves": wolves, "talk": 0}
        game = make_game("werewolf", plain=True, quiet_first_night=True, **options)
        games = await run.play(setting, game, ["bot:crowd"] * players, result, 1000)
        yield Row(
            quantity=f"the same, if wolves win with half of all players: {setting}, played",
            published=f"{recursion(players, wolves, parity=True):.4f} (recursion)",
            measured=share([not village for village, _ in games]),
            digits=4,
            note="The usual rule, and arena's: in the model one citizen may still eliminate one "
            "mafioso by luck. `bot:crowd` plays, without seer and doctor.",
        )
    async for row in _seers(run):
        yield row


async def _seers(run: ReproductionRun) -> AsyncIterator[Row]:
    """Yield what a village wins with and without a find of the seer."""
    game = make_game("werewolf", players=8, wolves=2, talk=1)
    for village, wolves, number in TABLES:
        title, seats = f"{village} against {wolves}", by_team(game, village, wolves)
        games = await run.play(title, game, seats, result, number)
        is_first = (village, wolves, number) == TABLES[0]
        for found, published in ((True, "79.4 %"), (False, "41.7 %")):
            yield Row(
                quantity=f"village of `{village}` wins against wolves of `{wolves}` if the seer "
                + ("found a wolf" if found else "found none"),
                published=published if is_first else "",
                source=KAGGLE if is_first else "",
                measured=share([won for won, seen in games if bool(seen) == found]),
                unit="%",
                digits=1,
                note=NOTES[village, wolves] if found else "",
            )


TABLES = (("deducer", "random", 500), ("deducer", "deducer", 500), ("crowd", "crowd", 1000))
NOTES = {
    ("deducer", "random"): "The same roles as there: 8 players, 2 wolves, a seer, a doctor. There "
    "ties are broken at random, and models talk freely; here a tie eliminates no player, and the "
    "bots talk in fixed sentences.",
    ("deducer", "deducer"): "Wolves that hide and hunt the seer: the figures say as much about the "
    "wolves as about the village.",
    ("crowd", "crowd"): "No player uses what the seer sees. A difference would be selection: the "
    "seer finds more in games in which it lives longer.",
}
