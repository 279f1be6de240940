"""The bots, a ladder: each rung beats the one below it.

- `Random`: any legal move; accuses at random, rarely.
- `Novice`: crosses off only the cards it was shown.
- `Detective`: knows everything that logically follows; suggests what it does not know.
- `Oracle`: exact probabilities; asks for the most information, accuses when that pays.
"""

from games.cluedo.bots.detective import Detective
from games.cluedo.bots.novice import Novice
from games.cluedo.bots.oracle import Oracle
from games.cluedo.bots.random_bot import Random
from games.cluedo.bots.sleuth import Sleuth

__all__ = ["Detective", "Novice", "Oracle", "Random", "Sleuth"]
