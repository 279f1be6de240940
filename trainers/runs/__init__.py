"""Model, files and sentences of training runs; checks of the machine's health."""
