"""Hanabi: conventions and hat guessing beside the bots of the Hanabi Challenge.

N. Bard et al., "The Hanabi Challenge: a new frontier for AI research" (2020), arXiv:1902.00506,
quote SmartBot (A. O'Dwyer) and WTFWThat (J. Wu).
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from arena.cli.reproductions.run import ReproductionRun, Row, mean, returns
from arena.plugins.loader import make_game

README = "github.com/Quuxplusone/Hanabi, README"
BARD = "arXiv:1902.00506, from memory, as the stored text ends before its table"
SMART = {2: "22.99; 23.09", 3: "23.30", 4: "22.44", 5: "20.69"}
HATS = {3: "24.20; 24.26", 4: "24.83; 24.86", 5: "24.89; 24.89"}


async def rows(run: ReproductionRun) -> AsyncIterator[Row]:
    """Yield the mean score of each bot with itself."""
    for players, published in SMART.items():
        yield await _row(run, "conventions", players, published, 300 if players == 2 else 150)
    for players, published in HATS.items():
        yield await _row(run, "hats", players, published, 200)


async def _row(run: ReproductionRun, bot: str, players: int, published: str, games: int) -> Row:
    game = make_game("hanabi", players=players)
    seats = [f"bot:{bot}"] * players
    scores = await run.play(f"{bot}, {players}", game, seats, returns, games)
    theirs = "SmartBot" if bot == "conventions" else "WTFWThat; InfoBot, its translation"
    perfect = sum(score[0] == 25 for score in scores) / len(scores)
    return Row(
        quantity=f"`bot:{bot}`, {players} players",
        published=f"{published} ({theirs})",
        source=f"{BARD}; second number: {README}" if ";" in published else README,
        measured=mean([score[0] for score in scores]),
        unit="points",
        note=f"{100 * perfect:.0f} % perfect games. {NOTES[bot]}",
    )


NOTES = {
    "conventions": "Conventions of the same kind, not the same ones: no finesse, and a player "
    "never infers from what another one did not do.",
    "hats": "The same idea with a code of its own: a hint has 4 (n - 1) meanings, and the question "
    "is a tree that is grown for the hand.",
}
