"""Playing games: match, runner, the record of an episode, replays, verification and branches."""
