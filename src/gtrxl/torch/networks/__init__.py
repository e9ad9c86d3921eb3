"""What surrounds a core, in PyTorch: the modules of `gtrxl.networks` with the same parameters under the same names."""
