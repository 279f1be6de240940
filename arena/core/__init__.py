"""The types of every game: Game, State, Action, Event, Observation, Outcome. No I/O."""
