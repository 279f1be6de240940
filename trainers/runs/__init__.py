"""Model, files, figures and sentences of training runs; checks of the machine's health."""
