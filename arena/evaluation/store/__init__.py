"""Results of evaluations on disk, one SQLite file for each run."""
