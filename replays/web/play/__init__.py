"""Play in a browser: games whose seats people take by links.

    documents.py    messages of the socket
    seat_view.py    what one seat, or a spectator, may be shown, and the actions that it may choose
    advice.py       a strong move, by what a seat knows; the help that was used
    links.py        what never changes in a game, its links, and the pages that are open there
    web_game.py     one game: its decisions, help, clock and replay
    web_games.py    the games of a server
    new_game.py     the form for a new game, and its answer; questions to a player
    routes.py       the page, the form and the sockets

A document for a seat is made only from events that the seat has witnessed and from its own
observation, never from the state, so that it cannot hold what the seat may not know.
"""
