"""Card games of POPGym, compiled: the same rules, observations and rewards as its environments have."""
