"""Werewolf (Mafia): talk, elimination by vote, and secret actions at night."""
