"""Views of a game for people: in a browser, in a terminal, as text."""
