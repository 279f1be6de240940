"""Plugin that runs in vLLM's own environment; the trainer uses its functions too."""
