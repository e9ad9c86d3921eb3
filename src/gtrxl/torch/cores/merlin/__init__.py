"""MERLIN and its control in PyTorch: steps and unrolls, as in `gtrxl.cores.merlin`. What predictions lose is computed in JAX."""
