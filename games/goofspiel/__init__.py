"""Goofspiel: simultaneous sealed bids for prizes."""
