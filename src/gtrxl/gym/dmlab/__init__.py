"""The real DeepMind Lab, where it is installed: its levels, its scores, its cache of compiled maps."""
