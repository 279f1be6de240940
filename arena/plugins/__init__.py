"""The catalog of plugins and the loader that fills it."""
