"""Rules of Cluedo: board, cards, options, events and the state."""
