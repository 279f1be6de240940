"""Configuration of a training run: fields, presets and their sources."""
