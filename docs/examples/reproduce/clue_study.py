"""The one published study of language models at Clue, and bots: `python clue_study.py [GAMES]`.

R. Ansell and A. Toney-Wails, "How Clued up are LLMs? Evaluating multi-step deductive reasoning in a
text-based game environment" (2026), arXiv:2603.17169, abstract: six agents of two models, 18 games,
4 correct wins, and "fine-tuning does not reliably improve performance".
"""

from __future__ import annotations

import math

from played import play_games, share

from arena import Episode, Game, make_game
from arena.evaluation.statistics import rate

WINS, GAMES = 4, 18
Z_LEVEL, Z_POWER = 1.959964, 0.841621
"""Quantiles of the normal distribution: a two-sided level of 95 %, a power of 80 %."""


def solved(_: Game, episode: Episode) -> bool:
    """Return whether a player accused rightly."""
    return any(episode.outcome.is_winner(seat) for seat in range(len(episode.outcome.returns)))


def games_needed(first: float, second: float) -> int:
    """Return the games of each player, on independent deals, that distinguish two rates.

    Fleiss, Levin and Paik 2003, "Statistical methods for rates and proportions", formula 4.14.
    """
    mean = (first + second) / 2
    under_null = Z_LEVEL * math.sqrt(2 * mean * (1 - mean))
    under_alternative = Z_POWER * math.sqrt(first * (1 - first) + second * (1 - second))
    return math.ceil(((under_null + under_alternative) / (first - second)) ** 2)


if __name__ == "__main__":
    observed = rate(WINS, GAMES)
    print(f"right accusations: {observed.value:.0%} [{observed.low:.0%}, {observed.high:.0%}]")
    for other in (1 / 3, 1 / 2, 3 / 4):
        needed = games_needed(WINS / GAMES, other)
        print(f"games of each model that tell {WINS / GAMES:.0%} from {other:.0%}: {needed}")
    game = make_game("cluedo", players=6)
    for bot, games in {"random": 40, "novice": 100, "detective": 100, "oracle": 50}.items():
        print(f"six `bot:{bot}` solve", share(play_games(game, [f"bot:{bot}"] * 6, solved, games)))
