"""Viewers and reports of games and runs."""
