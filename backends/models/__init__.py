"""Models on this machine: the list of checkpoints, and downloads of small pretrained ones."""
