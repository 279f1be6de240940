"""Results of evaluations on disk, one SQLite file for each run."""

RESULTS = "results.sqlite"
"""Name of the file in the folder of a run, beside the folder of its replays."""
