"""Text of Cluedo for models and people: descriptions, notebook and parsed beliefs."""
