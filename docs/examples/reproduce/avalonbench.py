"""AvalonBench: how often good wins, by its opponents; `python avalonbench.py [GAMES]`.

Published: good bots win 38.2 % against evil bots, ChatGPT 22.2 % in a good seat (J. Light, M. Cai,
S. Shen and Z. Hu, "AvalonBench", 2023, arXiv:2310.05036, abstract). The bots `naive` were written
anew after the authors' program: five players, Merlin, two servants, Assassin and Minion, no talk.
"""

from __future__ import annotations

from played import play_games, share
from roles import by_team

from arena import Episode, Game, make_game
from games.avalon.rules import GOOD, EvilRevealed


def result(_: Game, episode: Episode) -> tuple[bool, bool]:
    """Return whether good won, and whether it completed three missions."""
    good = episode.outcome.teams.index(GOOD)
    revealed = any(isinstance(event, EvilRevealed) for ply in episode.plies for event in ply.events)
    return episode.outcome.returns[good] > 0, revealed


if __name__ == "__main__":
    game = make_game("avalon", players=5, roles="merlin", talk=0)
    found = play_games(game, by_team(game, "naive", "naive"), result, 1500)
    print("good `naive` against evil `naive`:", share([won for won, _ in found]))
    # The Assassin names one of three good players at random, so good wins 2/3 of these.
    print("good completes three missions:", share([reached for _, reached in found]))
    found = play_games(game, by_team(game, "naive", "naive", "random"), result, 500)
    print("one good player moves at random:", share([won for won, _ in found]))
    for good in ("naive", "deducer", "random"):
        for evil in ("naive", "deducer", "random"):
            if (good, evil) != ("naive", "naive"):
                found = play_games(game, by_team(game, good, evil), result, 200)
                print(f"good `{good}` against evil `{evil}`:", share([won for won, _ in found]))
