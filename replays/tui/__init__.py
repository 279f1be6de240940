"""Viewers in the terminal: replays, running games and training runs."""
