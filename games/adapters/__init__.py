"""Games of other libraries: OpenSpiel, PettingZoo and TextArena, each a family of games."""
