"""Records of training runs: files, steps, figures and health checks."""
