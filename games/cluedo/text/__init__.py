"""Text of Cluedo for models and people: descriptions and notebook."""
