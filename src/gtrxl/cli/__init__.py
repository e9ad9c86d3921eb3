"""The command `gtrxl`: parse, call, print."""
