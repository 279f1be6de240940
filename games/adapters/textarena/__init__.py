"""TextArena's games of text: L. Guertler et al., "TextArena", arXiv 2504.11442."""
