"""Talk, measured with ground truth: claims read from speech, and judged by exact knowledge."""
