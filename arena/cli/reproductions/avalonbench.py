"""AvalonBench: how often good wins, and how much that says about the opponents.

J. Light, M. Cai, S. Shen and Z. Hu, "AvalonBench: evaluating LLMs playing the game of Avalon"
(2023), arXiv:2310.05036, abstract: good bots win 38.2 % against evil bots, ChatGPT 22.2 %.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from arena.cli.reproductions.run import Numbers, ReproductionRun, Row, by_team, share, times
from arena.core.game import Game
from arena.episodes.record import Episode
from arena.plugins.loader import make_game
from games.avalon.moves import GOOD, EvilRevealed

SOURCE = "arXiv:2310.05036, abstract"
BOTS = ("naive", "deducer", "random")


def result(_: Game, episode: Episode) -> Numbers:
    """Measure whether good won, and whether it reached three successful missions."""
    good = episode.outcome.teams.index(GOOD)
    revealed = any(isinstance(event, EvilRevealed) for ply in episode.plies for event in ply.events)
    return float(episode.outcome.returns[good] > 0), float(revealed)


async def rows(run: ReproductionRun) -> AsyncIterator[Row]:
    """Yield the rows."""
    game = make_game("avalon", players=5, roles="merlin", talk=0)
    games = await run.play("naive, naive", game, by_team(game, "naive", "naive"), result, 1500)
    reached = share([number[1] for number in games])
    yield Row(
        quantity="good bots win against evil bots, all by the rules of the paper",
        published="38.2 %",
        source=SOURCE,
        measured=share([number[0] for number in games]),
        unit="%",
        digits=1,
        note="Bots written anew after the authors' program. Five players, Merlin, two servants, "
        "Assassin and Minion, no talk. A fifth proposal passes without a vote there; here all "
        "bots approve it.",
    )
    yield Row(
        quantity="the same: good completes three missions",
        measured=reached,
        unit="%",
        digits=1,
        note="The Assassin names one of three good players at random, so good wins 2/3 of these.",
    )
    yield Row(
        quantity="the same, if the Assassin names any of the five players",
        published="46 %, 3,000 games of the authors' program of 29 September 2023",
        source="github.com/jonathanmli/Avalon-LLM, commit b2eac8d, run by us",
        measured=times(reached, 4 / 5),
        unit="%",
        digits=1,
        note="That version of the program lets the Assassin name itself and its ally, so 4/5 of "
        "these games are won. The published 38.2 % fits the later rule: a good player is named.",
    )
    one = await run.play("one", game, by_team(game, "naive", "naive", "random"), result, 500)
    yield Row(
        quantity="one good player moves at random beside good bots",
        published="22.2 % (ChatGPT in this seat)",
        source=SOURCE,
        measured=share([number[0] for number in one]),
        unit="%",
        digits=1,
        note="ChatGPT is not repeated here: it needs a key. Random moves in its seat are the "
        "floor of that measurement. The abstract gives no number of games.",
    )
    for good in BOTS:
        for evil in BOTS:
            if (good, evil) != ("naive", "naive"):
                seats = by_team(game, good, evil)
                games = await run.play(f"{good}, {evil}", game, seats, result, 200)
                yield Row(
                    quantity=f"good `{good}` against evil `{evil}`",
                    measured=share([number[0] for number in games]),
                    unit="%",
                    digits=1,
                )
