"""Analysis of one replay: timeline, exact posteriors, decisions and annotations as documents.

The page and the terminal show the same `ReplayAnalysis`; this package does not render anything.
"""
