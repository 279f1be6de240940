"""Bots of increasing strength; each beats the one before it.

- `Random`: any legal move; accuses at random, rarely.
- `Novice`: excludes only the cards that it has seen.
- `Detective`: knows everything that logically follows; asks about unknown cards.
- `Oracle`: exact probabilities; asks for the most information, accuses when it pays.
"""

from games.cluedo.bots.base import CluedoBot
from games.cluedo.bots.detective import Detective
from games.cluedo.bots.novice import Novice
from games.cluedo.bots.oracle import Oracle
from games.cluedo.bots.random_bot import Random

__all__ = ["CluedoBot", "Detective", "Novice", "Oracle", "Random"]
