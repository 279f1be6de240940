"""The modes of `arena replay`: export, branches and policy agreement."""
