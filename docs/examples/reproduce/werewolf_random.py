"""Werewolf by chance, and a seer's worth; `python werewolf_random.py [GAMES]`.

P. Migdał, "A mathematical model of the Mafia game" (2010), arXiv:1009.1031: by day a player is
eliminated at random, at night the mafia kills a citizen. With M of n players in the mafia, the day
changes E[C(M, k)] by the factor (1 - k/n), so the mafia wins with probability

    w(n, m) = 1 - sum_k (-1)^k C(m, k) prod_{j = n, n-2, ... > 1} (j - k) / j.

Published for a seer (31,479 games of eight models, yui-sh.github.io/blog/werewolf/stats.html): the
village wins 79.4 % of the games in which the seer found a wolf, 41.7 % of the others.
"""

from __future__ import annotations

from functools import cache
from math import comb, prod

from played import play_games, share
from roles import by_team

from arena import Episode, Game, make_game
from games.werewolf.rules import VILLAGE, SeerSaw


def closed_form(players: int, wolves: int) -> float:
    """Return w(n, m)."""
    days = range(players, 1, -2)
    terms = (comb(wolves, k) * prod((j - k) / j for j in days) for k in range(wolves + 1))
    return 1 - sum((-1) ** k * term for k, term in enumerate(terms))


@cache
def recursion(players: int, wolves: int, parity: bool) -> float:
    """Return the wolves' chance at the beginning of a day; `parity`: they win with half of all."""
    if wolves == 0:
        return 0.0
    if players <= wolves or (parity and 2 * wolves >= players):
        return 1.0
    hit = wolves / players
    return hit * night(players - 1, wolves - 1, parity) + (1 - hit) * night(
        players - 1, wolves, parity
    )


def night(players: int, wolves: int, parity: bool) -> float:
    """Return the wolves' chance after a day: the game is over, or they kill a citizen."""
    over = wolves == 0 or players <= wolves or (parity and 2 * wolves >= players)
    return float(wolves > 0) if over else recursion(players - 1, wolves, parity)


def result(_: Game, episode: Episode) -> tuple[bool, bool]:
    """Return whether the village won, and whether the seer found a wolf."""
    village = episode.outcome.teams.index(VILLAGE)
    events = (event for ply in episode.plies for event in ply.events)
    found = any(isinstance(event, SeerSaw) and event.is_wolf for event in events)
    return episode.outcome.returns[village] > 0, found


if __name__ == "__main__":
    for players, wolves in ((7, 2), (8, 2), (12, 3)):
        model, by_parity = (recursion(players, wolves, parity) for parity in (False, True))
        assert abs(model - closed_form(players, wolves)) < 1e-9
        options = {"players": players, "wolves": wolves, "talk": 0}
        game = make_game("werewolf", plain=True, quiet_first_night=True, **options)
        found = play_games(game, ["bot:crowd"] * players, result, 1000)
        print(f"{players} players, {wolves} wolves win by chance: {model:.4f} in the model,")
        print(f"  {by_parity:.4f} if they win with half of all; {share([not w for w, _ in found])}")
    game = make_game("werewolf", players=8, wolves=2, talk=1)
    tables = (("deducer", "random", 500), ("deducer", "deducer", 500), ("crowd", "crowd", 1000))
    for village, evil, games in tables:
        found = play_games(game, by_team(game, village, evil), result, games)
        print(f"village of `{village}` wins against wolves of `{evil}`")
        print("  if the seer found a wolf:", share([won for won, seen in found if seen]))
        print("  if it found none:", share([won for won, seen in found if not seen]))
