"""Tic-tac-toe: three in a row, nothing hidden."""
