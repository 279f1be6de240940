"""Battleship: find and sink the other player's hidden fleet."""
