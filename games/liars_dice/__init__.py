"""Liar's dice: bids on hidden dice, and challenges."""
