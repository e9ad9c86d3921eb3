"""A run's folder: settings, checkpoints, metric rows, and what is shown of them."""
