"""Parts that some levels are made of: suites of rooms, doors with keys, names of things, what one carries."""
