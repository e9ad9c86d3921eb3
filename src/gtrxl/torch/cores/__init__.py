"""What remembers, in PyTorch: each module is the twin of the one of its name in `gtrxl.cores`."""
