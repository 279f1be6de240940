"""Hanabi: bots with conventions beside SmartBot, by players; `python hanabi.py [GAMES]`.

Published: SmartBot (A. O'Dwyer) has 22.99 points with 2 players in N. Bard et al., "The Hanabi
Challenge: a new frontier for AI research" (2020), arXiv:1902.00506, and 23.09, 23.30, 22.44 and
20.69 with 2 to 5 players in the README of github.com/Quuxplusone/Hanabi. The conventions of
`bot:conventions` are of the same kind, not the same: it has no finesse.
"""

from __future__ import annotations

from played import mean, play_games

from arena import Episode, Game, make_game


def score(_: Game, episode: Episode) -> float:
    """Return the common score."""
    return float(episode.outcome.returns[0])


if __name__ == "__main__":
    for players, games in ((2, 300), (3, 150), (4, 150), (5, 150)):
        game = make_game("hanabi", players=players)
        scores = play_games(game, ["bot:conventions"] * players, score, games)
        perfect = sum(points == 25 for points in scores) / len(scores)
        print(f"{players} players: {mean(scores)}; {perfect:.0%} perfect")
