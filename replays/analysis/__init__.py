"""A replay, studied: what each seat could know, what it was asked, and what exact knowledge says.

The page and the terminal show the same `Study`; nothing here knows how it is drawn.
"""
