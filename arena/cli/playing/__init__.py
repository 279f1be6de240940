"""Games of `arena play` and of branches: playing, display and results."""
