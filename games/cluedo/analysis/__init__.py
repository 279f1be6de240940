"""Assessment of play by exact knowledge."""
