"""Published results, computed again with the bots, games and statistics of arena."""
