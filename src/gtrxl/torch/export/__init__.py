"""One step of an agent as a program that runs without this package: `gtrxl export --format onnx` and `--format torch`."""
