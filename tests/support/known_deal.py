"""A deal for three players that the tests of Cluedo know by heart."""

from games.cluedo.rules.board import Triple

ENVELOPE = Triple("Mrs White", "Rope", "Hall")
HANDS = (
    ("Miss Scarlett", "Colonel Mustard", "Candlestick", "Dagger", "Kitchen", "Ballroom"),
    ("Reverend Green", "Mrs Peacock", "Lead Piping", "Revolver", "Conservatory", "Library"),
    ("Professor Plum", "Spanner", "Billiard Room", "Study", "Lounge", "Dining Room"),
)
