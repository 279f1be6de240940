"""Avalon: The Resistance with hidden roles, sealed votes and talk."""
