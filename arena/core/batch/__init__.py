"""Many states of one game at once, as arrays.

state_batch.py     the seam: what vectorised environments need of a game
tabulated.py       batches of small games, from a table that the game's own rules fill
chance_streams.py  the random generators of many games, equal to those of single games
"""
