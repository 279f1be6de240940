"""Cluedo (Clue): rules, text, exact knowledge and bots."""
