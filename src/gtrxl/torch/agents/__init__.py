"""A whole trained agent in PyTorch: built as the run's settings say, filled with its weights, acting."""
