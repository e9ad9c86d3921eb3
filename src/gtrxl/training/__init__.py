"""Running: the compiled loop, and the mutable shell around it: checkpoints, metric rows, the live view."""
