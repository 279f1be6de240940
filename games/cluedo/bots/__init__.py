"""Bots of increasing strength; each beats the one before it.

- `Random`: any legal move; accuses at random, rarely.
- `Novice`: excludes only the cards that it has seen.
- `Detective`: knows everything that logically follows; asks about unknown cards.
- `Oracle`: exact probabilities; asks for the most information, accuses when it pays.
"""
