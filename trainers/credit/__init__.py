"""Credit: how the rewards of games become advantages of single turns."""
