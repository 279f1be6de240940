"""`arena bench`: its commands, and the run of a suite."""
