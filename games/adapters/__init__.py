"""Games of other libraries: OpenSpiel and TextArena, each a family of games."""
