"""The parts of `arena train` and `arena runs`."""
