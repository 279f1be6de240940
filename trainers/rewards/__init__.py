"""Rewards of a finished game for the seat that learns: a weighted sum of named terms.

    rewards = Rewards.parse("win=1,entropy_removed=0.5", game)
    breakdown = rewards.score(SeatEpisode(game, episode, seat))

terms.py    the generic terms, each a `RewardTerm`; the catalog's kind `reward`
scoring.py  from the text of --reward to a number
"""

from arena.episodes.measurement import RewardTerm, SeatEpisode
from trainers.rewards.scoring import RewardBreakdown, Rewards, TermSummary, default_reward

__all__ = [
    "RewardBreakdown",
    "RewardTerm",
    "Rewards",
    "SeatEpisode",
    "TermSummary",
    "default_reward",
]
