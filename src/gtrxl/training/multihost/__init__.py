"""One run on several machines."""
