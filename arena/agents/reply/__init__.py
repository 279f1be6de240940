"""Parser that finds the action in the reply of a language model."""
